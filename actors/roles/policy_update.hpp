#pragma once
/// From a step's trajectories to optimizer steps: rewards → group normalisation → token advantages
/// → mini-batches → loss, all from algorithms/, run by compute::TrainEngine. This is where the two
/// layers meet; it has no actor in it. Not thread-safe: the train worker owns one. Order of the
/// ROLL dialect (spec: docs/algorithms.md): normalise scores per group, put the score on the last
/// token, KL in reward (optional), returns, whiten → mask → clip. Old log-probs: decisions/0001.
/// Masked trajectories (REWARD-3) are left out before anything is computed: groups compare the
/// survivors, losses count their tokens; where groups are compared a group's only survivor is left
/// out too, and counted (critic/lone_survivors).
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/fill_advantages.hpp"
#include "actors/roles/first_facts.hpp"
#include "algorithms/kl.hpp"
#include "algorithms/schedule.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// Errc::config for a schedule that is not built in.
Expected<algorithms::ScheduleOptions> schedule_of(const config::TrainingArgs& args,
                                                  int64_t warmup_steps, int64_t total_steps);

struct UpdateOptions {
  config::RunConfig config;
  std::optional<int64_t> pad_id = {};  // of config.json, which a reward model reads (rm)
};

class PolicyUpdater {
 public:
  explicit PolicyUpdater(UpdateOptions options);
  /// Runs all optimizer steps of one pipeline step. `batch` is sorted by (group, index).
  /// Rows of files: kind train imitates them, or learns from pairs (pair_update.hpp); kind val
  /// makes no step and gives val/loss.
  /// A mini-batch whose loss or gradient is not finite makes no step (metric
  /// actor/nonfinite_steps); what it held is in the stream. Errors: compute (more than
  /// nonfinite_steps_max of them in a row, naming the mini-batch), placement (PLACE-4).
  Expected<control::UpdateReport> update(compute::TrainEngine& engine,
                                         const control::UpdateRequest& request,
                                         const std::vector<proto::Trajectory>& batch);
  /// The checkpoint's state.json: the driver's JSON and the updater's counters.
  std::string state_json(const std::string& driver_state) const;
  /// Restores the counters; returns the driver's part. Errc::corrupt when a field is missing.
  Expected<std::string> restore(const std::string& state);

 private:
  struct Epochs;
  struct Imitation;
  Expected<algorithms::ScheduleOptions> policy_schedule() const;
  Expected<void> run_epochs(compute::TrainEngine& engine, const Epochs& run);
  Expected<control::UpdateReport> update_policy(compute::TrainEngine& engine,
                                                const control::UpdateRequest& request,
                                                const std::vector<proto::Trajectory>& batch);
  Expected<control::UpdateReport> imitate(compute::TrainEngine& engine, const Imitation& run);
  Expected<control::UpdateReport> measure(compute::TrainEngine& engine,
                                          const std::vector<proto::Trajectory>& batch);
  Expected<control::UpdateReport> compare(compute::TrainEngine& engine,
                                          const control::UpdateRequest& request,
                                          const std::vector<proto::Trajectory>& batch);
  Expected<control::UpdateReport> train_on(compute::TrainEngine& engine,
                                           const control::UpdateRequest& request,
                                           const std::vector<proto::Trajectory>& batch);
  bool is_critic_warm_up(const control::UpdateRequest& request) const;
  Expected<void> look_first(compute::TrainEngine& engine, const Epochs& run,
                            std::pair<size_t, size_t> range);
  config::RunConfig config_;
  std::optional<int64_t> pad_id_;
  algorithms::KlController kl_;
  RunningScores running_;
  uint64_t policy_steps_ = 0;  // optimizer steps done, drives the learning-rate schedule
  uint64_t warm_steps_ = 0;
  int64_t nonfinite_in_row_ = 0;      // optimizer steps that were left out, up to the last one
  std::optional<FirstUpdate> first_;  // during the update that makes the policy's first step
};

}  // namespace cohort::actors
