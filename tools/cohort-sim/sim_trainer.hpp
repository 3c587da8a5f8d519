#pragma once
/// A simulated trainer around the real Collector: a trajectory is recorded, then acknowledged and
/// counted, a step is handed over once, as actors/roles/trainer_actor.cpp does; the engine is a
/// hash, its worker does one thing after the other. One thread; the head's. Bound: the open steps.
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
  SimTrainer(Stage& stage, const Job& job, Process& self, Disk& disk, std::function<void()> on_full,
             SimReceiver::OnPeerLost on_peer_lost);

  Expected<void> expect(Kind kind, uint64_t step, uint32_t groups, uint32_t group_size);
  /// Answers when every trajectory of the step is recorded.
  void collect(Kind kind, uint64_t step, std::function<void(Expected<double> masked_share)> done);
  /// Returns the trajectories (group, index) in the stream; none: the step is over.
  std::optional<std::vector<std::pair<uint32_t, uint32_t>>> recorded(Kind kind,
                                                                     uint64_t step) const;
  void mask(Kind kind, uint64_t step, uint32_t group, uint64_t version, Done done);
  /// Trains the step: version `next_version` is then in the engine.
  void update(Kind kind, uint64_t step, uint64_t next_version, Done done);
  /// Calls `job` when the worker is free; it is until `job` calls what it is given. `parameters`:
  /// those of that time.
  using WorkerJob = std::function<void(uint64_t parameters, std::function<void()> is_over)>;
  void in_worker(WorkerJob job);
  /// The engine has these parameters, of a version that the next offer names.
  void load(uint64_t parameters);
  /// The engine's parameters go out as `version`: PLACE-5.
  void on_offered(uint64_t version);
  uint64_t parameters() const { return parameters_; }

 private:
  struct Step {
    uint32_t groups = 0, group_size = 0;
    std::vector<Item> items;  // recorded
    std::set<uint32_t> masks;
    std::function<void(Expected<double>)> waiting;
  };
  static plan::StepKey key_of(Kind kind, uint64_t step) { return {kind, step}; }
  void on_delivery(const SimTicket& ticket);
  void record(std::vector<Item> items, std::function<void()> then);
  void keep(const std::vector<Item>& items);
  void maybe_complete(plan::StepKey key);
  void train(const TrainedStep& trained, const std::vector<Item>& batch);
  void next_job();

  Stage& stage_;
  const Job& job_;
  Process& self_;
  Disk& disk_;
  const std::function<void()> on_full_;
  plan::Collector collector_;
  std::map<plan::StepKey, Step> steps_;
  uint64_t parameters_ = 1;
  std::optional<uint64_t> version_;  // of them; none: trained by warm start, or loaded
  std::deque<WorkerJob> jobs_;
  bool is_busy_ = false;
  SimReceiver input_;
};

}  // namespace cohort::sim
