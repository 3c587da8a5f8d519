#pragma once
/// Driver: pipelines agentic and rlvr. Warm start rounds, then per step: generate → update →
/// publish → evaluate → row → checkpoint. It leases groups, closes steps and reports; no tensor and
/// no trajectory passes through it. Owner: node. Thread: CAF's scheduler. Bound: one step in
/// flight. Every request has a time limit. The first failure (of a request, or sent by any role)
/// ends the run with one line: role, phase, cause. Stop (Ctrl-C): the step is finished and written
/// to a checkpoint, then the run ends as a success.
///
/// A rollout may be lost and come back (lost, back: from the node). What it had not brought into
/// the stream is played again, by those that live; its successor gets work once a publish has
/// served it. If nobody else lives, the round waits for that publish, of the version that is
/// played. FLOW-1: what comes twice the collector drops. Bound: a loss is one request to the
/// trainer and at most the groups of the round. One that is told to leave (leave) gets nothing new,
/// and is answered for when it has nothing open, or when its time is over.
///
/// A group that keeps killing its processes is played alone, and if it kills them then too it is
/// quarantined (plan/flow/suspects.hpp): it is played no more in this run, its places of the step
/// are masked, quarantine.jsonl names its prompt. A rollout that does not get on with its groups is
/// ended, through the node, and lost. At the end of a round, when nothing waits, a group that takes
/// long is played by an idle replica too (plan/flow/stragglers.hpp).
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/roles/role_handles.hpp"
#include "actors/run/quarantine.hpp"
#include "actors/run/run_log.hpp"
#include "actors/run/task_source.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/control/request.hpp"
#include "runtime/plan/flow/dispatch.hpp"
#include "runtime/plan/flow/stragglers.hpp"
#include "runtime/plan/flow/suspects.hpp"

namespace cohort::actors {

struct RunResult {
  bool is_ok = false;
  std::string error;   // first cause, one line
  uint64_t steps = 0;  // finished steps
  bool is_stopped = false;
  bool is_loss = false;  // it failed because a process had gone: it can be resumed
  std::optional<double> success_before, success_after, greedy_before, greedy_after;
  uint64_t param_hash = 0;
  uint64_t trajectories = 0;
  /// Held-out success by tag, sampled: at the first and at the last evaluation.
  std::map<std::string, std::pair<double, double>> success_of_tags;
};

struct DriverOptions {
  config::RunConfig config;
  std::string run_id;
  std::string run_folder;
  std::string resume_from;   // checkpoint folder, or empty
  std::string resume_first;  // checkpoint of step 0 of that run: the reference's weights; or empty
  uint32_t attempt = 0;      // 0, +1 per resume of the run
  PlacementActor placement;
  std::vector<RolloutActor> rollouts;
  std::vector<CardId> rollout_cards;  // of `rollouts`: each replica's first
  std::vector<CardId> infer_cards;    // all of them
  CardId train_card;
  TrainerActor trainer;
  bool has_reference_phase = false;  // the reference takes turns with other roles
  RecorderActor recorder;
  RunLog* log = nullptr;
  std::shared_ptr<TaskSource> tasks;
  std::function<void(RunResult)> on_end;  // called once, from the driver's thread
  std::function<void(const control::ProcessJudgement&)> judge;  // to the node
  int request_timeout_ms = 3600000;
  int verdict_wait_ms = 500;  // a consequence waits so long for its cause
};

class DriverState {
 public:
  static inline const char* name = "driver";
  explicit DriverState(DriverActor::pointer self) : self_(self) {}
  void open(DriverOptions options);
  void on_start();
  void on_stop();
  void on_fail(const control::Failure& failure);
  void on_told(const control::Failure& failure);
  void on_notice(const std::string& role, const std::string& text);
  void on_lost(const control::CardsLost& lost);
  void on_back(const control::CardsBack& back);
  void on_watch(uint64_t number);
  caf::result<bool> on_leave(const control::CardsLost& leaving, uint32_t wait_ms);
  void on_ping();

