// ORDER-1, ORDER-2 over random data sets, shares and batch sizes. COHORT_SEED=n replays one.
#include "runtime/tasks/data_order.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "runtime/base/rng.hpp"

namespace cohort::tasks {
namespace {

using Rows = std::map<std::string, std::vector<size_t>>;

uint64_t base_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 17;
}

struct Plan {
  DataOrderOptions options;
  Rows rows;
  size_t prompts = 0;
};

/// One to four domains with random shares; each has rows enough for its part.
Plan random_plan(Rng& rng) {
  Plan plan;
  plan.options.seed = rng.next_u64();
  plan.options.is_shuffled = rng.below(4) != 0;
  plan.options.epoch_end = rng.below(2) == 0 ? EpochEnd::flow : EpochEnd::drop;
  plan.prompts = 1 + rng.below(40);
  const uint64_t domains = 1 + rng.below(4);
  std::vector<double> weights;
  double sum = 0;
  for (uint64_t i = 0; i < domains; ++i) sum += weights.emplace_back(0.05 + rng.uniform());
  size_t next_row = 0;
  for (uint64_t i = 0; i < domains; ++i) {
    const std::string name = "domain" + std::to_string(i);
    plan.options.shares.emplace_back(name, weights[i] / sum);
    const size_t count = plan.prompts + rng.below(90);
    for (size_t row = 0; row < count; ++row) plan.rows[name].push_back(next_row += 1 + row % 3);
  }
  return plan;
}

DataOrder make(const Plan& plan) {
  auto order = DataOrder::create(plan.options, plan.rows, plan.prompts);
  EXPECT_TRUE(order.has_value()) << order.error().to_string();
  return std::move(*order);
}

TEST(DataOrder, AnEpochTakesEachRowOnceAndLeavesOnlyTheTail) {
  Rng rng(base_seed());
  for (int trial = 0; trial < 300; ++trial) {
    const Plan plan = random_plan(rng);
    DataOrder order = make(plan);
    const std::vector<size_t> split = *split_prompts(plan.options.shares, plan.prompts);
    std::map<std::pair<std::string, uint64_t>, std::set<size_t>> taken;
    std::map<std::string, uint64_t> last_epoch;
    for (int step = 0; step < 40; ++step) {
      const std::vector<DrawnRow> drawn = *order.next(plan.prompts);
      ASSERT_EQ(drawn.size(), plan.prompts);
      size_t at = 0;
      for (size_t domain = 0; domain < split.size(); ++domain) {
        for (size_t i = 0; i < split[domain]; ++i, ++at) {
          ASSERT_EQ(drawn[at].domain, plan.options.shares[domain].first);
          auto& epoch = last_epoch[drawn[at].domain];
          ASSERT_TRUE(drawn[at].epoch == epoch || drawn[at].epoch == epoch + 1);
          epoch = drawn[at].epoch;
          ASSERT_TRUE(taken[std::pair(drawn[at].domain, epoch)].insert(drawn[at].row).second)
              << "trial " << trial << ": a row came twice in an epoch";
        }
      }
    }
    for (const auto& [key, rows] : taken) {
      const std::vector<size_t>& all = plan.rows.at(key.first);
      ASSERT_LE(rows.size(), all.size());
      for (size_t row : rows) ASSERT_TRUE(std::count(all.begin(), all.end(), row) == 1);
      if (key.second == last_epoch[key.first]) continue;  // not over yet
      size_t share = 0;
      for (size_t i = 0; i < split.size(); ++i)
        if (plan.options.shares[i].first == key.first) share = split[i];
      const size_t tail = plan.options.epoch_end == EpochEnd::drop ? all.size() % share : 0;
      ASSERT_EQ(rows.size(), all.size() - tail) << "trial " << trial;
    }
  }
}

TEST(DataOrder, AResumedRunTakesTheRowsThatWouldHaveCome) {
  Rng rng(base_seed() + 1);
  for (int trial = 0; trial < 200; ++trial) {
    const Plan plan = random_plan(rng);
    DataOrder order = make(plan);
    const uint64_t before = rng.below(30);
    for (uint64_t step = 0; step < before; ++step) ASSERT_TRUE(order.next(plan.prompts));
    auto cursor = data_cursor_of(to_json(order.cursor()));
    ASSERT_TRUE(cursor.has_value());
    ASSERT_EQ(*cursor, order.cursor());
    DataOrder resumed = make(plan);
    ASSERT_TRUE(resumed.resume(*cursor));
    for (int step = 0; step < 20; ++step)
      ASSERT_EQ(*resumed.next(plan.prompts), *order.next(plan.prompts)) << "trial " << trial;
  }
}

TEST(DataOrder, OtherSeedsEpochsAndDomainsShuffleDifferently) {
  Plan plan;
  plan.prompts = 100;
  plan.options.shares = {{"a", 0.5}, {"b", 0.5}};
  for (size_t row = 0; row < 50; ++row) {
    plan.rows["a"].push_back(row);
    plan.rows["b"].push_back(row);
  }
  auto orders_of = [&](uint64_t seed) {
    plan.options.seed = seed;
    DataOrder order = make(plan);
    std::vector<std::vector<size_t>> result(4);
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      const std::vector<DrawnRow> drawn = *order.next(100);
      for (size_t i = 0; i < 100; ++i) result[epoch * 2 + i / 50].push_back(drawn[i].row);
    }
    return result;
  };
  std::set<std::vector<size_t>> distinct;
  for (uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    for (std::vector<size_t>& order : orders_of(seed)) distinct.insert(std::move(order));
  }
  EXPECT_EQ(distinct.size(), 12U);
  plan.options.is_shuffled = false;
  EXPECT_EQ(orders_of(1)[0], plan.rows["a"]);
  EXPECT_EQ(orders_of(1)[2], plan.rows["a"]);
}

