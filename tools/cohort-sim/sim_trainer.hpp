#pragma once
/// A simulated trainer around the real Collector: a trajectory is recorded, then acknowledged and
/// counted, a step is handed over once, as actors/roles/trainer_actor.cpp does; the engine is a
/// hash, its worker does one thing after the other. One thread; the head's. Bound: the open steps.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/flow/collector.hpp"
#include "tools/cohort-sim/disk.hpp"
#include "tools/cohort-sim/link_ends.hpp"
#include "tools/cohort-sim/sim_job.hpp"

namespace cohort::sim {

class SimTrainer {
 public:
  using Done = std::function<void(Expected<void>)>;
  using Sieved = std::function<void(std::vector<uint32_t> left_out)>;
  using Collected = std::function<void(Expected<std::pair<double, std::vector<uint32_t>>>)>;
  SimTrainer(Stage& stage, const Job& job, Process& self, Disk& disk, std::function<void()> on_full,
             SimReceiver::OnPeerLost on_peer_lost)
      : stage_(stage),
        job_(job),
        self_(self),
        disk_(disk),
        on_full_(std::move(on_full)),
        collector_(job.steps_ahead + 1 + 3,  // a warm start round, two held-out kinds
                   machine_plant(stage.plant)),
        input_(
            stage, self, "collector",
            named(job.link, "collector", stage.plant == Plant::wrong_door ? "" : "collector"),
            [this](const SimTicket& ticket) { on_delivery(ticket); }, std::move(on_peer_lost)) {}

