#include "tools/cohort-sim/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::sim {

namespace {
constexpr std::array<uint32_t, 3> k_steps_ahead = {0, 1, 4};
}

Outcome simulate(uint64_t seed, const SimOptions& options) { return Cluster(seed, options).run(); }

Cluster::Cluster(uint64_t seed, const SimOptions& options)
    : seed_(seed),
      world_(seed),
      network_(world_),
      audit_(world_),
      disk_(world_, audit_),
      stage_{world_, network_, audit_, options.plant},
      wires_(stage_) {
  world_.is_loud = options.is_loud;
  draw_job(options.steps_ahead.value_or(k_steps_ahead[seed % k_steps_ahead.size()]));
  draw_faults();
  processes_.push_back({"head", 1, false, 0, 0});
  processes_.push_back({"reward", 1, false, 0, 0});
  slots_.resize(job_.slots());
  for (uint32_t slot = 0; slot < job_.slots(); ++slot) {
    processes_.push_back({fmt::format("slot.{}", slot), 1, false, 0, 0});
    slots_[slot].process = &processes_.back();
  }
}

// -- what the head asks of the cluster

/// Runs `what` at the node of a slot for this life of the head: later, while the two are cut off
/// from each other.
void Cluster::by_agent(uint32_t slot, uint64_t head_life, int64_t delay_ms,
                       std::function<void()> what) {
  world_.at(world_.now() + delay_ms, [this, slot, head_life, what = std::move(what)] {
    if (head_process().life != head_life) return;
    if (network_.is_cut(head_process(), *slots_[slot].process))
      return by_agent(slot, head_life, k_agent_ms, what);
    what();
  });
}

void Cluster::start_process(uint32_t slot, uint32_t attempt) {
  slots_[slot].start = [this, slot, attempt, life = head_process().life] {
    if (head_process().life == life) start_slot(slot, attempt, life);
  };
  const int64_t takes = world_.chance(0.2) ? world_.pick(300, 4000) : world_.pick(5, 300);
  by_agent(slot, head_process().life, takes, [this, slot, attempt] {
    Slot& each = slots_[slot];
    if (each.is_node_there && each.start) std::exchange(each.start, {})();
    world_.note("agent starts", slot, attempt);
  });
}

void Cluster::start_slot(uint32_t slot, uint32_t attempt, uint64_t head_life) {
  Slot& each = slots_[slot];
  if (each.process->is_up) end_slot(slot, "an orphan ends");  // of an earlier head
  each.attempt = attempt;
  each.head_life = head_life;
  each.process->is_up = true;
  world_.note("process starts", slot, attempt, each.process->life);
  auto on_peer_lost = [this, slot](const std::string& peer, const Error& error) {
    to_head(slot, slots_[slot].head_life,
            [this, peer, error] { head_->on_peer_lost(k_reference_role, peer, error); });
  };
  each.card = std::make_unique<SimCard>(
      stage_, job_, wires_, *each.process, slot, attempt,
      [this, slot] {
        world_.at(world_.now(), [this, slot] { end_slot(slot, "it is killed by a group"); });
      },
      on_peer_lost);
  const SlotHandle self{slot, each.process->life};
  world_.post(*each.process, world_.pick(1, 50), [this, self, attempt, head_life] {
    to_head(self.slot, head_life, [this, self, attempt] { head_->on_hello(self, attempt); });
  });
}

void Cluster::welcome(const SlotHandle& to, uint32_t attempt) {
  const uint64_t head_life = head_process().life;
  to_card(
      to,
      [this, to, attempt, head_life](SimCard&) {
        world_.post(*slots_[to.slot].process, world_.pick(5, 200), [this, to, attempt, head_life] {
          to_head(to.slot, head_life, [this, to, attempt] { head_->on_ready(to, attempt); });
        });
      },
      [] {});
}

void Cluster::end_slot(uint32_t slot, const char* how) {
  Slot& each = slots_[slot];
  Process& process = *each.process;
  if (!process.is_up) return;
  world_.note(how, slot, each.attempt, process.life);
  process.is_up = false;
  ++process.life;
  process.stopped_until = process.slow_until = 0;
  each.card.reset();
  wires_.rollouts.forget(process);
  wires_.reference.forget(process);
  const uint32_t attempt = each.attempt;
  by_agent(slot, each.head_life, world_.pick(1, 20), [this, slot, attempt] {
    world_.deliver(head_process(), world_.now(), [this, slot, attempt] {
      head_->on_member(plan::member::Exited{slot, attempt, "was killed", false});
    });
  });
}

