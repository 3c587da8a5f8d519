#pragma once
/// The size of a simulated run, drawn from the seed, and which bug is put into it. One thread.
#include <cstdint>
#include <set>
#include <utility>

#include "runtime/base/trajectory_kind.hpp"
#include "runtime/plan/membership/limits.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::sim {

using Kind = TrajectoryKind;

struct Job {
  static constexpr uint32_t k_warm_batch = 3;
  uint32_t replicas = 2, tensor_parallel = 1;
  uint32_t steps = 3, groups = 4, group_size = 2;
  uint32_t steps_ahead = 0;
  uint32_t warm_rounds = 0;
  uint32_t eval_every = 0, eval_groups = 2;  // [steps]; 0: never
  uint32_t save_every = 1;                   // [steps]
  bool has_reference = false;
  uint32_t running_max = 4;  // trajectories at once on a replica, as the run is told
  double straggler_factor = 3, straggler_floor_s = 0.2;  // factor 0: no hedges
  double long_games = 0;       // share of trajectories that take twenty times as long
  double group_timeout_s = 0;  // 0: a rollout may hang for ever
  plan::MembershipLimits limits;
  std::set<std::pair<uint64_t, uint32_t>> killers;  // (step, group) of training that end processes
  transport::LinkOptions link;

  /// Card 0 trains, the next are the rollouts', the last is the reference's. Each but the first is
  /// in a process of its own: slot = card - 1.
  uint32_t rollout_cards() const { return replicas * tensor_parallel; }
  uint32_t slots() const { return rollout_cards() + (has_reference ? 1 : 0); }
  bool is_reference(uint32_t slot) const { return slot == rollout_cards(); }
};

}  // namespace cohort::sim
