#pragma once
/// The events of a run (plan/run/run.hpp). Plain values; every answer names its command.
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/trajectory_kind.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort::plan::run {

/// A batch of groups that are played, and collected, together. `step`: of the policy; the number of
/// the round for warm_start.
struct RoundKey {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  auto operator<=>(const RoundKey&) const = default;
};

/// The task of one group's trajectories.
struct GroupTask {
  std::string tag;     // environment, or the domain of a prompt
  uint64_t seed = 0;   // of the world; prompts: row
  std::string prompt;  // the same in every run of this data
  uint32_t lane = 0;   // a group that takes this one's place comes from the same (Refill)
  bool operator==(const GroupTask&) const = default;
};

/// Where a checkpoint was made.
struct Cursor {
  bool is_warm = false;  // before warm_round of the supervised start; else after `step`
  uint64_t step = 0;
  uint64_t version = 0;
  uint64_t warm_round = 0;
  bool operator==(const Cursor&) const = default;
};

struct Started {};
struct StopAsked {};  // by the user
struct TimePassed {};

/// The cards hold what the phase needs.
struct PhaseDone {
  PhaseKind kind = PhaseKind::init;
  std::vector<uint32_t> served = {};  // publish: cards of actor_infer that serve the version
};
struct TasksReady {
  RoundKey round;
  std::vector<GroupTask> tasks;         // one per group
  std::vector<uint32_t> in_place = {};  // AskTasks::in_place: the numbers of the groups
};
/// The trainer takes trajectories of the round. Those named, as (group, index), are in the stream
/// already: a resumed run has them from its checkpoint.
struct RoundOpened {
  RoundKey round;
  std::vector<std::pair<uint32_t, uint32_t>> trajectories = {};
};
struct LeaseEnded {
  uint64_t number = 0;
  uint64_t trajectories = 0;
  uint64_t response_tokens = 0;  // of them
};
struct LeaseFailed {
  uint64_t number = 0;
  Error error;
};
/// A rollout has answered a ping.
struct Pong {
  uint64_t number = 0;  // of the ping
  uint64_t done = 0;    // rises while it gets on with its leases
};
/// All trajectories of the round are in the stream.
struct Collected {
  RoundKey round;
  double masked_share = 0;
  std::vector<uint32_t> left_out = {};  // groups that the filter has left out
};
/// More groups of a round are left out than its Sift knew of, or the round is over.
struct Sifted {
  RoundKey round;
  std::vector<uint32_t> left_out = {};  // all so far
};
/// A round's trajectories in the stream, as (group, index).
struct Recorded {
  uint64_t question = 0;
  bool is_over = false;  // the trainer has closed the round: all of it
  std::vector<std::pair<uint32_t, uint32_t>> trajectories = {};
};
/// The places of a group that is not played are in the stream, masked.
struct Masked {
  RoundKey round;
  uint32_t group = 0;
};
struct Updated {
  RoundKey round;
};
struct Flushed {};  // the stream is on the disk
struct Saved {};
struct Loaded {
  Cursor cursor;
};

/// A process that held cards has gone.
struct CardsLost {
  std::vector<uint32_t> cards;
  std::string text;
  bool is_away = false;  // with its node, or for long: nothing that it played has done that
};
/// New role actors, which hold nothing yet.
struct CardsBack {
  std::vector<uint32_t> rollouts;    // cards of actor_infer
  std::vector<uint32_t> references;  // cards of reference and teacher
};
/// The replicas on these cards are to go; answered by AnswerLeave.
struct LeaveAsked {
  uint64_t number = 0;
  std::vector<uint32_t> cards;
  std::string text;
  double wait_s = 0;  // then it is answered anyway
};

struct Noticed {
  std::string role;
  std::string text;
};
/// The reason of a run's failure.
struct Failure {
  std::string role;
  std::string phase;
  std::string detail;
  bool is_consequence = false;  // somebody else died first, and the supervisor knows who
  bool is_loss = false;         // a process has gone that the run needs: it can be resumed
  bool operator==(const Failure&) const = default;
};
/// A supervisor, or the actor that fails, tells it.
struct FailureTold {
  Failure failure;
};
/// A command, not a lease, has failed at `role`.
struct CommandFailed {
  std::string role;
  Error error;
};

using Event =
    std::variant<Started, StopAsked, TimePassed, PhaseDone, TasksReady, RoundOpened, LeaseEnded,
                 LeaseFailed, Pong, Collected, Sifted, Recorded, Masked, Updated, Flushed, Saved,
                 Loaded, CardsLost, CardsBack, LeaveAsked, Noticed, FailureTold, CommandFailed>;

}  // namespace cohort::plan::run
