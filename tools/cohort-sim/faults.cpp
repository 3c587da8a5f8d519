// What a seed draws: the job, which faults, and when.
#include <algorithm>
#include <utility>

#include "tools/cohort-sim/cluster.hpp"

namespace cohort::sim {

void Cluster::draw_job(uint32_t steps_ahead) {
  auto pick = [this](uint32_t from, uint32_t to) {
    return static_cast<uint32_t>(world_.pick(from, to));
  };
  job_.steps_ahead = steps_ahead;
  job_.replicas = pick(1, 3);
  job_.tensor_parallel = world_.chance(0.15) ? 2 : 1;
  job_.steps = steps_ahead == 0 ? pick(1, 6) : pick(2, 8);
  job_.groups = pick(2, 8);
  job_.group_size = pick(1, 4);
  job_.warm_rounds = world_.chance(0.3) ? pick(1, 2) : 0;
  job_.eval_every = world_.chance(0.5) ? pick(1, 3) : 0;
  job_.save_every = pick(0, 2);
  job_.has_reference = world_.chance(0.4);
  job_.running_max = pick(2, 16);
  job_.straggler_factor = world_.chance(0.7) ? pick(1, 3) : 0;
  job_.group_timeout_s = world_.chance(0.5) ? pick(6, 12) : 0;
  if (world_.chance(0.5)) job_.limits.grace_s = 1e-3 * static_cast<double>(world_.pick(0, 500));
  if (world_.chance(0.05))
    job_.killers.insert({uint64_t{pick(1, job_.steps)}, pick(0, job_.groups - 1)});
  transport::LinkOptions& link = job_.link;
  link.run_id = "sim";
  link.chunk_bytes = 1024;
  link.credit_bytes = static_cast<size_t>(world_.pick(4, 24)) << 10;
  link.queue_bytes = static_cast<size_t>(world_.pick(4, 24)) << 10;
  link.heartbeat_ms = static_cast<int>(world_.pick(100, 1000));
  link.peer_timeout_ms = static_cast<int>(world_.pick(4000, 10000));
  if (world_.chance(0.5)) link.disconnect_grace_ms = link.peer_timeout_ms / 2;
}

void Cluster::draw_faults() {
  faults_.crashes = world_.chance(0.6);
  faults_.head_crashes = world_.chance(0.2);
  faults_.stops = world_.chance(0.4);
  faults_.slow = world_.chance(0.4);
  faults_.cuts = world_.chance(0.5);
  faults_.hangs = job_.group_timeout_s > 0 && world_.chance(0.3);
  faults_.leaves = world_.chance(0.2);
  faults_.full_disk = world_.chance(0.1);
  faults_.user_stops = world_.chance(0.1);
  faults_.winners = world_.chance(0.3);
  auto rate = [this](double most) {
    return world_.chance(0.5) ? static_cast<double>(world_.pick(1, 100)) * most / 100 : 0.0;
  };
  faults_.harm = {rate(0.15), rate(0.15), rate(0.2), rate(0.03), world_.pick(1, 400), 0};
  if (world_.chance(0.1)) {  // what an earlier life sent comes after the next one's word
    faults_.harm.late = 0.5;
    faults_.harm.late_ms = 1500;
  }
  if (faults_.winners) {  // races between replicas, and late words about how they ended
    faults_.harm.late_words = 0.7;
    job_.straggler_factor = 1;
    job_.straggler_floor_s = 0.05;
    job_.long_games = 0.2;
  }
  calm_at_ = world_.pick(200, 8000);
  faults_.every_ms = world_.pick(60, 1200);
}

void Cluster::fault() {
  if (world_.now() >= calm_at_) return;
  if (one_fault()) ++fault_count_;
  world_.at(world_.now() + world_.pick(20, faults_.every_ms), [this] { fault(); });
}

bool Cluster::one_fault() {
  const auto slot = static_cast<uint32_t>(world_.pick(0, static_cast<int64_t>(slots_.size()) - 1));
  switch (world_.pick(0, 9)) {
    case 0:
      if (!faults_.crashes) return false;
      if (!world_.chance(0.15)) {
        end_slot(slot, "it crashes");
      } else {
        end_reward();
        world_.at(world_.now() + world_.pick(10, 1500), [this] { start_reward(); });
      }
      return true;
    case 1:
      if (faults_.head_crashes) crash_head(world_.pick(10, 1500));
      return faults_.head_crashes;
    case 2:
    case 3:
      return fault_of_process(processes_[static_cast<size_t>(
          world_.pick(0, static_cast<int64_t>(processes_.size()) - 1))]);
    case 4:
      if (faults_.cuts)
        cut_off(static_cast<size_t>(world_.pick(0, static_cast<int64_t>(processes_.size()) - 1)));
      return faults_.cuts;
    case 5:
      if (faults_.full_disk) disk_.full_until = world_.now() + world_.pick(50, 1500);
      return faults_.full_disk;
    case 6:
      if (faults_.hangs && slots_[slot].card && slots_[slot].card->rollout())
        slots_[slot].card->rollout()->hang();
      return faults_.hangs;
    case 7:
      if (!faults_.leaves || !head_) return false;
      world_.deliver(head_process(), world_.now(), [this, slot, wait = world_.pick(0, 2000)] {
        head_->ask_leave({slot}, static_cast<uint32_t>(wait));
      });
      world_.note("is to leave", slot);
      return true;
    case 8:
      if (!faults_.user_stops || !head_) return false;
      world_.deliver(head_process(), world_.now(), [this] { head_->ask_stop(); });
      world_.note("user stops the run");
      return true;
    default:
      world_.note("heals");
      heal();
      return true;
  }
}

bool Cluster::fault_of_process(Process& process) {
  const auto index = static_cast<uint64_t>(
      std::ranges::find(processes_, process.name, &Process::name) - processes_.begin());
  if (faults_.stops && world_.chance(0.5)) {
    process.stopped_until = world_.now() + world_.pick(50, 4000);
    world_.note("stops", index);
    return true;
  }
  if (!faults_.slow) return false;
  process.slow_until = world_.now() + world_.pick(100, 3000);
  world_.note("slow", index);
  return true;
}

void Cluster::cut_off(size_t at) {
  const auto other =
      static_cast<size_t>(world_.pick(0, static_cast<int64_t>(processes_.size()) - 1));
  const bool is_alone = world_.chance(0.5);
  for (size_t i = 0; i < processes_.size(); ++i)
    if (i != at && (is_alone || i == other)) network_.cut(processes_[at], processes_[i]);
  world_.note("cut off", at, other, is_alone ? 1 : 0);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (network_.is_cut(head_process(), *slots_[slot].process))
      world_.at(world_.now() + k_node_ms,
                [this, slot, cuts = ++slots_[slot].cuts] { watch_node(slot, cuts); });
}

void Cluster::calm_down() {
  world_.note("faults cease");
  network_.harm = {};
  heal();
  disk_.full_until = 0;
  for (Process& process : processes_) process.slow_until = 0;
}

}  // namespace cohort::sim
