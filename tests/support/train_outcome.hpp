#pragma once
/// What ranks that train together must agree on, and losses that fail in one of them. Header only.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "tests/support/train_fixture.hpp"

namespace cohort::tests {

/// What every rank must report alike.
struct TrainOutcome {
  std::vector<uint64_t> hashes;  // at the start, and after each step
  std::vector<double> numbers;   // loss, norm and the loss's own numbers of each step
  std::vector<std::vector<float>> log_probs;
  bool operator==(const TrainOutcome&) const = default;
};

inline TrainOutcome train(compute::TrainEngine& engine, const SampleSet& data, int steps) {
  TrainOutcome out;
  out.hashes.push_back(engine.param_hash());
  for (int i = 0; i < steps; ++i) {
    auto report = engine.step(data.samples, policy_gradient, 1e-2);
    if (!report) ADD_FAILURE() << report.error().to_string();
    if (!report) return out;
    out.numbers.insert(out.numbers.end(), {report->loss, report->grad_norm});
    for (const Number& number : report->numbers.all()) out.numbers.push_back(number.value);
    out.hashes.push_back(engine.param_hash());
  }
  auto done = engine.log_probs(data.samples, out.log_probs);
  if (!done) ADD_FAILURE() << done.error().to_string();
  return out;
}

/// Cross entropy that is NaN in the micro-batch of the first sample.
inline compute::LossFunction nan_for_sample_zero(const compute::StepCounts& counts) {
  return [inner = cross_entropy(counts)](const compute::MicroBatch& batch,
                                         const compute::MicroOutputs& out) {
    compute::MicroLoss loss = inner(batch, out);
    if (batch.seq_id[0].item<int64_t>() == 0) loss.total = loss.total * NAN;
    return loss;
  };
}

/// Cross entropy that throws in the micro-batch of the first sample.
inline compute::LossFunction throws_for_sample_zero(const compute::StepCounts& counts) {
  return [inner = cross_entropy(counts)](const compute::MicroBatch& batch,
                                         const compute::MicroOutputs& out) {
    if (batch.seq_id[0].item<int64_t>() == 0) throw std::runtime_error("no such loss");
    return inner(batch, out);
  };
}

/// TRAIN-2: a loss that is NaN, or throws, in one rank's micro-batch changes no weight in any rank.
/// Every rank calls it.
inline void expect_failures_change_nothing(compute::TrainEngine& engine, const SampleSet& data) {
  const uint64_t before = engine.param_hash();
  auto nan = engine.step(data.samples, nan_for_sample_zero, 1e-2);
  ASSERT_TRUE(nan) << nan.error().detail;
  EXPECT_FALSE(nan->is_finite);
  auto thrown = engine.step(data.samples, throws_for_sample_zero, 1e-2);
  ASSERT_FALSE(thrown);
  EXPECT_NE(thrown.error().detail.find("no such loss"), std::string::npos) << thrown.error().detail;
  EXPECT_EQ(engine.param_hash(), before);
}

}  // namespace cohort::tests
