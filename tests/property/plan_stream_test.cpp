/// Collector under duplicated, reordered, re-run and late delivery (FLOW-1), and batch
/// algebra's remedies (BATCH-1).
#include <gtest/gtest.h>

#include <map>

#include "runtime/plan/estimate/batch.hpp"
#include "runtime/plan/flow/collector.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_stream_test {
namespace {

/// A link that repeats, delays and reorders: each trajectory is sent 1 to 3 times.
constexpr auto k_train = TrajectoryKind::train;

std::vector<TrajectoryKey> noisy_delivery(Rng& rng, uint64_t step, uint32_t groups, uint32_t size) {
  std::vector<TrajectoryKey> sent;
  for (uint32_t group = 0; group < groups; ++group)
    for (uint32_t index = 0; index < size; ++index)
      for (uint64_t copy = 0, copies = 1 + rng.below(3); copy < copies; ++copy)
        sent.push_back({k_train, step, group, index});
  for (size_t i = sent.size(); i > 1; --i) std::swap(sent[i - 1], sent[rng.below(i)]);
  return sent;
}

TEST(CollectorProperty, EveryTrajectoryTrainsExactlyOnce) {  // FLOW-1
  Rng rng{test::property_seed(3)};
  for (int round = 0; round < 100; ++round) {
    Collector collector{2};
    std::map<TrajectoryKey, int> accepted, trained;
    std::vector<TrajectoryKey> left_over;
    uint64_t expected = 0;
    for (uint64_t step = 1; step <= 4; ++step) {
      auto groups = static_cast<uint32_t>(1 + rng.below(5));
      auto size = static_cast<uint32_t>(1 + rng.below(5));
      expected += uint64_t{groups} * size;
      ASSERT_TRUE(collector.open_step({k_train, step}, groups, size));
      auto sent = noisy_delivery(rng, step, groups, size);
      for (size_t i = 0; i < sent.size(); ++i) {
        auto attempt = static_cast<uint32_t>(rng.below(3));
        if (collector.offer(sent[i], attempt) == Verdict::accepted) ++accepted[sent[i]];
        if (!left_over.empty() && rng.below(2)) {
          ASSERT_EQ(collector.offer(left_over[rng.below(left_over.size())]), Verdict::late);
        }
        collector.assert_invariants();
      }
      auto keys = collector.close_step({k_train, step});
      ASSERT_TRUE(keys) << keys.error().to_string();
      for (const TrajectoryKey& key : *keys) ++trained[key];
      left_over = sent;
    }
    EXPECT_EQ(accepted, trained);
    EXPECT_EQ(trained.size(), expected);
    for (const auto& [key, count] : trained) ASSERT_EQ(count, 1) << to_text(key);
  }
}

TEST(CollectorProperty, EveryOrderOfASmallStepClosesAlike) {  // FLOW-1, exhaustive
  std::vector<TrajectoryKey> order;
  for (uint32_t i = 0; i < 6; ++i) order.push_back({k_train, 1, i / 3, i % 3});
  const std::vector<TrajectoryKey> sorted = order;
  do {
    Collector collector;
    ASSERT_TRUE(collector.open_step({k_train, 1}, 2, 3));
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_FALSE(collector.is_step_complete({k_train, 1}));
      ASSERT_EQ(collector.offer(order[i]), Verdict::accepted);
      ASSERT_EQ(collector.offer(order[i / 2]), Verdict::duplicate);
    }
    ASSERT_EQ(collector.close_step({k_train, 1}).value(), sorted);
  } while (std::next_permutation(order.begin(), order.end()));
}

/// Returns the numbers of the list that follows `label` in `text`.
std::vector<uint64_t> numbers_after(const std::string& text, const std::string& label) {
  std::vector<uint64_t> numbers;
  size_t at = text.find(label);
  if (at == std::string::npos) return numbers;
  const char* cursor = text.c_str() + at + label.size();
  while (true) {
    char* end = nullptr;
    numbers.push_back(std::strtoull(cursor, &end, 10));
    if (*end != ',') return numbers;
    cursor = end + 1;
  }
}

TEST(BatchProperty, EveryNamedRemedyWorks) {  // BATCH-1
  uint64_t refused = 0;
  for (uint64_t n = 1; n <= 40; ++n)
    for (uint64_t group = 1; group <= 6; ++group)
      for (uint64_t micro = 1; micro <= 4; ++micro)
        for (uint64_t accumulate = 1; accumulate <= 6; ++accumulate) {
          BatchOptions options{.rollout_batch_size = n,
                               .group_size = group,
                               .per_device_train_batch_size = micro,
                               .gradient_accumulation_steps = accumulate};
          auto plan = plan_batch(options);
          bool works = n % group == 0 && n % (micro * accumulate) == 0;
          ASSERT_EQ(plan.has_value(), works);
          if (works || n % group != 0) continue;
          ++refused;
          const std::string& text = plan.error().detail;
          for (uint64_t value : numbers_after(text, "nearest rollout_batch_size that works: ")) {
            BatchOptions fixed = options;
            fixed.rollout_batch_size = value;
            ASSERT_TRUE(plan_batch(fixed)) << text;
          }
          for (uint64_t value : numbers_after(text, "nearest gradient_accumulation_steps: ")) {
            BatchOptions fixed = options;
            fixed.gradient_accumulation_steps = value;
            ASSERT_TRUE(plan_batch(fixed)) << text;
          }
        }
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace cohort::plan::plan_stream_test
