#pragma once
/// A whole run in miniature, from one seed: the job's size, the cluster's processes, the faults and
/// their times. Faults come until a time of the seed's choice; then the wire heals, and the run
/// must end within k_patience_ms of virtual time (LIVENESS) with a calm run's parameters (REPLAY).
/// A run that fails while there are faults is resumed from its last checkpoint, as its operator
/// would; once their consequences are over it may not fail. One thread. Bound: one run.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cohort-sim/head.hpp"
#include "tools/cohort-sim/sim_hop.hpp"

namespace cohort::sim {

struct Outcome {
  uint64_t seed = 0;
  Violation violation;             // label empty: none
  std::vector<std::string> trace;  // of a violation
  int64_t virtual_ms = 0;
  uint64_t events = 0, faults = 0;
  uint64_t digest = 0;  // equal for equal runs
};

struct SimOptions {
  Plant plant = Plant::none;
  std::optional<uint32_t> steps_ahead;  // none: 0, 1 and 4 in turn, by seed
  bool is_loud = false;                 // prints the whole trace
};
/// Runs the seed to its end.
Outcome simulate(uint64_t seed, const SimOptions& options = {});

class Cluster final : Surroundings {
 public:
  static constexpr int64_t k_patience_ms = 240000;
  static constexpr int64_t k_settle_ms = 30000;  // consequences of faults
  static constexpr int64_t k_node_ms = 3000;     // cut off for so long: the head gives up its node
  static constexpr int64_t k_agent_ms = 50;      // a node's agent tries again
  Cluster(uint64_t seed, const SimOptions& options);
  Outcome run();

 private:
  struct Faults {  // which the seed allows
    bool crashes = false, head_crashes = false, stops = false, slow = false, cuts = false,
         hangs = false, leaves = false, full_disk = false, user_stops = false, winners = false;
    int64_t every_ms = 500;  // at most so long from one to the next
    Harm harm;
  };
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
  void start_process(uint32_t slot, uint32_t attempt) override;
  void kill_process(uint32_t slot, uint32_t attempt) override;
  void stop_process(const SlotHandle& to) override;
  void welcome(const SlotHandle& to, uint32_t attempt) override;
  void to_card(const SlotHandle& to, std::function<void(SimCard&)> what,
               std::function<void()> refused) override;
  void cancel(const SlotHandle& to, const plan::run::Cancel& cancel) override;
  void to_head(uint32_t slot, uint64_t head_life, std::function<void()> what) override;
  void run_over(const plan::run::End& end, uint64_t parameters) override;

  void draw_job(uint32_t steps_ahead);
  void draw_faults();
  void start_head();
  void start_reward();
  void crash_head(int64_t down_ms);
  void end_reward();
  void start_slot(uint32_t slot, uint32_t attempt, uint64_t head_life);
  void end_slot(uint32_t slot, const char* how);
  void by_agent(uint32_t slot, uint64_t head_life, int64_t delay_ms, std::function<void()> what);
  void watch_node(uint32_t slot, uint64_t cuts);
  void heal();
  void fault();
  bool one_fault();
  bool fault_of_process(Process& process);
  void cut_off(size_t at);
  void calm_down();
  uint64_t calm_parameters() const;
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
  int64_t calm_at_ = 0;
  uint64_t fault_count_ = 0;
  uint32_t attempt_ = 0;           // of the run
  std::deque<Process> processes_;  // head, reward, then one per slot
  std::vector<Slot> slots_;
  std::unique_ptr<Head> head_;
  std::unique_ptr<SimHop> reward_;
};

}  // namespace cohort::sim