  Expected<void> expect(Kind kind, uint64_t step, uint32_t groups, uint32_t group_size) {
    if (auto opened = collector_.open_step(key_of(kind, step), groups, group_size); !opened)
      return opened.error();
    Step& open = steps_[key_of(kind, step)];
    open.group_size = group_size;
    for (const Item& item : restored_)
      if (item.step == step && static_cast<Kind>(item.kind) == kind &&
          collector_.offer(sim::key_of(item)) == plan::Verdict::accepted)
        open.items.push_back(item);
    return {};
  }
  Expected<void> expect_too(Kind kind, uint64_t step, const std::vector<uint32_t>& groups) {
    return collector_.extend_step(key_of(kind, step), groups);
  }
  /// Answers when more than `known` groups are left out, or the step is over.
  void sift(Kind kind, uint64_t step, uint32_t known, Sieved done) {
    auto found = steps_.find(key_of(kind, step));
    if (found == steps_.end()) return done({});
    found->second.sifting = std::move(done);
    found->second.known = known;
    answer_sift(found->second, false);
  }
  /// Answers when every trajectory of the step is recorded.
  void collect(Kind kind, uint64_t step, Collected done) {
    auto found = steps_.find(key_of(kind, step));
    if (found == steps_.end()) return done(Error{Errc::not_found, "collect before expect"});
    found->second.waiting = std::move(done);
    maybe_complete(found->first);
  }
  /// Returns the trajectories (group, index) in the stream; none: the step is over.
  std::optional<std::vector<std::pair<uint32_t, uint32_t>>> recorded(Kind kind,
                                                                     uint64_t step) const {
    auto found = steps_.find(key_of(kind, step));
    if (found == steps_.end()) return std::nullopt;
    std::vector<std::pair<uint32_t, uint32_t>> all;
    for (const Item& item : found->second.items) all.emplace_back(item.group, item.index);
    return all;
  }
  void mask(Kind kind, uint64_t step_number, uint32_t group, uint64_t version, Done done) {
    auto found = steps_.find(key_of(kind, step_number));
    if (found == steps_.end()) return done(Error{Errc::not_found, "mask before expect"});
    Step& step = found->second;
    step.masks.insert(group);
    std::vector<Item> masked;
    for (Item& item : step.items)
      if (item.group == group && item.is_masked == 0) masked.push_back(item);
    std::erase_if(step.items,
                  [group](const Item& item) { return item.group == group && item.is_masked == 0; });
    for (uint32_t index = 0; index < step.group_size; ++index) {
      if (collector_.offer({kind, step_number, group, index}) != plan::Verdict::accepted) continue;
      Item item{step_number, static_cast<uint32_t>(kind), group, index};
      item.version = version;
      masked.push_back(item);
    }
    for (Item& item : masked) item.is_masked = 1;
    record(masked, [this, masked, done = std::move(done)] {
      keep(masked);
      done({});
    });
  }
  /// Trains the step: version `next_version` is then in the engine.
  void update(Kind kind, uint64_t step, uint64_t next_version, Done done) {
    const plan::StepKey key = key_of(kind, step);
    const auto closed = collector_.close_step(key);
    if (!closed) return done(closed.error());
    auto batch = steps_.extract(key);
    Step& whole = batch.mapped();
    answer_sift(whole, true);
    std::vector<Item> items = std::move(whole.items);
    TrainedStep trained{kind, step, {}, whole.group_size, next_version - 1, job_.steps_ahead};
    for (const TrajectoryKey& each : *closed)
      if (!whole.left_out.contains(each.group)) trained.groups.insert(each.group);
    std::erase_if(items, [&](const Item& item) { return whole.left_out.contains(item.group); });
    std::ranges::sort(items, {}, [](const Item& item) { return sim::key_of(item); });
    in_worker([this, trained, items = std::move(items), done = std::move(done)](
                  uint64_t, const std::function<void()>& is_over) {
      const int64_t takes = job_.update_ms > 0 ? job_.update_ms : stage_.world.pick(20, 200);
      stage_.world.post(self_, takes, [this, trained, items, done, is_over] {
        train(trained, items);
        is_over();
        done({});
      });
    });
  }
  /// Calls `job` when the worker is free; it is until `job` calls what it is given. `parameters`:
  /// those of that time.
  using WorkerJob = std::function<void(uint64_t parameters, std::function<void()> is_over)>;
  void in_worker(WorkerJob job) {
    jobs_.push_back(std::move(job));
    if (!is_busy_) next_job();
  }
  /// The engine has these parameters, of a version that the next offer names; the trajectories
  /// `ahead` are those of later steps.
  void load(uint64_t parameters, std::vector<Item> ahead) {
    version_.reset();
    parameters_ = parameters;
    restored_ = std::move(ahead);
  }
  /// Returns the recorded trajectories of the steps after this one.
  std::vector<Item> ahead_of(uint64_t step) const {
    std::vector<Item> ahead;
    if (job_.gen_batches_max > 0) return ahead;  // who is left out is judged as it arrives
    for (const auto& [key, open] : steps_)
      if (key.kind == Kind::train && key.step > step)
        ahead.insert(ahead.end(), open.items.begin(), open.items.end());
    return ahead;
  }
  /// The engine's parameters go out as `version`: PLACE-5.
  void on_offered(uint64_t version) {
    if (!version_) stage_.audit.on_version(version, parameters_);
    version_ = version_.value_or(version);
    if (*version_ != version)
      stage_.world.violate("PLACE-5", "the parameters of another version are published");
  }
  uint64_t parameters() const { return parameters_; }

