#pragma once
/// A run, as a machine: it is told events and gives commands. An executor, on a real clock or a
/// virtual one, carries them out and decides nothing. Pure: no actor, file, log or clock (`now` is
/// an argument), and the same events give the same commands. docs/run_machine.md.
///
/// Warm start rounds, then step 0 (the policy that starts is published, evaluated, saved), then per
/// step: generate, [reference,] update, publish, [evaluate,] row, [save]. Generation may be
/// steps_ahead steps before the optimizer, which takes the steps strictly in order; nothing that
/// was played is thrown away.
///
/// FLOW-3: a step is opened only while step - 1 - (step whose policy is served) <= steps_ahead, so
/// that no older token is trained on.
/// AHEAD-1: which policy plays a step is fixed: that of step max(0, step - 1 - steps_ahead). So a
/// policy is published when all that its predecessor is to play is in the stream, and no lease is
/// open; and a checkpoint has those steps whole. The exception is noted (newer_policy): every
/// replica with the older policy was lost after the optimizer had gone on.
/// FLOWING-1 (RunOptions::is_flowing): rollouts play on over a publish, so that a trajectory may
/// have tokens of several policies. A group is admitted in the order of the data, with its step,
/// while ceil(depth) steps at most lie between the policy that is served and that step's update. So
/// the age of its oldest token is bounded when it begins, whatever it takes to end, and the
/// optimizer waits for it. One policy plays an evaluation, beside the steps: the next publish waits
/// for its end.
/// FLOWING-2 (RunOptions::is_scheduled): a policy is published when every group that its
/// predecessor admits is leased. So each is at a rollout that still serves the policy which is to
/// sample its first token.
///
/// RunOptions::is_record_only: an update hands a step over and changes nothing; the policy of step
/// 0 is that of every step, so no token is ever old.
///
/// A stop lets the step at the optimizer finish and saves it. The first failure ends the run with
/// its cause; one that may be the consequence of a loss waits for the word of the node, which
/// watches the processes. Rollouts may be lost and come back at any time (players.hpp). If no
/// rollout is left that could play, the version is published again, to the first that comes.
///
/// Owner: the driver; the simulator. Bound: steps_ahead + 2 open steps, and an evaluation.
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/flow/refill.hpp"
#include "runtime/plan/run/commands.hpp"
#include "runtime/plan/run/events.hpp"
#include "runtime/plan/run/players.hpp"
#include "runtime/plan/run/run_options.hpp"

namespace cohort::plan::run {

/// Where a step is that has begun and is not over. An evaluation goes the way of a step, from
/// admitted to collected, while its step is evaluating.
enum class StepState : uint8_t {
  admitted,    // its groups are asked for
  ready,       // the cards are to be brought into its phase
  opening,     // the trainer is told what to expect
  generating,  // its groups are played
  referring,   // played; the reference is to have its turn
  collecting,  // what was played is on its way into the stream
  closing,     // it is there; what is played a second time is still to end
  collected,   // waits until its turn at the optimizer comes
  updating,
  publishing,
  evaluating,
  flushing,  // the stream goes to the disk before the checkpoint
  saving,
};

/// Where the run is.
enum class Stage : uint8_t {
  created,
  starting,           // the cards get their first residency
  restoring_frozen,   // the checkpoint of step 0 is loaded, for the reference
  publishing_frozen,  // and served
  restoring,          // the last checkpoint is loaded
  republishing,       // and served
  warming,            // supervised rounds
  stepping,           // steps of the policy
  ending,             // the stream goes to the disk
  over,
};

/// The activity in which a failure happened.
enum class Activity : uint8_t {
  start,
  init,
  resume,
  warm_start,
  publish,
  generate,
  reference,
  update,
  evaluate,
  checkpoint,
  end,
};

class Run {
 public:
  explicit Run(RunOptions options);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Returns the commands for now, in order.
  std::vector<Command> on(const Event& event, double now);

  Stage stage() const { return stage_; }
  Activity activity() const { return activity_; }
  uint64_t version() const { return version_; }
  /// Returns the step of the policy that the optimizer is at; 0 before the first.
  uint64_t step() const { return step_; }
  /// Returns the step at the optimizer, and the one that is evaluated; none between two steps.
  std::optional<StepState> front() const {
    return open_.empty() ? std::nullopt : std::optional(open_.front().state);
  }
  std::optional<StepState> evaluation() const {
    return evaluation_ ? std::optional(evaluation_->state) : std::nullopt;
  }
  size_t open_steps() const { return open_.size(); }
  const Players& players() const { return players_; }
  bool plays_on() const { return options_.is_flowing; }  // over a publish and a checkpoint
  void assert_invariants() const;