void Cluster::kill_process(uint32_t slot, uint32_t attempt) {
  by_agent(slot, head_process().life, world_.pick(1, 5), [this, slot, attempt] {
    if (slots_[slot].attempt == attempt) end_slot(slot, "it is killed by the head");
  });
}

void Cluster::stop_process(const SlotHandle& to) {
  to_card(
      to,
      [this, slot = to.slot](SimCard&) {
        world_.at(world_.now(), [this, slot] { end_slot(slot, "it stops as told"); });
      },
      [] {});
}

void Cluster::to_card(const SlotHandle& to, std::function<void(SimCard&)> what,
                      std::function<void()> refused) {
  Process& process = *slots_[to.slot].process;
  if (process.life != to.life) {  // it is known by now, or nobody answers
    if (world_.chance(0.5)) world_.post(head_process(), world_.pick(0, 20), std::move(refused));
    return;
  }
  network_.control(head_process(), process, to.life,
                   [this, slot = to.slot, what = std::move(what)] { what(*slots_[slot].card); });
}

// Where one replica has outrun another, it may end right behind the word of it.
void Cluster::cancel(const SlotHandle& to, const plan::run::Cancel& cancel) {
  Process& process = *slots_[to.slot].process;
  network_.control_late(head_process(), process, to.life, [this, slot = to.slot, cancel] {
    slots_[slot].card->rollout()->on_cancel(cancel);
  });
  if (world_.now() >= calm_at_ || !faults_.winners || !world_.chance(0.5)) return;
  const auto winner = static_cast<uint32_t>(world_.pick(0, job_.rollout_cards() - 1));
  if (winner / job_.tensor_parallel == cancel.replica) return;
  world_.at(world_.now() + world_.pick(0, 5), [this, winner] { end_slot(winner, "it crashes"); });
  ++fault_count_;
}

void Cluster::to_head(uint32_t slot, uint64_t head_life, std::function<void()> what) {
  network_.control(*slots_[slot].process, head_process(), head_life, std::move(what));
}

// -- nodes that are cut off

void Cluster::watch_node(uint32_t slot, uint64_t cuts) {
  Slot& each = slots_[slot];
  if (each.cuts != cuts || !network_.is_cut(head_process(), *each.process)) return;
  each.is_node_there = false;
  world_.note("node is gone", slot, each.attempt);
  const uint32_t attempt = each.attempt;
  if (!head_process().is_up) return;
  world_.deliver(head_process(), world_.now(), [this, slot, attempt] {
    head_->on_member(plan::member::Exited{slot, attempt, "its node is gone", true});
  });
}

// What the agent of a node that was gone still runs is an orphan. It joins anew.
void Cluster::heal() {
  network_.heal();
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    Slot& each = slots_[slot];
    if (std::exchange(each.is_node_there, true)) continue;
    world_.note("node is back", slot);
    end_slot(slot, "an orphan ends");
    world_.at(world_.now() + world_.pick(1, 300), [this, slot] {
      Slot& later = slots_[slot];
      if (later.is_node_there && later.start) std::exchange(later.start, {})();
    });
  }
}

// -- head and reward

void Cluster::start_head() {
  if (head_process().is_up) return;
  head_process().is_up = true;
  world_.note("head begins", attempt_, disk_.open());
  job_.link.run_id = fmt::format("sim.{}.", attempt_);
  audit_.on_resumed(disk_.checkpoint() && !disk_.checkpoint()->cursor.is_warm
                        ? disk_.checkpoint()->cursor.step
                        : 0);
  Surroundings& surroundings = *this;
  head_ =
      std::make_unique<Head>(stage_, surroundings, job_, head_process(), disk_, wires_, attempt_++);
  start_reward();
}

