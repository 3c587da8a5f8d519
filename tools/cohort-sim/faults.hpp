#pragma once
/// What a seed draws: the job, which faults, and when. Pure.
#include <algorithm>
#include <cstdint>

#include "runtime/base/rng.hpp"
#include "tools/cohort-sim/sim_job.hpp"
#include "tools/cohort-sim/sim_network.hpp"

namespace cohort::sim {

/// Which the seed allows.
struct Faults {
  bool crashes = false, head_crashes = false, stops = false, slow = false, cuts = false,
       hangs = false, leaves = false, full_disk = false, user_stops = false, winners = false;
  int64_t every_ms = 500;  // at most so long from one to the next
  int64_t calm_at = 0;     // then they cease
  Harm harm;
};

inline Job draw_job(World& world, uint32_t steps_ahead) {
  Job job;
  auto pick = [&](uint32_t from, uint32_t to) {
    return static_cast<uint32_t>(world.pick(from, to));
  };
  job.steps_ahead = steps_ahead;
  job.replicas = pick(1, 3);
  job.tensor_parallel = world.chance(0.15) ? 2 : 1;
  job.steps = steps_ahead == 0 ? pick(1, 6) : pick(2, 8);
  job.groups = pick(2, 8);
  job.group_size = pick(1, 4);
  job.warm_rounds = world.chance(0.3) ? pick(1, 2) : 0;
  job.eval_every = world.chance(0.5) ? pick(1, 3) : 0;
  job.save_every = pick(0, 2);
  job.has_reference = world.chance(0.4);
  job.running_max = pick(2, 16);
  job.straggler_factor = world.chance(0.7) ? pick(1, 3) : 0;
  job.group_timeout_s = world.chance(0.5) ? pick(6, 12) : 0;
  if (world.chance(0.5)) job.limits.grace_s = 1e-3 * static_cast<double>(world.pick(0, 500));
  if (world.chance(0.05))
    job.killers.insert({uint64_t{pick(1, job.steps)}, pick(0, job.groups - 1)});
  transport::LinkOptions& link = job.link;
  link.run_id = "sim";
  link.chunk_bytes = 1024;
  link.credit_bytes = static_cast<size_t>(world.pick(4, 24)) << 10;
  link.queue_bytes = static_cast<size_t>(world.pick(4, 24)) << 10;
  link.heartbeat_ms = static_cast<int>(world.pick(100, 1000));
  link.peer_timeout_ms = static_cast<int>(world.pick(4000, 10000));
  if (world.chance(0.5)) link.disconnect_grace_ms = link.peer_timeout_ms / 2;
  return job;
}

/// Dynamic sampling in half of the runs. Its draws are its own: what a seed draws besides stays.
inline void draw_filter(uint64_t seed, Job& job) {
  Rng rng = Rng(seed).fork(1);
  if (rng.below(2) == 0) return;
  job.gen_batches_max = static_cast<uint32_t>(1 + rng.below(4));
  job.left_out_of_ten = static_cast<uint32_t>(rng.below(10));
  job.lanes = static_cast<uint32_t>(1 + rng.below(std::min(3U, job.groups)));
}

/// Rollouts that play on over a publish in every second run that is ahead. Draws of its own.
inline void draw_flowing(uint64_t seed, Job& job) {
  Rng rng = Rng(seed).fork(2);
  if (job.steps_ahead == 0 || rng.below(2) == 0) return;
  job.is_flowing = true;
  job.depth = job.steps_ahead - 0.25 * static_cast<double>(rng.below(4));
  job.gen_batches_max = 0;
}

/// It may ask more of the job.
inline Faults draw_faults(World& world, Job& job) {
  Faults faults;
  faults.crashes = world.chance(0.6);
  faults.head_crashes = world.chance(0.2);
  faults.stops = world.chance(0.4);
  faults.slow = world.chance(0.4);
  faults.cuts = world.chance(0.5);
  faults.hangs = job.group_timeout_s > 0 && world.chance(0.3);
  faults.leaves = world.chance(0.2);
  faults.full_disk = world.chance(0.1);
  faults.user_stops = world.chance(0.1);
  faults.winners = world.chance(0.3);
  auto rate = [&](double most) {
    return world.chance(0.5) ? static_cast<double>(world.pick(1, 100)) * most / 100 : 0.0;
  };
  faults.harm = {rate(0.15), rate(0.15), rate(0.2), rate(0.03), world.pick(1, 400), 0};
  if (world.chance(0.1)) {  // what an earlier life sent comes after the next one's word
    faults.harm.late = 0.5;
    faults.harm.late_ms = 1500;
  }
  if (faults.winners) {  // races between replicas, and late words about how they ended
    faults.harm.late_words = 0.7;
    job.straggler_factor = 1;
    job.straggler_floor_s = 0.05;
    job.long_games = 0.2;
  }
  faults.calm_at = world.pick(200, 8000);
  faults.every_ms = world.pick(60, 1200);
  return faults;
}

}  // namespace cohort::sim
