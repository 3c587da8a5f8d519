#pragma once
/// What the roles measure of a run's first step, of the collected trajectories and of the first
/// optimizer step, for the table of runtime/plan/check/first_step.hpp. No actor in it.
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/roles/fill_advantages.hpp"
#include "algorithms/schedule.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/plan/check/first_step.hpp"

namespace cohort::actors {

/// Facts of the trajectories of the first step, sorted by (group, index). `ends`: ids that end an
/// answer; empty: whether turns end is not told.
plan::FirstFacts answer_facts(const std::vector<proto::Trajectory>& batch,
                              std::span<const int32_t> ends);

/// Facts of a critic's first optimizer step.
plan::FirstFacts critic_facts(const algorithms::ScheduleOptions& schedule,
                              const compute::StepReport& first);

/// What of the run decides which checks mean something.
plan::FirstStep first_step_of(const config::RunConfig& config);

/// A sample of the first optimizer batch, and what it is held against. Empty columns: nothing.
struct FirstSample {
  const proto::Trajectory* trajectory = nullptr;
  std::span<const float> old_logp, ref_logp;
};

/// The facts of an update, if it is the policy's first one. Not thread-safe.
class FirstUpdate {
 public:
  /// Collective, as every call with an engine.
  explicit FirstUpdate(const compute::TrainEngine& engine) : hash_before_(engine.param_hash()) {}
  /// Before the first optimizer step: one forward pass over its samples. Later calls do nothing.
  Expected<void> look(compute::TrainEngine& engine, const std::vector<FirstSample>& samples);
  /// `advantages`: of all tokens of the step, 0 where nothing trains.
  void advantages(std::span<const float> advantages);
  void schedule(const algorithms::ScheduleOptions& schedule);
  /// Behind each optimizer step; the first one counts, and for the gradient the first one of which
  /// a token has an advantage.
  void stepped(const compute::StepReport& report, std::span<const compute::TrainSample> samples);
  /// Mean negative log-probability of a counted token, of a policy over `vocabulary`.
  void surprise(double nll, int64_t vocabulary);
  void close(const compute::TrainEngine& engine, control::UpdateReport& report);

 private:
  uint64_t hash_before_ = 0;
  bool has_looked_ = false, has_stepped_ = false, has_gradient_ = false;
  plan::FirstFacts facts_;
};

}  // namespace cohort::actors
