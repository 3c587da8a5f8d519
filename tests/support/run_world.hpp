#pragma once
/// A plan::run::Run and a small cluster around it, on a virtual clock: placement, trainer with the
/// real collector, replicas that play, die, hang, come back and leave. All by seed. It checks what
/// the machine commands while it goes.
#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/plan/flow/collector.hpp"
#include "runtime/plan/run/run.hpp"

namespace cohort::tests {

struct WorldOptions {
  uint64_t seed = 1;
  plan::run::RunOptions run;
  uint32_t groups = 4;
  double fault_every_s = 0;       // mean time from one fault to the next; 0: none
  double calm_after_s = 60;       // from then on there are none
  std::set<std::string> killers;  // prompts that kill their players
  bool may_stop = false;
  uint32_t lanes = 1;             // of the groups of a step
  uint64_t left_out_percent = 0;  // of the groups carry no signal, if run.gen_batches_max > 0
};

/// Draws a run from a seed: size, warm start, evaluations, steps_ahead in {0, 1, 4}, rollouts that
/// play on over a publish or not, faults.
WorldOptions world_of(uint64_t seed);

class RunWorld {
 public:
  explicit RunWorld(WorldOptions options);

  /// Plays the run to its end, or to the first violation.
  void play();

  const std::string& violation() const { return violation_; }  // empty: none
  const plan::run::End* end() const { return has_ended_ ? &end_ : nullptr; }
  const std::vector<uint64_t>& trained() const { return trained_; }  // steps, in order
  /// Steps whose held-out loss the trainer was asked for, in order.
  const std::vector<uint64_t>& measured() const { return measured_; }
  uint64_t faults() const { return faults_; }
  uint64_t played_twice() const { return duplicates_; }
  uint64_t in_place() const { return in_place_; }  // groups that took the place of others
  bool has_newer_policy() const { return has_newer_policy_; }
  uint64_t ahead_max() const { return ahead_max_; }  // most steps between a token and its update
  uint64_t played_over() const { return played_over_; }  // leases that were open over a publish
  uint64_t evaluated_beside() const { return evaluated_beside_; }  // updates beside an evaluation
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  struct Playing {
    plan::run::Lease lease;
    uint64_t life = 0;    // of the replica
    int64_t version = 0;  // that it served when the lease came
  };
  struct Replica {
    bool is_alive = true;
    bool is_hung = false;
    bool has_cache = false;  // a new process has none before a phase that generates
    uint64_t life = 0;
    int64_t version = -1;
    std::map<uint64_t, Playing> leases;
  };
  struct Happening {
    double at = 0;
    uint64_t order = 0;
    std::function<void()> what;
    bool operator>(const Happening& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  void after(double seconds, std::function<void()> what);
  void tell(const plan::run::Event& event);
  void check(bool is_true, const std::string& what);
  double brief() { return 0.001 + 0.02 * rng_.uniform(); }

  void execute(const plan::run::BeginPhase& x);
  void execute(const plan::run::AskTasks& x);
  void execute(const plan::run::OpenRound& x);
  void execute(const plan::run::Lease& x);
  void execute(const plan::run::Cancel& x);
  void execute(const plan::run::Ping& x);
  void execute(const plan::run::Collect& x);
  void execute(const plan::run::Sift& x);
  void execute(const plan::run::AskRecorded& x);
  void execute(const plan::run::Mask& x);
  void execute(const plan::run::Update& x);
  void execute(const plan::run::Flush& x);
  void execute(const plan::run::Save& x);
  void execute(const plan::run::Load& x);
  void execute(const plan::run::Judge& x);
  void execute(const plan::run::WakeAt& x);
  void execute(const plan::run::AnswerLeave& x);
  void execute(const plan::run::End& x);
  void execute(const plan::run::Note& x);
  template <class Other>
  void execute(const Other&) {}

  void publish();
  void end_lease(uint32_t replica, uint64_t number, uint64_t life);
  void arrive(plan::run::RoundKey round, uint32_t group, uint32_t index, int64_t served_step);
  void collect_whole();
  bool is_open(plan::run::RoundKey round) const;
  bool is_left_out(plan::run::RoundKey round, uint32_t group) const;
  void judge(plan::run::RoundKey round, uint32_t group);
  void answer_sift(plan::run::RoundKey round);
  void check_groups(plan::run::RoundKey round);
  int64_t policy_of(uint64_t step) const;
  void check_flowing(const plan::run::Lease& x, const Replica& replica);
  void fault();
  void kill(uint32_t replica, const std::string& text, bool is_away);

  WorldOptions options_;
  Rng rng_;
  plan::run::Run run_;
  plan::Collector collector_{16};
  std::vector<Replica> replicas_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  uint64_t order_ = 0;
  double now_ = 0;
  bool is_phase_asked_ = false;
  std::optional<plan::run::BeginPhase> publishing_;  // nobody is there yet to serve it
  std::set<plan::run::RoundKey> collecting_;
  std::map<plan::run::RoundKey, std::set<std::pair<uint32_t, uint32_t>>> recorded_;
  std::map<plan::run::RoundKey, uint32_t> group_sizes_;
  std::map<plan::run::RoundKey, std::vector<uint32_t>> left_out_;
  std::map<plan::run::RoundKey, uint32_t> sifting_;  // asked by whom knows so many
  std::map<plan::run::RoundKey, int64_t> oldest_;    // served step of what is in it
  std::set<uint64_t> numbers_;
  uint64_t last_number_ = 0;
  uint64_t policy_ = 0;       // version of the trainer
  int64_t served_step_ = -1;  // by the version that is served
  std::map<uint64_t, int64_t> step_of_version_;
  std::set<uint64_t> asked_leaves_;
  std::vector<uint64_t> trained_, measured_;
  uint64_t faults_ = 0, duplicates_ = 0, ahead_max_ = 0, in_place_ = 0;
  uint64_t played_over_ = 0, evaluated_beside_ = 0;
  std::string violation_;
  std::vector<std::string> trace_;
  plan::run::End end_;
  bool has_ended_ = false;
  bool has_newer_policy_ = false;  // AHEAD-1 has had its exception
};

}  // namespace cohort::tests
