// The cluster's processes and the faults. Faults come until a time of the seed's choice; then the
// wire heals, and the run must end within k_patience_ms of virtual time (LIVENESS) with a calm
// run's parameters (REPLAY). A run that fails while there are faults is resumed from its last
// checkpoint, as its operator would; once their consequences are over it may not fail.
#include "tools/cohort-sim/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "tools/cohort-sim/faults.hpp"
#include "tools/cohort-sim/head.hpp"
#include "tools/cohort-sim/sim_hop.hpp"

namespace cohort::sim {

namespace {

constexpr std::array<uint32_t, 3> k_steps_ahead = {0, 1, 4};

class Cluster final : public Surroundings {
 public:
  static constexpr int64_t k_patience_ms = 240000;
  static constexpr int64_t k_settle_ms = 30000;  // consequences of faults
  static constexpr int64_t k_node_ms = 3000;     // cut off for so long: the head gives up its node
  static constexpr int64_t k_agent_ms = 50;      // a node's agent tries again
  Cluster(uint64_t seed, const SimOptions& options)
      : seed_(seed),
        world_(seed),
        network_(world_),
        audit_(world_),
        disk_(world_, audit_),
        stage_{world_, network_, audit_, options.plant},
        wires_(stage_) {
    world_.is_loud = options.is_loud;
    job_ =
        draw_job(world_, options.steps_ahead.value_or(k_steps_ahead[seed % k_steps_ahead.size()]));
    draw_filter(seed, job_);
    if (!options.steps_ahead) draw_flowing(seed, job_);
    if (options.is_flowing) {
      job_.is_flowing = true;
      job_.is_scheduled = options.is_scheduled;
      job_.depth = job_.steps_ahead;
      job_.gen_batches_max = 0;
    }
    faults_ = draw_faults(world_, job_);
    if (options.job) {
      faults_ = Faults{};
      job_ = *options.job;
    }
    processes_.push_back({"head", 1, false, 0, 0});
    processes_.push_back({"reward", 1, false, 0, 0});
    slots_.resize(job_.slots());
    for (uint32_t slot = 0; slot < job_.slots(); ++slot) {
      processes_.push_back({fmt::format("slot.{}", slot), 1, false, 0, 0});
      slots_[slot].process = &processes_.back();
    }
  }
  Outcome run() {
    network_.harm = faults_.harm;
    world_.at(world_.pick(1, 100), [this] { start_head(); });
    world_.at(world_.pick(100, 500), [this] { fault(); });
    world_.at(faults_.calm_at, [this] { calm_down(); });
    world_.at(faults_.calm_at + k_patience_ms, [this] {
      const uint64_t steps = disk_.checkpoint() ? disk_.checkpoint()->cursor.step : 0;
      world_.violate("LIVENESS", fmt::format("{} ms after the last fault the run has not ended: {} "
                                             "of {} steps are in the checkpoint",
                                             k_patience_ms, steps, job_.steps));
    });
    world_.run();
    Outcome outcome{seed_,           world_.violation(), {},
                    world_.now(),    world_.events(),    fault_count_,
                    world_.digest(), audit_.spans(),     audit_.steps_ms()};
    if (world_.is_violated()) outcome.trace = world_.trace_tail();
    return outcome;
  }

