#pragma once
/// A whole run in miniature, from one seed: the job's size, the cluster's processes, what goes
/// wrong and when. Faults come until a time of the seed's choice; then the wire heals, who is down
/// comes back, and the run must end within k_patience_ms of virtual time (LIVENESS) with the
/// parameters of a calm run (REPLAY). One thread. Bound: one run.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/cohort-sim/sim_roles.hpp"

namespace cohort::sim {

struct Outcome {
  uint64_t seed = 0;
  Violation violation;             // label empty: none
  std::vector<std::string> trace;  // of a violation
  int64_t virtual_ms = 0;
  uint64_t events = 0, faults = 0;
  uint64_t digest = 0;  // equal for equal runs
};

/// Runs the seed to its end.
Outcome simulate(uint64_t seed, Plant plant = Plant::none);

class Cluster final : Roles {
 public:
  static constexpr int64_t k_patience_ms = 60000;
  Cluster(uint64_t seed, Plant plant);
  Outcome run();

 private:
  struct Faults {  // which the seed allows
    bool crashes = false, head_crashes = false, stops = false, slow = false, cuts = false,
         full_disk = false;
    int64_t every_ms = 500;  // at most so long from one to the next
    Harm harm;
  };
  void beat(const Beat& beat) override;
  void lease(uint32_t replica, const SimLease& lease) override;
  void publish(uint32_t replica, const Publish& publish) override;
  void cancel(uint32_t replica, const Cancel& cancel) override;
  void rejoin(uint32_t replica, uint64_t incarnation) override;
  uint64_t next_incarnation() override { return ++incarnations_; }
  void head_ends() override;
  void run_ends(uint64_t version) override;

  void draw_job();
  void draw_faults();
  void start(size_t index);
  void crash(size_t index, int64_t down_ms);
  void fault();
  void one_fault();
  void calm_down();
  uint64_t calm_version() const;
  Process& rollout(uint32_t replica) { return processes_[first_rollout_ + replica]; }

  const uint64_t seed_;
  World world_;
  Network network_;
  Audit audit_;
  Disk disk_;
  Stage stage_;
  Job job_;
  Faults faults_;
  int64_t calm_at_ = 0;
  uint64_t fault_count_ = 0, incarnations_ = 0;
  std::vector<Process> processes_;  // head, reward, [reference], rollouts
  size_t first_rollout_ = 0;
  // What a crash of processes_[i] destroys.
  std::unique_ptr<Head> head_;
  std::unique_ptr<MiddleHop> reward_, reference_;
  std::vector<std::unique_ptr<Rollout>> rollouts_;
};

}  // namespace cohort::sim
