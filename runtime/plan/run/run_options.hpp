#pragma once
/// The options of a run (plan/run/run.hpp).
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/flow/stragglers.hpp"
#include "runtime/plan/membership/limits.hpp"
#include "runtime/plan/run/planted.hpp"

namespace cohort::plan::run {

/// Steps of a run that a stop alone ends; sums with it stay in 64 bits.
inline constexpr uint64_t k_no_end = uint64_t{1} << 62;

struct RunOptions {
  enum class Start : uint8_t {
    fresh,           // from step 0
    resumed,         // from a checkpoint
    resumed_frozen,  // likewise, once the reference has its weights from the checkpoint of step 0
  };
  Start start = Start::fresh;
  uint64_t steps = 1;       // of the policy
  uint64_t eval_steps = 0;  // evaluated every so many, and at the end; 0: never
  uint64_t save_steps = 0;  // saved every so many, after step 0, and at the end
  uint64_t warm_steps = 0;  // optimizer steps of the supervised start, spread over warm_rounds
  uint64_t warm_rounds = 0;
  uint64_t warm_batch = 0;  // trajectories of one of them
  uint32_t group_size = 1;
  uint32_t val_group_size = 1;
  uint32_t greedy_group_size = 1;
  /// How many steps may be played before the one that the optimizer is at; FLOW-3: the bound of
  /// staleness, too. 0: strictly on-policy. Above 0 roles must not take turns on a card.
  uint32_t steps_ahead = 0;
  /// fully_async: rollouts play on while a policy is published, and groups are admitted one by one,
  /// `depth` steps before the optimizer. steps_ahead is then depth, rounded up.
  bool is_flowing = false;
  double depth = 0;  // [steps] of is_flowing
  /// is_flowing: which policy samples which token is recorded (flow/recorded_schedule.hpp). Then
  /// replicas are given all that is admitted, nothing is played twice for its lateness, and a
  /// policy is published when all that its predecessor is to begin is leased.
  bool is_scheduled = false;
  size_t lease_trajectory_bytes = 0;  // [bytes] of a lease for each trajectory, beside its index
  /// Batches of groups that a step may play until enough of them carry a signal, the first one
  /// included; 0: every group trains.
  uint32_t gen_batches_max = 0;
  /// The policy of step 0 plays every step; its play is recorded, and nothing is trained on it.
  bool is_record_only = false;
  bool measures_loss = false;        // an evaluation ends at the trainer, and has one round
  bool has_reference_phase = false;  // the reference takes turns with other roles
  bool refers_held_out = false;      // then an evaluation has the phase, too: a reward takes turns
  /// Rows of files that the reference reads too: they are handed out while it has its card.
  bool plays_in_reference = false;
  uint32_t attempt = 0;         // +1 for each time that the run was resumed
  std::vector<uint32_t> cards;  // of actor_infer: the first one of each replica
  uint64_t running_max = 128;   // trajectories that generate at once on one replica
  StragglerOptions stragglers;
  double group_timeout_s = 0;  // a replica that has not got on for so long is hung; 0: never
  double verdict_wait_s = MembershipLimits{}.verdict_s;
  std::map<std::string, uint64_t> quarantined;  // prompts that are not played: since which step
  Plant plant = Plant::none;
};

}  // namespace cohort::plan::run
