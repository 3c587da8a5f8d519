#pragma once
/// The size of a simulated run, drawn from the seed, and which bug is put into it. One thread.
#include <cstdint>
#include <set>
#include <utility>

#include "runtime/base/trajectory_kind.hpp"
#include "runtime/plan/membership/limits.hpp"
#include "runtime/plan/run/planted.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::sim {

using Kind = TrajectoryKind;

/// A bug put in on purpose: the first six into the machines (runtime/plan/run/planted.hpp), the
/// others into links and hops.
enum class Plant {
  none,
  dedupe_off,
  cancel_by_group,
  reseat_takes_back,
  version_before_whole,
  staleness_off_by_one,
  refill_by_arrival,
  ack_before_record,  // the trainer acknowledges what is not on the disk yet
  credit_kept,        // a consumer never grants more than at first
  rewind_off_by_one,  // a producer goes back to one message too late
  hop_never_flushes,  // a hop that found the next queue full waits for the next frame
  wrong_door,         // a consumer takes what is meant for another one
  late_words_count,   // a producer heeds what an earlier consumer granted
};
/// Returns what the machines are told.
inline plan::Plant machine_plant(Plant plant) {
  return plant <= Plant::refill_by_arrival ? static_cast<plan::Plant>(plant) : plan::Plant::none;
}
static_assert(static_cast<int>(Plant::refill_by_arrival) ==
              static_cast<int>(plan::Plant::refill_by_arrival));

struct Job {
  static constexpr uint32_t k_warm_batch = 3;
  static constexpr double k_median_ms = 50;
  uint32_t replicas = 2, tensor_parallel = 1;
  uint32_t steps = 3, groups = 4, group_size = 2;
  uint32_t steps_ahead = 0;
  bool is_flowing = false;    // fully_async: rollouts play on over a publish
  double depth = 0;           // [steps] of is_flowing; steps_ahead is that, rounded up
  bool is_scheduled = false;  // with is_flowing: publishes wait as with a recorded schedule
  uint32_t warm_rounds = 0;
  uint32_t eval_every = 0, eval_groups = 2;  // [steps]; 0: never
  uint32_t save_every = 1;                   // [steps]
  bool has_reference = false;
  uint32_t lanes = 1;            // of the groups of a step
  uint32_t gen_batches_max = 0;  // 0: every group trains
  uint32_t left_out_of_ten = 0;  // else so many groups of ten carry no signal
  uint32_t running_max = 4;      // trajectories at once on a replica, as the run is told
  double straggler_factor = 3, straggler_floor_s = 0.2;  // factor 0: no hedges
  double long_games = 0;       // share of trajectories that take twenty times as long
  int64_t update_ms = 0;       // 0: drawn
  double length_sigma = 0;     // else lengths are log-normal, around a median of k_median_ms
  double group_timeout_s = 0;  // 0: a rollout may hang for ever
  plan::MembershipLimits limits;
  std::set<std::pair<uint64_t, uint32_t>> killers;  // (step, group) of training that end processes
  transport::LinkOptions link;

  /// Card 0 trains, the next are the rollouts', the last is the reference's. Each but the first is
  /// in a process of its own: slot = card - 1.
  uint32_t rollout_cards() const { return replicas * tensor_parallel; }
  uint32_t slots() const { return rollout_cards() + (has_reference ? 1 : 0); }
  uint32_t lane_of(uint32_t group) const { return group % groups % lanes; }
  bool is_reference(uint32_t slot) const { return slot == rollout_cards(); }
};

}  // namespace cohort::sim