TEST(DataOrder, TheFirstRowsOfASeedStayTheSame) {
  // What a checkpoint of an older build relies on.
  Plan plan;
  plan.prompts = 8;
  plan.options.shares = {{"math", 1.0}};
  for (size_t row = 0; row < 20; ++row) plan.rows["math"].push_back(row);
  DataOrder order = make(plan);
  std::vector<size_t> rows;
  const std::vector<DrawnRow> drawn = *order.next(8);
  for (const DrawnRow& row : drawn) rows.push_back(row.row);
  EXPECT_EQ(rows, (std::vector<size_t>{16, 15, 12, 6, 5, 3, 10, 1}));
}

TEST(DataOrder, SplitsAsRollDoes) {
  using Split = std::vector<size_t>;
  EXPECT_EQ(*split_prompts({{"a", 0.29}, {"b", 0.71}}, 100), (Split{28, 72}));  // int(28.99…)
  EXPECT_EQ(*split_prompts({{"a", 0.6}, {"b", 0.2}, {"c", 0.2}}, 64), (Split{38, 12, 14}));
  EXPECT_EQ(*split_prompts({{"a", 0.1}}, 7), (Split{7}));
  EXPECT_EQ(split_prompts({}, 7).error().code, Errc::config);
  EXPECT_EQ(split_prompts({{"a", -0.1}, {"b", 1}}, 7).error().code, Errc::config);
  EXPECT_EQ(split_prompts({{"a", 0.9}, {"b", 0.9}, {"c", 0}}, 10).error().detail,
            "the shares up to domain b are more than 1");
}

TEST(DataOrder, RefusesTooFewRowsAndAnotherDataSet) {
  DataOrderOptions options;
  options.shares = {{"math", 0.5}, {"code", 0.5}};
  const Rows rows{{"math", {0, 1, 2, 3}}, {"code", {4, 5}}};
  EXPECT_EQ(DataOrder::create(options, {{"math", {0}}}).error().to_string(),
            "config: domain code has no rows");
  EXPECT_EQ(DataOrder::create(options, rows, 6).error().to_string(),
            "config: domain code has 2 rows, fewer than its 3 prompts of a step: take a smaller "
            "batch or share, or more data");
  auto order = DataOrder::create(options, rows, 4);
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(*order->steps_per_epoch(4), 1U);
  EXPECT_EQ(*order->steps_per_epoch(2), 2U);
  EXPECT_EQ(order->steps_per_epoch(0).error().code, Errc::config);
  const DataCursor before = order->cursor();
  EXPECT_EQ(order->next(6).error().code, Errc::config);
  EXPECT_EQ(order->cursor(), before);
  DataCursor other = before;
  other["math"].rows = 5;
  EXPECT_NE(order->resume(other).error().detail.find("math has 4 rows, and had 5"),
            std::string::npos);
  EXPECT_NE(order->resume({{"math", before.at("math")}}).error().detail.find("nothing of domain"),
            std::string::npos);
  other = before;
  other["art"] = {};
  EXPECT_NE(order->resume(other).error().detail.find("domain art"), std::string::npos);
  EXPECT_EQ(order->cursor(), before);
}

TEST(DataCursor, RefusesWhatItDidNotWrite) {
  for (const char* text : {"", "[]", "{\"a\": 1}", "{\"a\": {\"epoch\": 0, \"position\": 0}}",
                           "{\"a\": {\"epoch\": -1, \"position\": 0, \"rows\": 2}}",
                           "{\"a\": {\"epoch\": 0, \"position\": 3, \"rows\": 2}}"})
    EXPECT_EQ(data_cursor_of(text).error().code, Errc::corrupt) << text;
  EXPECT_EQ(*data_cursor_of("{}"), DataCursor{});
}

}  // namespace
}  // namespace cohort::tasks