void Cluster::crash_head(int64_t down_ms) {
  Process& process = head_process();
  if (!process.is_up) return;
  world_.note("head ends", process.life);
  process.is_up = false;
  ++process.life;
  process.stopped_until = process.slow_until = 0;
  head_.reset();
  end_reward();
  wires_.rollouts.forget(process);
  wires_.reference.forget(process);
  disk_.crash();
  for (uint32_t slot = 0; slot < slots_.size(); ++slot)  // they notice, sooner or later
    world_.at(world_.now() + world_.pick(0, 1500), [this, slot, life = slots_[slot].process->life] {
      if (slots_[slot].process->life == life) end_slot(slot, "it has lost its head");
    });
  world_.at(world_.now() + down_ms, [this] { start_head(); });
}

void Cluster::start_reward() {
  if (processes_[1].is_up || !head_process().is_up) return;
  processes_[1].is_up = true;
  world_.note("reward starts", processes_[1].life);
  auto on_peer_lost = [this](const std::string& peer, const Error& error) {
    network_.control(processes_[1], head_process(), head_process().life, [this, peer, error] {
      if (head_) head_->on_peer_lost("rewards", peer, error);
    });
  };
  reward_ = std::make_unique<SimHop>(stage_, job_, processes_[1], "reward->", "reward",
                                     job_.has_reference ? "reference" : "collector", on_peer_lost);
}

void Cluster::end_reward() {
  Process& process = processes_[1];
  if (!process.is_up) return;
  world_.note("reward ends", process.life);
  process.is_up = false;
  ++process.life;
  process.stopped_until = process.slow_until = 0;
  reward_.reset();
}

// -- the run

uint64_t Cluster::calm_parameters() const {
  uint64_t parameters = Checkpoint{}.parameters;
  auto train = [&](Kind kind, uint64_t step, uint32_t groups, uint32_t group_size) {
    std::vector<Item> batch;
    for (uint32_t group = 0; group < groups; ++group)
      for (uint32_t index = 0; index < group_size; ++index) {
        Item item;
        item.step = step;
        item.kind = static_cast<uint32_t>(kind);
        item.group = group;
        item.index = index;
        const bool is_warm = kind == Kind::warm_start;
        item.is_masked = audit_.masked_groups().contains({kind, step, group, 0}) ? 1 : 0;
        item.content = content_of(is_warm ? 0 : parameters, key_of(item));
        item.score = score_of(item.content);
        batch.push_back(item);
      }
    parameters = next_parameters(parameters, batch);
  };
  for (uint64_t round = 0; round < job_.warm_rounds; ++round)
    train(Kind::warm_start, round, Job::k_warm_batch, 1);
  for (uint64_t step = 1; step <= job_.steps; ++step)
    train(Kind::train, step, job_.groups, job_.group_size);
  return parameters;
}

void Cluster::run_over(const plan::run::End& end, uint64_t parameters) {
  using How = plan::run::End::How;
  if (end.how == How::finished) {
    world_.note("run ends", parameters % 1000);
    audit_.on_ended(job_.steps, job_.groups, job_.group_size);
    if (job_.steps_ahead == 0 && parameters != calm_parameters())
      world_.violate("REPLAY", "the run ends with other parameters than an undisturbed one");
    return world_.stop();
  }
  if (end.how == How::failed) world_.remember("the run fails: " + end.error);
  if (end.how == How::failed && world_.now() > calm_at_ + k_settle_ms)
    return world_.violate("LIVENESS", "the run fails without a fault: " + end.error);
  world_.at(world_.now(), [this] { crash_head(world_.pick(50, 2000)); });
}

Outcome Cluster::run() {
  network_.harm = faults_.harm;
  world_.at(world_.pick(1, 100), [this] { start_head(); });
  world_.at(world_.pick(100, 500), [this] { fault(); });
  world_.at(calm_at_, [this] { calm_down(); });
  world_.at(calm_at_ + k_patience_ms, [this] {
    const uint64_t steps = disk_.checkpoint() ? disk_.checkpoint()->cursor.step : 0;
    world_.violate("LIVENESS", fmt::format("{} ms after the last fault the run has not ended: {} "
                                           "of {} steps are in the checkpoint",
                                           k_patience_ms, steps, job_.steps));
  });
  world_.run();
  Outcome outcome{seed_,        world_.violation(), {}, world_.now(), world_.events(),
                  fault_count_, world_.digest()};
  if (world_.is_violated()) outcome.trace = world_.trace_tail();
  return outcome;
}

}  // namespace cohort::sim