 private:
  using Next = std::function<void()>;
  struct Batch {
    uint8_t kind = 0;
    uint64_t step = 0;
    uint32_t groups = 0;
    uint32_t group_size = 1;
    std::vector<GroupTask> tasks;  // one per group
  };
  struct Gathered {
    std::vector<control::LeaseReport> leases;  // by rollout, its last
    control::CollectReport collected;
    double seconds = 0;
    double generate_seconds = 0;  // the same, but for a reference phase
    double busy_seconds = 0;  // the busiest lane of all rollouts: the critical path of generation
  };

  template <class Handle, class Then, class... Args>
  void ask(const std::string& role, const Handle& handle, Then then, Args&&... args);
  void begin_phase(plan::PhaseKind kind, Next next);
  void gather(Batch batch, std::function<void(Gathered)> then);
  /// How a replica gets on with its groups.
  struct Pace {
    uint64_t done = 0;  // as it says itself
    double asked = 0;   // when
    double since = 0;   // when that, or what it has open, has changed
  };
  /// Groups of a batch on their way over the replicas.
  struct Round {
    Batch batch;
    std::shared_ptr<Gathered> gathered;
    double started = 0;
    std::function<void(Gathered)> then;
    std::optional<plan::Dispatcher> dispatcher;
    plan::Suspects suspects;
    plan::GroupClock clock;
    uint64_t response_tokens = 0;
    std::map<uint32_t, uint32_t> played_by = {};  // group that has ended: replica
    std::map<uint32_t, uint32_t> attempts = {};   // group: how often it was taken from a lost one
    uint32_t questions = 0;                       // to the trainer: nothing is leased meanwhile
    std::map<size_t, Pace> paces = {};            // by replica
    std::map<uint32_t, uint32_t> first_on = {};   // group: who had it first, of its last attempt
    bool is_collecting = false;                   // every lease has ended, once at least
    bool is_collected = false;  // all is in the stream; what is played again is nobody's any more
  };
  /// One that is back has no weights yet: it may play what needs none. One that leaves gets nothing
  /// new.
  enum class Standing : uint8_t { lost, back, serving, leaving };
  struct Replica {
    RolloutActor actor;
    Standing standing = Standing::back;
    uint32_t attempt = 0;  // how many have had its place before
  };
  /// An error whose cause somebody else may tell.
  struct Doubt {
    control::Failure failure;
    double since = 0;
    std::optional<std::pair<size_t, uint32_t>> lease;  // replica and attempt that it came from
  };
  /// Replicas that are to go when they have played what they have.
  struct Leave {
    std::vector<size_t> replicas;
    caf::typed_response_promise<bool> promise;
  };
  void end_leaves();
  /// A process that was lost, and what its replicas had of the round.
  struct Loss {
    std::vector<size_t> replicas;
    plan::Death death;
    bool is_away = false;  // with its node: nothing that it played has done that
    std::vector<uint32_t> open, again, ended;  // groups: had, to be played again, played
  };
  void doubt(Doubt doubt);
  bool can_play(size_t replica, uint8_t kind) const;
  void lease_parts(const std::shared_ptr<Round>& round,
                   const std::vector<plan::DispatchPart>& parts);
  void leases_over(const std::shared_ptr<Round>& round);
  void play_again(Loss loss);
  void on_recorded(const std::shared_ptr<Round>& round, const Loss& loss,
                   const control::RecordedReport& recorded);
  void blame(const std::shared_ptr<Round>& round, const plan::Death& death,
             const std::vector<uint64_t>& open);
  void quarantine(const std::shared_ptr<Round>& round, uint32_t group);
  void mask(const std::shared_ptr<Round>& round, uint32_t group, const std::string& reason);
  bool skip_quarantined(const std::shared_ptr<Round>& round, uint32_t group);
  void judge(size_t replica, control::Judgement judgement, const std::string& text = "");
  void on_lease_error(const std::pair<size_t, uint32_t>& from, const caf::error& error);
  plan::StragglerOptions straggler_options() const;
  void choose_players(const std::shared_ptr<Round>& round);
  void hedge_late(const std::shared_ptr<Round>& round);
  bool take_end(const std::shared_ptr<Round>& round, uint32_t replica,
                const plan::DispatchPart& part, uint64_t tokens);
  void end_of_round(const std::shared_ptr<Round>& round);
  void note_move(const std::shared_ptr<Round>& round, size_t replica);
  double ping_period_s() const;
  void ping_later();
  void continue_round(const std::shared_ptr<Round>& round);
  void revive();
  void note_served(const control::PhaseReport& report);
  void note(const std::string& kind, const std::string& text);
  double expert_fraction(uint64_t round) const;
  void lease_all(const Batch& batch, const std::shared_ptr<Gathered>& gathered, double started,
                 const std::function<void(Gathered)>& then);
  void lease_more(const std::shared_ptr<Round>& round);
  control::Lease lease_of(const Batch& batch) const;
  void on_lease_end(const std::shared_ptr<Round>& round, size_t replica,
                    const std::vector<plan::DispatchPart>& parts,
                    const control::LeaseReport& report);
  void collect(const std::shared_ptr<Round>& round);
  void close_round(const std::shared_ptr<Round>& round);
  void resume();
  void load(const std::string& folder, std::function<void(const control::CheckpointReport&)> then);
  void warm_round(uint64_t round);
  void warm_end();
  void start_row(uint64_t step);
  void run_step(uint64_t step);
  void update(uint8_t kind, uint64_t step, std::function<void(const control::UpdateReport&)> then);
  void publish(Next next);
  void evaluate(Next next);
  void evaluate_kind(uint8_t kind, const std::string& metric, Next next);
  void end_step();
  void checkpoint(const std::string& name, Next next);
  void prune_checkpoints();
  std::string state_json(const std::string& stage) const;
  void record(uint16_t type, const std::string& json);
  void finish(bool is_stopped);
  void end(RunResult result);
  bool is_eval_step(uint64_t step) const;
  bool is_all_masked(const control::CollectReport& collected);
  void write_held_out(const control::CollectReport& collected);