 private:
  /// A card's process, and the agent of its node, which starts and ends it.
  struct Slot {
    Process* process = nullptr;
    std::unique_ptr<SimCard> card;
    uint32_t attempt = 0;
    uint64_t head_life = 0;  // of the head that it belongs to
    bool is_node_there = true;
    uint64_t cuts = 0;            // that its node has seen
    std::function<void()> start;  // once its node is there
  };
  void start_process(uint32_t slot, uint32_t attempt) override {
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
  void kill_process(uint32_t slot, uint32_t attempt) override {
    by_agent(slot, head_process().life, world_.pick(1, 5), [this, slot, attempt] {
      if (slots_[slot].attempt == attempt) end_slot(slot, "it is killed by the head");
    });
  }
  void stop_process(const SlotHandle& to) override {
    to_card(to, [this, slot = to.slot](SimCard&) {
      world_.at(world_.now(), [this, slot] { end_slot(slot, "it stops as told"); });
    });
  }
  void welcome(const SlotHandle& to, uint32_t attempt) override {
    const uint64_t head_life = head_process().life;
    to_card(to, [this, to, attempt, head_life](SimCard&) {
      world_.post(*slots_[to.slot].process, world_.pick(5, 200), [this, to, attempt, head_life] {
        to_head(to.slot, head_life, [this, to, attempt] { head_->on_ready(to, attempt); });
      });
    });
  }
  void to_card(
      const SlotHandle& to, std::function<void(SimCard&)> what,
      std::function<void()> refused = [] {}) override {
    Process& process = *slots_[to.slot].process;
    if (process.life != to.life) {  // it is known by now, or nobody answers
      if (world_.chance(0.5)) world_.post(head_process(), world_.pick(0, 20), std::move(refused));
      return;
    }
    network_.control(head_process(), process, to.life,
                     [this, slot = to.slot, what = std::move(what)] { what(*slots_[slot].card); });
  }
  // Where one replica has outrun another, it may end right behind the word of it.
  void cancel(const SlotHandle& to, const plan::run::Cancel& cancel) override {
    Process& process = *slots_[to.slot].process;
    network_.control_late(head_process(), process, to.life, [this, slot = to.slot, cancel] {
      slots_[slot].card->rollout()->on_cancel(cancel);
    });
    if (world_.now() >= faults_.calm_at || !faults_.winners || !world_.chance(0.5)) return;
    const auto winner = static_cast<uint32_t>(world_.pick(0, job_.rollout_cards() - 1));
    if (winner / job_.tensor_parallel == cancel.replica) return;
    world_.at(world_.now() + world_.pick(0, 5), [this, winner] { end_slot(winner, "it crashes"); });
    ++fault_count_;
  }
  void to_head(uint32_t slot, uint64_t head_life, std::function<void()> what) override {
    network_.control(*slots_[slot].process, head_process(), head_life, std::move(what));
  }
  void run_over(const plan::run::End& end, uint64_t parameters) override {
    using How = plan::run::End::How;
    if (end.how == How::finished) {
      world_.note("run ends", parameters % 1000);
      audit_.on_ended(job_);
      const bool is_replaced = job_.steps_ahead > 0 && job_.gen_batches_max > 0;
      const bool is_fixed = !is_replaced && !job_.is_flowing && !audit_.has_newer_policy();
      if (is_fixed && parameters != calm_parameters())
        world_.violate("REPLAY", "the run ends with other parameters than an undisturbed one");
      return world_.stop();
    }
    if (end.how == How::failed) world_.remember("the run fails: " + end.error);
    if (end.how == How::failed &&
        world_.now() > std::max(faults_.calm_at, killed_ms_) + k_settle_ms)
      return world_.violate("LIVENESS", "the run fails without a fault: " + end.error);
    world_.at(world_.now(), [this] { crash_head(world_.pick(50, 2000)); });
  }

  void start_head() {
    if (head_process().is_up) return;
    head_process().is_up = true;
    world_.note("head begins", attempt_, disk_.open());
    job_.link.run_id = fmt::format("sim.{}.", attempt_);
    audit_.on_resumed(disk_.checkpoint() && !disk_.checkpoint()->cursor.is_warm
                          ? disk_.checkpoint()->cursor.step
                          : 0);
    head_ = std::make_unique<Head>(HeadParts{stage_, *this, job_, head_process(), disk_, wires_},
                                   attempt_++);
    start_reward();
  }
  void start_reward() {
    if (processes_[1].is_up || !head_process().is_up) return;
    processes_[1].is_up = true;
    world_.note("reward starts", processes_[1].life);
    auto on_peer_lost = [this](const std::string& peer, const Error& error) {
      network_.control(processes_[1], head_process(), head_process().life, [this, peer, error] {
        if (head_) head_->on_peer_lost("rewards", peer, error);
      });
    };
    reward_ =
        std::make_unique<SimHop>(stage_, job_, processes_[1], "reward->", "reward",
                                 job_.has_reference ? "reference" : "collector", on_peer_lost);
  }
  void crash_head(int64_t down_ms) {
    Process& process = head_process();
    if (!process.is_up) return;
    world_.note("head ends", process.life);
    process.end();
    head_.reset();
    end_reward();
    wires_.forget(process);
    disk_.crash();
    for (uint32_t slot = 0; slot < slots_.size(); ++slot)  // they notice, sooner or later
      world_.at(world_.now() + world_.pick(0, 1500),
                [this, slot, life = slots_[slot].process->life] {
                  if (slots_[slot].process->life == life) end_slot(slot, "it has lost its head");
                });
    world_.at(world_.now() + down_ms, [this] { start_head(); });
  }
  void end_reward() {
    Process& process = processes_[1];
    if (!process.is_up) return;
    world_.note("reward ends", process.life);
    process.end();
    reward_.reset();
  }
  void start_slot(uint32_t slot, uint32_t attempt, uint64_t head_life) {
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
          // A fault too, whenever its group is played: a run may give up over it.
          killed_ms_ = world_.now();
          world_.at(world_.now(), [this, slot] { end_slot(slot, "it is killed by a group"); });
        },
        on_peer_lost);
    const SlotHandle self{slot, each.process->life};
    world_.post(*each.process, world_.pick(1, 50), [this, self, attempt, head_life] {
      to_head(self.slot, head_life, [this, self, attempt] { head_->on_hello(self, attempt); });
    });
  }
  void end_slot(uint32_t slot, const char* how) {
    Slot& each = slots_[slot];
    Process& process = *each.process;
    if (!process.is_up) return;
    world_.note(how, slot, each.attempt, process.life);
    process.end();
    each.card.reset();
    wires_.forget(process);
    const uint32_t attempt = each.attempt;
    by_agent(slot, each.head_life, world_.pick(1, 20), [this, slot, attempt] {
      world_.deliver(head_process(), world_.now(), [this, slot, attempt] {
        head_->on_member(plan::member::Exited{slot, attempt, "was killed", false});
      });
    });
  }
  /// Runs `what` at the node of a slot for this life of the head: later, while the two are cut off
  /// from each other.
  void by_agent(uint32_t slot, uint64_t head_life, int64_t delay_ms, std::function<void()> what) {
    world_.at(world_.now() + delay_ms, [this, slot, head_life, what = std::move(what)] {
      if (head_process().life != head_life) return;
      if (network_.is_cut(head_process(), *slots_[slot].process))
        return by_agent(slot, head_life, k_agent_ms, what);
      what();
    });
  }
  void watch_node(uint32_t slot, uint64_t cuts) {
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
  void heal() {
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
  void fault() {
    if (world_.now() >= faults_.calm_at) return;
    if (one_fault()) ++fault_count_;
    world_.at(world_.now() + world_.pick(20, faults_.every_ms), [this] { fault(); });
  }
  bool one_fault() {
    const auto slot = static_cast<uint32_t>(world_.index_of(slots_));
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
        return fault_of_process(processes_[world_.index_of(processes_)]);
      case 4:
        if (faults_.cuts) cut_off(world_.index_of(processes_));
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
  bool fault_of_process(Process& process) {
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
  void cut_off(size_t at) {
    const auto other = world_.index_of(processes_);
    const bool is_alone = world_.chance(0.5);
    for (size_t i = 0; i < processes_.size(); ++i)
      if (i != at && (is_alone || i == other)) network_.cut(processes_[at], processes_[i]);
    world_.note("cut off", at, other, is_alone ? 1 : 0);
    for (uint32_t slot = 0; slot < slots_.size(); ++slot)
      if (network_.is_cut(head_process(), *slots_[slot].process))
        world_.at(world_.now() + k_node_ms,
                  [this, slot, cuts = ++slots_[slot].cuts] { watch_node(slot, cuts); });
  }
  void calm_down() {
    world_.note("faults cease");
    network_.harm = {};
    heal();
    disk_.full_until = 0;
    for (Process& process : processes_) process.slow_until = 0;
  }
  /// A group as it is played and scored.
  std::vector<Item> calm_group(TrajectoryKey first, uint32_t group_size,
                               uint64_t parameters) const {
    std::vector<Item> items;
    for (; first.index < group_size; ++first.index) {
      Item item;
      item.step = first.step;
      item.kind = static_cast<uint32_t>(first.kind);
      item.group = first.group;
      item.index = first.index;
      item.is_masked =
          audit_.masked_groups().contains({first.kind, first.step, first.group, 0}) ? 1 : 0;
      item.content = content_of(parameters, key_of(item));
      item.score = score_of(item.content);
      items.push_back(item);
    }
    return items;
  }
  /// What a step trains on if nothing is disturbed: of each lane the first groups that carry a
  /// signal, as many as the lane has in a batch (REFILL-1).
  std::vector<Item> calm_step(uint64_t step, uint64_t parameters) const {
    std::vector<Item> batch;
    for (uint32_t lane = 0; lane < job_.lanes; ++lane) {
      uint32_t wanted = 0;
      for (uint32_t group = 0; group < job_.groups; ++group)
        wanted += job_.lane_of(group) == lane ? 1 : 0;
      const uint32_t end = job_.groups * std::max(1U, job_.gen_batches_max);
      for (uint32_t group = 0; group < end && wanted > 0; ++group) {
        if (job_.lane_of(group) != lane) continue;
        const auto items = calm_group({Kind::train, step, group, 0}, job_.group_size, parameters);
        if (is_left_out(job_, items)) continue;
        batch.insert(batch.end(), items.begin(), items.end());
        --wanted;
      }
    }
    std::ranges::sort(batch, {}, [](const Item& item) { return key_of(item); });
    return batch;
  }
  uint64_t calm_parameters() const {
    uint64_t parameters = Checkpoint{}.parameters;
    for (uint64_t round = 0; round < job_.warm_rounds; ++round) {
      std::vector<Item> batch;
      for (uint32_t group = 0; group < Job::k_warm_batch; ++group)
        batch.push_back(calm_group({Kind::warm_start, round, group, 0}, 1, 0).front());
      parameters = next_parameters(parameters, batch);
    }
    std::deque<uint64_t> played_by;  // parameters of the last steps, the oldest first
    for (uint64_t step = 1; step <= job_.steps; ++step) {
      played_by.push_back(parameters);
      if (played_by.size() > job_.steps_ahead + 1) played_by.pop_front();
      parameters = next_parameters(parameters, calm_step(step, played_by.front()));
    }
    return parameters;
  }
  Process& head_process() { return processes_[0]; }

  const uint64_t seed_;
  World world_;
  Network network_;
  Audit audit_;
  Disk disk_;
  Stage stage_;
  PublishWires wires_;
  Job job_;
  Faults faults_;
  uint64_t fault_count_ = 0;
  int64_t killed_ms_ = 0;          // when a group last killed its player
  uint32_t attempt_ = 0;           // of the run
  std::deque<Process> processes_;  // head, reward, then one per slot
  std::vector<Slot> slots_;
  std::unique_ptr<Head> head_;
  std::unique_ptr<SimHop> reward_;
};

}  // namespace

Outcome simulate(uint64_t seed, const SimOptions& options) { return Cluster(seed, options).run(); }

}  // namespace cohort::sim