 private:
  struct Step {
    uint32_t group_size = 0;
    std::vector<Item> items;  // recorded
    std::set<uint32_t> masks, left_out;
    Collected waiting;
    Sieved sifting;
    uint32_t known = 0;  // to who sifts
  };
  static plan::StepKey key_of(Kind kind, uint64_t step) { return {kind, step}; }
  void on_delivery(const SimTicket& ticket) {
    std::vector<Item> fresh;
    for (const Item& item : unpack(ticket->message.header)) {
      const plan::Verdict verdict = collector_.offer(sim::key_of(item), item.attempt);
      if (verdict == plan::Verdict::accepted) {
        fresh.push_back(item);
        continue;
      }
      stage_.world.note("refused", item.step, item.group, item.index);
      if (verdict != plan::Verdict::duplicate) stage_.audit.on_refused(item);
    }
    if (stage_.plant == Plant::ack_before_record) ticket->ack();
    record(fresh, [this, fresh, ticket] {
      ticket->ack();  // FLOW-2: only here
      keep(fresh);
    });
  }
  void record(std::vector<Item> items, std::function<void()> then) {
    disk_.append(self_, std::move(items), [this, then = std::move(then)](bool is_written) {
      is_written ? then() : on_full_();
    });
  }
  void keep(const std::vector<Item>& items) {
    std::vector<Item> again;
    for (const Item& item : items) {
      const plan::StepKey key{static_cast<Kind>(item.kind), item.step};
      auto step = steps_.find(key);
      if (step == steps_.end()) continue;
      if (item.is_masked == 0 && step->second.masks.contains(item.group)) {
        again.push_back(item);
        again.back().is_masked = 1;
        continue;
      }
      stage_.world.note("collected", item.step, item.group, item.index);
      step->second.items.push_back(item);
      judge(step->second, item);
      maybe_complete(key);
    }
    collector_.assert_invariants();
    if (!again.empty()) record(again, [this, again] { keep(again); });
  }
  void judge(Step& step, const Item& last) {
    std::vector<Item> group;
    for (const Item& item : step.items)
      if (item.group == last.group) group.push_back(item);
    if (group.size() != step.group_size) return;
    std::ranges::sort(group, {}, [](const Item& item) { return sim::key_of(item); });
    if (!is_left_out(job_, group)) return;
    stage_.world.note("left out", last.step, last.group);
    stage_.audit.on_left_out(group);
    step.left_out.insert(last.group);
    answer_sift(step, false);
  }
  static void answer_sift(Step& step, bool is_over) {
    if (!step.sifting || (!is_over && step.left_out.size() <= step.known)) return;
    std::exchange(step.sifting, {})({step.left_out.begin(), step.left_out.end()});
  }
  // Complete means recorded: what the collector has accepted may still be on its way to the disk.
  void maybe_complete(plan::StepKey key) {
    Step& step = steps_.at(key);
    if (!step.waiting || !collector_.is_step_complete(key) ||
        step.items.size() != collector_.progress(key).second)
      return;
    auto waiting = std::exchange(step.waiting, {});
    const auto masked = static_cast<double>(
        std::ranges::count_if(step.items, [](const Item& item) { return item.is_masked != 0; }));
    const double share = masked / static_cast<double>(step.items.size());
    const std::vector<uint32_t> left_out(step.left_out.begin(), step.left_out.end());
    if (key.kind == Kind::val || key.kind == Kind::val_greedy) {
      collector_.close_step(key).value();
      steps_.erase(key);
    }
    waiting(std::pair{share, left_out});
  }
  void train(const TrainedStep& trained, const std::vector<Item>& batch) {
    stage_.world.note("trains", trained.step, trained.version, parameters_ % 1000);
    stage_.audit.on_trained(trained, batch);
    parameters_ = next_parameters(parameters_, batch);
    version_.reset();
    if (trained.kind != Kind::train) return;
    version_ = trained.version + 1;
    stage_.audit.on_version(*version_, parameters_);
  }
  void next_job() {
    is_busy_ = !jobs_.empty();
    if (!is_busy_) return;
    WorkerJob job = std::move(jobs_.front());
    jobs_.pop_front();
    job(parameters_, [this] { stage_.world.post(self_, 0, [this] { next_job(); }); });
  }

  Stage& stage_;
  const Job& job_;
  Process& self_;
  Disk& disk_;
  const std::function<void()> on_full_;
  plan::Collector collector_;
  std::map<plan::StepKey, Step> steps_;
  std::vector<Item> restored_;  // from a checkpoint, for steps that are opened again
  uint64_t parameters_ = 1;
  std::optional<uint64_t> version_;  // of them; none: trained by warm start, or loaded
  std::deque<WorkerJob> jobs_;
  bool is_busy_ = false;
  SimReceiver input_;
};

}  // namespace cohort::sim
