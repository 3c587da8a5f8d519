// Laws of every estimator of the catalogue that is built, on random batches: what stands behind the
// mask changes nothing (ALG-2), the order of the rows does not matter, and the scale of the rewards
// goes through or is divided away.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "algorithms/estimators/estimator.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::algorithms::estimator_property_test {
namespace {

using catalog::AdvEstimator;

constexpr size_t k_rows = 9, k_columns = 7;
constexpr double k_tolerance = 1e-9;

uint64_t seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261123;
}

struct Row {
  std::vector<double> rewards, values;  // [k_columns]
  std::vector<uint8_t> mask;            // likewise
  std::vector<double> parts;            // two of them
  double baseline = 0;
  uint32_t group = 0;
};

/// Groups of three, two and one, holes, and now and then a row without an answer.
std::vector<Row> random_rows(Rng& rng) {
  std::vector<Row> rows(k_rows);
  const std::vector<uint32_t> groups{0, 0, 0, 1, 1, 1, 2, 2, 3};
  for (size_t i = 0; i < k_rows; ++i) {
    rows[i].group = groups[i];
    const bool is_empty = rng.below(8) == 0;
    for (size_t t = 0; t < k_columns; ++t) {
      rows[i].mask.push_back(!is_empty && rng.below(3) > 0 ? 1 : 0);
      rows[i].rewards.push_back(rows[i].mask[t] != 0 ? rng.uniform() - .4 : 0);
      rows[i].values.push_back(rows[i].mask[t] != 0 ? rng.uniform() - .5 : 0);
    }
    rows[i].parts = {rng.uniform(), rng.uniform()};
    rows[i].baseline = rng.uniform();
  }
  return rows;
}

/// A batch as a run has it: rows back to back.
struct Batch {
  explicit Batch(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      rewards.insert(rewards.end(), row.rewards.begin(), row.rewards.end());
      values.insert(values.end(), row.values.begin(), row.values.end());
      mask.insert(mask.end(), row.mask.begin(), row.mask.end());
      cu.push_back(static_cast<int32_t>(mask.size()));
      double sum = 0;
      uint32_t length = 0;
      for (size_t t = 0; t < k_columns; ++t)
        if (row.mask[t] != 0) {
          sum += row.rewards[t];
          ++length;
        }
      scores.push_back(sum);
      lengths.push_back(length);
      groups.push_back(row.group);
      baselines.push_back(row.baseline);
      for (size_t k = 0; k < parts.size(); ++k) parts[k].scores.push_back(row.parts[k]);
    }
  }

  std::vector<double> advantages(AdvEstimator kind) const {
    const Estimator estimator = *estimator_of(kind);
    AdvantageOptions options{.advantages = estimator.advantages, .gamma = .9, .lambda = .8};
    options.holes = Holes::carry;
    options.whiten = estimator.whitens;
    const RewardNormOptions asked{NormScope::group, NormScope::none};
    const TrajectoryScores all{scores, groups, asked, true, lengths, baselines, parts};
    const PackedLayout layout{cu, mask};
    if (estimator.turn_rewards != nullptr) return credit_turns(estimator, all, options);
    if (catalog::entry(kind).has(catalog::need::critic))
      return credit_tokens({.rewards = rewards, .layout = layout, .values = values}, options)
          .value()
          .advantages;
    return compute_token_advantages({layout, estimator.rewards(all), {}, {}}, options)
        .value()
        .advantages;
  }

  std::vector<double> credit_turns(const Estimator& estimator, const TrajectoryScores& all,
                                   const AdvantageOptions& options) const {
    std::vector<double> paid;
    std::vector<uint32_t> rows, states, ends;
    for (size_t t = 0; t < mask.size(); ++t) {
      const bool is_end = (t + 1) % k_columns == 0 || mask[t + 1] == 0;
      if (mask[t] == 0 || !is_end) continue;
      paid.push_back(rewards[t]);
      rows.push_back(static_cast<uint32_t>(t / k_columns));
      states.push_back(static_cast<uint32_t>(t % k_columns % 3));
      ends.push_back(static_cast<uint32_t>(t));
    }
    const std::vector<double> of_turns = estimator.turn_rewards({all, paid, rows, states});
    return compute_token_advantages({{cu, mask}, of_turns, {}, {}, {}, ends}, options)
        .value()
        .advantages;
  }

  std::vector<int32_t> cu{0};
  std::vector<double> rewards, values, scores, baselines;
  std::vector<uint8_t> mask;
  std::vector<uint32_t> groups, lengths;
  std::vector<ScorePart> parts{{{}, .5}, {{}, 2}};
};

