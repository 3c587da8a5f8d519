#pragma once
/// The numbers of the optimizer steps of a pipeline step, each reduced by its rule, for the row of
/// the step: of the policy ("loss", actor/*) or of a critic (critic/*). Not thread-safe.
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/numbers.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/control/messages.hpp"

namespace cohort::actors {

class StepSums {
 public:
  /// `role`: "actor" or "critic". `nonfinite_in_row`: optimizer steps that were left out, up to the
  /// last one, over pipeline steps; more than `nonfinite_max` are an error.
  StepSums(std::string role, int64_t nonfinite_max, int64_t& nonfinite_in_row);
  /// TRAIN-2: a step that is not finite has changed nothing; now and then one is bad luck, several
  /// in a row are a run that has diverged. Returns Errc::compute for these.
  Expected<void> take(const compute::StepReport& report);
  /// An optimizer batch of which no token is left to train on.
  void skip() { ++skipped_; }
  /// The report's param_hash stays 0 if the last step has not said it.
  void write(control::UpdateReport& report) const;

 private:
  std::string role_, loss_;  // in names
  int64_t nonfinite_max_;
  int64_t& nonfinite_in_row_;
  uint64_t count_ = 0, nonfinite_ = 0, skipped_ = 0, tokens_ = 0;
  Numbers sums_;
  double learning_rate_ = 0;
  std::optional<uint64_t> param_hash_;  // after the last step
};

}  // namespace cohort::actors
