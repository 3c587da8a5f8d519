#include "tools/cohort-sim/cluster.hpp"

#include <fmt/format.h>

namespace cohort::sim {

Outcome simulate(uint64_t seed, Plant plant) { return Cluster(seed, plant).run(); }

Cluster::Cluster(uint64_t seed, Plant plant)
    : seed_(seed),
      world_(seed),
      network_(world_),
      audit_(world_),
      disk_(world_, audit_),
      stage_{world_, network_, audit_, plant} {
  draw_job();
  draw_faults();
  processes_.push_back({"head", 1, true, 0, 0});
  processes_.push_back({"reward", 1, true, 0, 0});
  if (job_.has_reference) processes_.push_back({"reference", 1, true, 0, 0});
  first_rollout_ = processes_.size();
  for (uint32_t r = 0; r < job_.rollouts; ++r)
    processes_.push_back({fmt::format("rollout.{}", r), 1, true, 0, 0});
  rollouts_.resize(job_.rollouts);
}

void Cluster::draw_job() {
  auto pick = [this](uint32_t from, uint32_t to) {
    return static_cast<uint32_t>(world_.pick(from, to));
  };
  job_.rollouts = pick(1, 3);
  job_.steps = pick(1, 6);
  job_.groups = pick(2, 8);
  job_.group_size = pick(1, 4);
  job_.save_every = pick(1, 2);
  job_.has_reference = world_.chance(0.5);
  transport::LinkOptions& link = job_.link;
  link.run_id = "sim";
  link.chunk_bytes = 1024;
  link.credit_bytes = static_cast<size_t>(world_.pick(4, 24)) << 10;
  link.queue_bytes = static_cast<size_t>(world_.pick(4, 24)) << 10;
  link.heartbeat_ms = static_cast<int>(world_.pick(50, 500));
  link.peer_timeout_ms = static_cast<int>(world_.pick(1000, 5000));
  if (world_.chance(0.5)) link.disconnect_grace_ms = link.peer_timeout_ms / 2;
}

void Cluster::draw_faults() {
  faults_.crashes = world_.chance(0.6);
  faults_.head_crashes = world_.chance(0.4);
  faults_.stops = world_.chance(0.4);
  faults_.slow = world_.chance(0.4);
  faults_.cuts = world_.chance(0.5);
  faults_.full_disk = world_.chance(0.2);
  auto rate = [this](double most) {
    return world_.chance(0.5) ? static_cast<double>(world_.pick(1, 100)) * most / 100 : 0.0;
  };
  faults_.harm = {rate(0.15), rate(0.15), rate(0.2), rate(0.03), world_.pick(1, 400)};
  if (world_.chance(0.1)) {  // what an earlier life sent comes after the next one's word
    faults_.harm.late = 0.5;
    faults_.harm.late_ms = 1500;
  }
  calm_at_ = world_.pick(200, 8000);
  faults_.every_ms = world_.pick(60, 1200);
}

void Cluster::start(size_t index) {
  Process& process = processes_[index];
  Roles& roles = *this;
  process.is_up = true;
  world_.note("starts", index, process.life);
  if (index >= first_rollout_) {
    auto replica = static_cast<uint32_t>(index - first_rollout_);
    rollouts_[replica] = std::make_unique<Rollout>(stage_, roles, job_, process, replica);
  } else if (index == 0) {
    head_ = std::make_unique<Head>(stage_, roles, job_, process, disk_);
  } else if (index == 1) {
    reward_ = std::make_unique<MiddleHop>(stage_, job_, process, true, "reward",
                                          job_.has_reference ? "reference" : "collector");
  } else {
    reference_ =
        std::make_unique<MiddleHop>(stage_, job_, process, false, "reference", "collector");
  }
}

void Cluster::crash(size_t index, int64_t down_ms) {
  Process& process = processes_[index];
  if (!process.is_up) return;
  world_.note("crashes", index, process.life);
  process.is_up = false;
  ++process.life;
  process.stopped_until = process.slow_until = 0;
  if (index >= first_rollout_) rollouts_[index - first_rollout_].reset();
  if (index == 0) {
    head_.reset();
    disk_.crash();
  }
  if (index == 1) reward_.reset();
  if (index == 2 && job_.has_reference) reference_.reset();
  world_.at(world_.now() + down_ms, [this, index] { start(index); });
}

void Cluster::fault() {
  if (world_.now() >= calm_at_) return;
  one_fault();
  world_.at(world_.now() + world_.pick(20, faults_.every_ms), [this] { fault(); });
}

void Cluster::one_fault() {
  auto any = [this](int64_t from) {
    return static_cast<size_t>(world_.pick(from, static_cast<int64_t>(processes_.size()) - 1));
  };
  int64_t now = world_.now();
  int64_t kind = world_.pick(0, 6);
  size_t at = any(0);
  bool is_done = true;
  if (kind == 0 && faults_.crashes) {
    crash(any(1), world_.pick(10, 1500));
  } else if (kind == 1 && faults_.head_crashes) {
    crash(0, world_.pick(10, 1500));
  } else if (kind == 2 && faults_.stops) {
    processes_[at].stopped_until = now + world_.pick(50, 4000);
    world_.note("stops", at);
  } else if (kind == 3 && faults_.slow) {
    processes_[at].slow_until = now + world_.pick(100, 3000);
    world_.note("slow", at);
  } else if (kind == 4 && faults_.cuts) {
    size_t other = any(0);
    bool is_alone = world_.chance(0.5);
    for (size_t i = 0; i < processes_.size(); ++i)
      if (i != at && (is_alone || i == other)) network_.cut(processes_[at], processes_[i]);
    world_.note("cut off", at, other, is_alone ? 1 : 0);
  } else if (kind == 5 && faults_.full_disk) {
    disk_.full_until = now + world_.pick(50, 1500);
    world_.note("disk is full");
  } else if (kind == 6) {
    network_.heal();
    world_.note("heals");
  } else {
    is_done = false;
  }
  if (is_done) ++fault_count_;
}

void Cluster::calm_down() {
  world_.note("faults cease");
  network_.harm = {};
  network_.heal();
  disk_.full_until = 0;
  for (Process& process : processes_) process.slow_until = 0;
}

void Cluster::head_ends() {
  world_.at(world_.now(), [this] { crash(0, world_.pick(50, 2000)); });
}

uint64_t Cluster::calm_version() const {
  uint64_t version = Checkpoint{}.version;
  for (uint64_t step = 1; step <= job_.steps; ++step) {
    std::vector<Item> batch;
    for (uint32_t group = 0; group < job_.groups; ++group)
      for (uint32_t index = 0; index < job_.group_size; ++index) {
        Item item{step, group, index, 0, 0, version, 0, 0};
        item.content = content_of(version, key_of(item));
        item.score = mix64(item.content) | 1;
        batch.push_back(item);
      }
    version = next_version(version, batch);
  }
  return version;
}

void Cluster::run_ends(uint64_t version) {
  world_.note("run ends", version);
  if (version != calm_version())
    world_.violate("REPLAY", "the run ends with other parameters than an undisturbed one");
  world_.stop();
}

Outcome Cluster::run() {
  network_.harm = faults_.harm;
  // Nobody waits for anybody at the start: each begins at a time of its own.
  for (size_t i = 0; i < processes_.size(); ++i) {
    processes_[i].is_up = false;
    world_.at(world_.pick(1, 100), [this, i] { start(i); });
  }
  world_.at(world_.pick(100, 500), [this] { fault(); });
  world_.at(calm_at_, [this] { calm_down(); });
  world_.at(calm_at_ + k_patience_ms, [this] {
    world_.violate("LIVENESS", fmt::format("{} ms after the last fault the run has not ended: "
                                           "{} of {} steps are in the checkpoint",
                                           k_patience_ms, disk_.checkpoint().steps, job_.steps));
  });
  world_.run();
  Outcome outcome{seed_,        world_.violation(), {}, world_.now(), world_.events(),
                  fault_count_, world_.digest()};
  if (world_.is_violated()) outcome.trace = world_.trace_tail();
  return outcome;
}

void Cluster::beat(const Beat& beat) {
  network_.control(rollout(beat.replica), processes_[0], [this, beat] { head_->on_beat(beat); });
}

void Cluster::lease(uint32_t replica, const SimLease& lease) {
  network_.control(processes_[0], rollout(replica),
                   [this, replica, lease] { rollouts_[replica]->on_lease(lease); });
}

void Cluster::publish(uint32_t replica, const Publish& publish) {
  network_.control(processes_[0], rollout(replica),
                   [this, replica, publish] { rollouts_[replica]->on_publish(publish); });
}

void Cluster::cancel(uint32_t replica, const Cancel& cancel) {
  network_.control(processes_[0], rollout(replica),
                   [this, replica, cancel] { rollouts_[replica]->on_cancel(cancel); });
}

void Cluster::rejoin(uint32_t replica, uint64_t incarnation) {
  network_.control(processes_[0], rollout(replica),
                   [this, replica, incarnation] { rollouts_[replica]->on_rejoin(incarnation); });
}

}  // namespace cohort::sim