 private:
  struct Step {
    RoundKey key;
    StepState state = StepState::admitted;
    uint32_t groups = 0;
    std::vector<GroupTask> tasks = {};             // until the trainer expects them
    double opened = 0, played = 0, collected = 0;  // when
    double masked_share = 0;                       // of its trajectories
    // Dynamic sampling (run_refill.cpp).
    std::optional<Refill> refill = {};
    std::vector<Refill::Next> wanted = {};  // in the place of others; still to be asked for
    std::vector<uint32_t> in_place = {};    // whose `tasks` they are
    bool is_refilling = false;              // some are asked for, or the trainer is told of them
    bool is_sifting = false;                // the trainer is asked
  };
  /// The explanation of an error.
  enum class Excuse : uint8_t {
    loss,   // a process that was lost around that time
    lease,  // the loss of the replica that had the lease
    none,   // nothing: it only leaves others the first word
  };
  struct Doubt {
    Failure failure;
    Excuse excuse = Excuse::none;
    uint64_t lease = 0;  // of Excuse::lease
    double since = 0;
  };

  // -- events
  void told(const Started& event);
  void told(const StopAsked&) { is_stop_asked_ = true; }
  void told(const TimePassed&) {}
  void told(const PhaseDone& event);
  void told(const TasksReady& event);
  void told(const RoundOpened& event);
  void told(const LeaseEnded& event) { players_.on_ended(event, now_, out_); }
  void told(const LeaseFailed& event);
  void told(const Pong& event) { players_.on_pong(event, now_); }
  void told(const Collected& event);
  void told(const Sifted& event);
  void told(const Recorded& event);
  void told(const Masked& event) { players_.on_masked(event); }
  void told(const Updated& event);
  void told(const Flushed& event);
  void told(const Saved& event);
  void told(const Loaded& event);
  void told(const CardsLost& event);
  void told(const CardsBack& event) { players_.on_back(event, out_); }
  void told(const LeaveAsked& event) { players_.on_leave(event, now_, out_); }
  void told(const Noticed& event);
  void told(const FailureTold& event);
  void told(const CommandFailed& event);

  // -- the loop
  void go_on();
  bool admit();
  bool advance(Step& step);
  bool play(Step& step);
  bool close(Step& step);
  bool optimize(Step& step);
  bool publish(Step& step);
  bool serve(Step& step);
  bool is_ahead_collected(const Step& step);
  bool is_evaluating_older();
  bool may_open_next() const;
  bool is_begun_as_recorded() const;
  void note_newer_policy(const std::string& what);
  bool is_stranded(const Step& step) const;
  uint64_t last_step() const;
  int64_t steps_to_train() const;
  uint64_t fixed_until(const Step& step) const;
  uint32_t groups_admitted(const Step& step) const;
  bool evaluate(Step& step);
  bool evaluate_beside();
  bool go_on_evaluating();
  bool measure(Step& evaluation);
  bool end_step(Step& step);
  void step_over();
  void finish();

  // -- groups in the place of others
  void begin_refill(Step& step);
  void sift(Step& step);
  bool leave_out(Step& step, const std::vector<uint32_t>& groups);
  bool ask_in_place(Step& step);
  void refill_ready(Step& step, const TasksReady& ready);
  void refill_opened(Step& step);
  void end_refill(const Step& step);

  // -- what it needs
  bool is_next_to_open(const Step& step) const;
  bool is_floor_open(const Step& step);
  bool is_ready(PhaseKind kind);
  void ask(PhaseKind kind);
  void revive(const Step& step);
  bool may_move_cards(const Step& step) const;
  Step* find(RoundKey key, StepState state);
  void start(Step& step);
  void begin_warming();
  void load();
  void save(Step& step);
  bool is_evaluated(uint64_t step) const;
  bool is_saved(uint64_t step) const;
  int64_t ahead() const;
  uint32_t group_size(TrajectoryKind kind) const;
  void fail(Failure failure);
  void judge_doubts();
  bool is_explained(const Doubt& doubt) const;
  void wake();

  const RunOptions options_;
  Players players_;                  // refers to options_
  std::deque<Doubt> doubts_;         // in the order in which they were told
  std::optional<double> last_loss_;  // of a process that has ended by itself
  std::vector<Command> out_;         // of the event that is being told
  double now_ = 0;                   // likewise
  Stage stage_ = Stage::created;
  Activity activity_ = Activity::start;
  std::deque<Step> open_;             // the oldest first
  std::optional<Step> evaluation_;    // of the oldest
  std::optional<PhaseKind> asked_;    // of placement, which has not answered
  std::optional<PhaseKind> granted_;  // what the cards are in
  std::set<double> wakes_;            // asked for, and still to come
  bool is_stop_asked_ = false;
  uint64_t step_ = 0;        // at the optimizer
  uint64_t next_step_ = 1;   // to be opened
  uint64_t warm_round_ = 0;  // likewise
  uint64_t version_ = 0;
  int64_t served_step_ = -1;     // the step after which the policy was that is served
  bool is_newer_taken_ = false;  // by the publish under way (note_newer_policy)
  uint64_t evaluated_version_ = 0;
  uint64_t steps_done_ = 0;
  uint64_t masked_steps_ = 0;  // in a row, without a single score
  std::string last_notice_;
};

std::string_view to_string(Activity activity);

}  // namespace cohort::plan::run