  DriverActor::pointer self_;
  DriverOptions options_;
  std::vector<Replica> replicas_;
  std::shared_ptr<Round> round_;  // whose trajectories are not all in the stream
  bool is_reviving_ = false;
  bool is_pinged_ = false;  // a ping is on its way to this actor
  Quarantine quarantine_;
  plan::SlowReplicas slow_{0};
  double last_loss_ = -1;
  std::map<uint64_t, Doubt> doubts_;  // by timer, as the next
  std::map<uint64_t, Leave> leaves_;
  uint64_t next_timer_ = 0;
  bool is_stopping_ = false;
  bool is_over_ = false;
  uint64_t step_ = 0;
  uint64_t version_ = 0;
  uint64_t warm_round_ = 0;
  uint64_t param_hash_ = 0;
  uint64_t trajectories_ = 0;       // of the policy steps
  uint64_t warm_trajectories_ = 0;  // scripted ones
  std::string phase_ = "start";
  std::optional<observe::MetricRow> row_;
  double step_started_ = 0;
  double critical_seconds_ = 0;  // compute of this step on its critical path
  double placement_seconds_ = 0;
  double step_tokens_ = 0;
  double response_tokens_ = 0;  // of a trajectory, mean of the last round
  uint64_t masked_steps_ = 0;   // in a row, without a single score
  std::string last_notice_;
  RunResult result_;
};

template <class Handle, class Then, class... Args>
void DriverState::ask(const std::string& role, const Handle& handle, Then then, Args&&... args) {
  if (is_over_) return;
  control::send_request(
      self_, handle, std::chrono::milliseconds(options_.request_timeout_ms), std::move(then),
      [this, role](caf::error& e) { on_fail(control::failure_of(role, phase_, e)); },
      std::forward<Args>(args)...);
}

DriverActor::behavior_type driver(DriverActor::stateful_pointer<DriverState> self,
                                  DriverOptions options);

}  // namespace cohort::actors