class EveryEstimator : public testing::TestWithParam<size_t> {
 protected:
  AdvEstimator kind() const { return static_cast<AdvEstimator>(GetParam()); }
};

TEST_P(EveryEstimator, Alg2NothingBehindTheMaskIsSeen) {
  Rng rng(seed());
  const double rubbish[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), 1e30};
  for (int round = 0; round < 50; ++round) {
    std::vector<Row> rows = random_rows(rng);
    const std::vector<double> clean = Batch(rows).advantages(kind());
    for (Row& row : rows)
      for (size_t t = 0; t < k_columns; ++t)
        if (row.mask[t] == 0) row.rewards[t] = row.values[t] = rubbish[rng.below(3)];
    const Batch batch(rows);
    const std::vector<double> found = batch.advantages(kind());
    ASSERT_EQ(found, clean) << "round " << round << ", seed " << seed();
    for (size_t t = 0; t < found.size(); ++t) {
      if (batch.mask[t] == 0) {
        ASSERT_EQ(found[t], 0) << "a masked token has an advantage";
      }
    }
  }
}

TEST_P(EveryEstimator, OrderOfTheRowsDoesNotMatter) {
  Rng rng(seed());
  for (int round = 0; round < 50; ++round) {
    const std::vector<Row> rows = random_rows(rng);
    const std::vector<double> straight = Batch(rows).advantages(kind());
    std::vector<size_t> order(k_rows);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = k_rows; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    std::vector<Row> shuffled;
    for (size_t i : order) shuffled.push_back(rows[i]);
    const std::vector<double> found = Batch(shuffled).advantages(kind());
    for (size_t i = 0; i < k_rows; ++i)
      for (size_t t = 0; t < k_columns; ++t)
        ASSERT_NEAR(found[i * k_columns + t], straight[order[i] * k_columns + t], k_tolerance)
            << "row " << order[i] << ", round " << round << ", seed " << seed();
  }
}

TEST_P(EveryEstimator, ScaleGoesThroughOrIsDividedAway) {
  const bool is_divided = estimator_of(kind())->whitens || kind() == AdvEstimator::grpo ||
                          kind() == AdvEstimator::grpo_passk;
  Rng rng(seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<Row> rows = random_rows(rng);
    const std::vector<double> plain = Batch(rows).advantages(kind());
    for (Row& row : rows) {
      for (double& x : row.rewards) x *= 8;
      for (double& x : row.values) x *= 8;
      for (double& x : row.parts) x *= 8;
      row.baseline *= 8;
    }
    const std::vector<double> scaled = Batch(rows).advantages(kind());
    // 1e-6 beside a deviation, and 1e-8 beside a variance, do not scale.
    const double tolerance = is_divided ? 1e-2 : k_tolerance;
    for (size_t t = 0; t < plain.size(); ++t)
      ASSERT_NEAR(scaled[t], (is_divided ? 1 : 8) * plain[t],
                  tolerance * std::max(1.0, std::abs(scaled[t])))
          << "token " << t << ", round " << round << ", seed " << seed();
  }
}

std::vector<size_t> built_rows() {
  std::vector<size_t> built;
  const auto rows = catalog::entries(AdvEstimator{});
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].is_built) built.push_back(i);
  return built;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryEstimator, testing::ValuesIn(built_rows()),
                         [](const testing::TestParamInfo<size_t>& row) {
                           return std::string(catalog::entries(AdvEstimator{})[row.param].id);
                         });

}  // namespace
}  // namespace cohort::algorithms::estimator_property_test
