#pragma once
/// The commands of a run (plan/run/run.hpp). Plain values. Each is answered by one event, unless it
/// says "no answer"; a command that fails is answered by CommandFailed (a lease by LeaseFailed).
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/plan/flow/refill.hpp"
#include "runtime/plan/flow/suspects.hpp"
#include "runtime/plan/membership/judgement.hpp"
#include "runtime/plan/run/events.hpp"

namespace cohort::plan::run {

/// To placement: bring every card into the state that `kind` needs. → PhaseDone. One at a time.
struct BeginPhase {
  PhaseKind kind = PhaseKind::init;
  uint64_t step = 0;
  uint64_t version = 0;  // publish: the version to publish
};
/// To the task source → TasksReady. Rounds of training are asked for once, in order; then, maybe
/// several times, for groups in the place of those that were left out.
struct AskTasks {
  RoundKey round;
  uint32_t count = 0;                       // warm_start: how many
  std::vector<Refill::Next> in_place = {};  // not empty: these, of a round that is open
};
/// To the trainer: it is to expect groups x group_size trajectories → RoundOpened.
struct OpenRound {
  RoundKey round;
  uint32_t groups = 0;
  uint32_t group_size = 1;
  std::vector<uint32_t> in_place = {};  // not empty: these groups too, of a round that is open
};
/// To a replica: play trajectories → LeaseEnded, LeaseFailed.
struct Lease {
  uint64_t number = 0;  // unique in the run, rising
  uint32_t replica = 0;
  RoundKey round;
  uint32_t attempt = 0;
  uint32_t group_size = 1;
  uint64_t version = 0;  // weights that must be served (PLACE-5)
  std::vector<uint32_t> groups;
  std::vector<GroupTask> tasks;                // one per group
  std::vector<std::vector<uint32_t>> indices;  // of each group, ascending; empty: all of every one
};
/// To a replica: another has played the group; the lease ends with Errc::cancelled, unless it has
/// ended. No answer of its own.
struct Cancel {
  uint32_t replica = 0;
  uint64_t number = 0;  // of the lease. 0, planted: whichever lease plays the group
  RoundKey round;
  uint32_t group = 0;
};
/// To a replica that has leases open: does it get on? → Pong, or nothing.
struct Ping {
  uint64_t number = 0;
  uint32_t replica = 0;
  double limit_s = 0;  // an answer that comes later is of no use
};
/// To the trainer: say when all of the round is in the stream → Collected.
struct Collect {
  RoundKey round;
};
/// To the trainer: say when more than `known` groups of the round are left out → Sifted
struct Sift {
  RoundKey round;
  uint32_t known = 0;
};
/// To the trainer: asks for the round's trajectories in the stream → Recorded
struct AskRecorded {
  uint64_t question = 0;
  RoundKey round;
};
/// To the trainer: the group is not played, its places are masked → Masked
struct Mask {
  RoundKey round;
  uint32_t group = 0;
  GroupTask task;
  uint64_t version = 0;  // of the policy that would have played
  std::string reason;
};
/// To the trainer: train on the round → Updated. Kind val: tell its loss, and train on nothing.
struct Update {
  RoundKey round;
  uint64_t next_version = 0;
};
/// To the recorder: everything onto the disk → Flushed
struct Flush {};
/// To the trainer → Saved. Where: "step_N", or "warm_N".
struct Save {
  std::string name;
  Cursor cursor;
};
/// To the trainer → Loaded
struct Load {
  bool is_first = false;  // the checkpoint of step 0: the reference's weights
};
/// Old checkpoints may go. No answer.
struct Prune {};

using plan::Judgement;

/// To the node. No answer.
struct Judge {
  uint32_t card = 0;
  Judgement judgement = Judgement::shared;
  std::string text = {};
};
/// The prompt of this group is played no more. No answer, unless it cannot be written down.
struct Quarantine {
  RoundKey round;
  uint32_t group = 0;
  GroupTask task;
  std::vector<Death> deaths;
  std::string text;
};
/// Tell the user, and the stream. No answer.
struct Note {
  std::string kind;
  std::string text;
};
/// The policy `version` is served. No answer.
struct Published {
  uint64_t step = 0;
  uint64_t version = 0;
};
/// The row of a step begins. No answer.
struct BeginRow {
  uint64_t step = 0;
};
/// A round is over. Times as told by `now`. No answer.
struct RoundOver {
  RoundKey round;
  double opened = 0;     // the trainer was asked to expect it
  double played = 0;     // its last lease ended
  double collected = 0;  // all of it was in the stream
};
/// The row of a step is complete; CommandFailed if it cannot be written. No answer.
struct EndRow {
  uint64_t step = 0;
  uint64_t version = 0;
};
/// TimePassed is to come at `at`, or later. A later WakeAt does not take it back. No answer.
struct WakeAt {
  double at = 0;
};
/// Answer to LeaveAsked.
struct AnswerLeave {
  uint64_t number = 0;
  Error error = {};  // Errc::none: they may go
};
/// The run is over; it neither hears nor says any more.
struct End {
  enum class How : uint8_t { finished, stopped, failed };
  How how = How::finished;
  uint64_t steps = 0;      // finished ones
  std::string error = {};  // failed: the first cause, one line
  bool is_loss = false;    // failed, because a process had gone: it can be resumed
};

using Command =
    std::variant<BeginPhase, AskTasks, OpenRound, Lease, Cancel, Ping, Collect, Sift, AskRecorded,
                 Mask, Update, Flush, Save, Load, Prune, Judge, Quarantine, Note, Published,
                 BeginRow, RoundOver, EndRow, WakeAt, AnswerLeave, End>;

}  // namespace cohort::plan::run
