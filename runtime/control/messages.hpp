#pragma once
/// The control plane's vocabulary: every message that one actor sends to another, and the bridge
/// between cohort::Error and caf::error. Control messages carry ids and metadata, never tensors (<
/// 64 KiB); tensors and trajectories travel on the data plane (runtime/transport). Rules: atoms
/// have at most 10 characters and all stand here (two atoms of the same text are one type); fields
/// are append-only; every type round-trips in tests/golden/control_messages_test.cpp.
#include <caf/all.hpp>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/histogram.hpp"
#include "runtime/base/role.hpp"
#include "runtime/base/trajectory_kind.hpp"
#include "runtime/control/cluster_messages.hpp"
#include "runtime/control/exact.hpp"
#include "runtime/plan/membership/judgement.hpp"
#include "runtime/plan/place/card_messages.hpp"

namespace cohort::control {

using plan::CardCommand;
using plan::CardReply;
using plan::PhaseReport;
using plan::PhaseRequest;
using plan::PublishStage;
/// One acknowledged command of a phase.
using Transition = plan::DoneCommand;

/// Returns the name of a role on a card, e.g. "actor_infer@1".
std::string receiver_name(std::string_view role, CardId card);
inline std::string receiver_name(Role role, CardId card) {
  return receiver_name(to_string(role), card);
}

/// Driver → rollout: play `group_size` trajectories of each group.
struct Lease {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint32_t attempt = 0;
  std::vector<uint32_t> groups;
  uint32_t group_size = 1;
  std::vector<uint64_t> seeds;    // one environment seed per group
  uint64_t version = 0;           // weights that must be served (PLACE-5)
  std::vector<std::string> tags;  // environment tag of custom_envs, one per group
  double expert_fraction = 0;  // warm_start: share of shortest-path actions of the scripted player
  /// Of each group the trajectories to play, ascending; empty: all of every group. The others are
  /// in the stream already.
  std::vector<std::vector<uint32_t>> indices = {};
  uint64_t number = 0;  // unique in the run, rising: what a cancel and the report name (LEASE-1)
  /// Of each trajectory to play, in order, whose policies sample it: pairs of a number of tokens
  /// and a version (plan/flow/recorded_schedule.hpp); empty: of one that goes on as policies come.
  std::vector<std::vector<uint32_t>> spans = {};
};

struct LeaseReport {
  uint64_t step = 0;
  uint64_t trajectories = 0;
  uint64_t response_tokens = 0;  // of them
  // of the rollout since its first lease of this kind and step
  uint64_t generated_tokens = 0;
  uint64_t prefill_tokens = 0;
  double busy_seconds = 0;  // engine: its busiest worker
  double wall_seconds = 0;
  uint64_t number = 0;  // of the lease
};

/// Driver → trainer: a group of (kind, step) that is not played. The places that it has not filled
/// are filled with masked trajectories; its recorded ones are masked too.
struct MaskRequest {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint32_t group = 0;
  uint32_t attempt = 0;
  uint64_t version = 0;  // of the policy that would have played
  std::string run_id;
  std::string tag;
  uint64_t seed = 0;
  std::string prompt_id;
  std::string reason;
};

/// Driver → trainer: expect `groups` x `group_size` trajectories of (kind, step).
struct CollectRequest {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint32_t groups = 0;
  uint32_t group_size = 0;
  std::vector<uint32_t> in_place = {};  // not empty: these groups too, of a step that is open
};

/// Trainer → driver: the step's trajectories in the stream, as (group, index).
struct RecordedReport {
  std::vector<std::pair<uint32_t, uint32_t>> trajectories;
};

/// The collector's sums once every trajectory of a CollectRequest is in the stream.
struct CollectReport {
  uint64_t step = 0;
  uint64_t trajectories = 0;
  uint64_t tokens = 0;
  NamedNumbers metrics;                 // rollout/*, env/*, reward/*
  NamedNumbers success = {};            // share of successes, by tag
  std::vector<uint32_t> left_out = {};  // groups that the filter has left out
  NamedHistograms histograms = {};      // of a step that trains
  std::string answer = {};              // likewise, one of it as Markdown
};

/// Trainer → driver: the groups of a step that its filter has left out so far, ascending.
struct SiftReport {
  std::vector<uint32_t> left_out;
};

/// What a rank is asked for. values: of a critic, which keeps them, and the batch, for its update.
enum class UpdateStage : uint8_t { update = 0, values = 1 };

/// Driver → trainer → ranks: update on the collected trajectories of (kind, step).
struct UpdateRequest {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint64_t next_version = 0;
  uint64_t trajectories = 0;  // of the batch that comes with it; told to ranks behind a link
  UpdateStage stage = UpdateStage::update;
};

struct UpdateReport {
  uint64_t step = 0;
  uint64_t param_hash = 0;
  double compute_seconds = 0;
  uint64_t tokens = 0;
  NamedNumbers metrics;      // loss, actor/*, critic/*
  uint64_t critic_hash = 0;  // of the trainer's: parameters of the critic; 0: there is none
  NamedHistograms histograms = {};
};

struct CheckpointRequest {
  uint64_t step = 0;
  std::string folder;      // final name; written as a temporary beside it, then renamed
  std::string state_json;  // the driver's part: step, counters, KL coefficient, data cursor
};

struct CheckpointReport {
  std::string folder;
  uint64_t param_hash = 0;
  std::string state_json;  // load: the saved text
  double seconds = 0;
};

/// A process that holds cards of the run → the run's node: asks for its share of the run.
struct ProcessHello {
  uint32_t slot = 0;  // as its command line says
  int32_t pid = 0;
  uint32_t attempt = 0;  // as its command line says: how often the slot was started before
};

/// The node's answer.
struct ProcessWelcome {
  std::string run_id;
  std::string run_folder;      // absolute
  std::string working_folder;  // relative names of files are looked up here
  std::string config_yaml;     // resolved
  std::string socket_folder;   // of the run's ipc sockets; empty: the links are tcp
  std::vector<uint32_t> cards;
  uint32_t attempt = 0;      // of the slot
  uint32_t run_attempt = 0;  // of the run: links name it
};

/// One role actor of a process.
struct RoleHandle {
  Role role = Role::actor_infer;
  uint32_t card = 0;
  caf::strong_actor_ptr actor;
};

/// A process → the node: its role actors are there.
struct ProcessReady {
  uint32_t slot = 0;
  std::vector<RoleHandle> roles;
  uint32_t attempt = 0;
  caf::strong_actor_ptr process = {};  // answers (ping, n) with n
};

/// The watcher of the processes (ProcessControl) → the node: one of them has ended. It does not
/// concern a later attempt of the slot.
struct ProcessLost {
  uint32_t slot = 0;
  uint32_t attempt = 0;
  std::string text;           // "was killed by signal 9 (Killed)"
  bool is_node_gone = false;  // with its node: it is started when a node of that number has joined
};

/// The node → placement, driver: the contents of these cards are gone. Sent again, with is_away,
/// for cards that stay away: the run goes on without them.
struct CardsLost {
  std::vector<uint32_t> cards;
  std::string text;  // "process 1 (cards [1]: actor_infer) was killed by signal 9 (Killed)"
  bool is_away = false;
};

/// Driver → node: what is to be thought of the process that holds a card.
using plan::Judgement;
struct ProcessJudgement {
  uint32_t card = 0;
  Judgement judgement = Judgement::shared;
  std::string text;  // hung: "has finished no trajectory for 1800 s"
};

/// The node → placement, driver: new role actors, which hold nothing yet.
struct CardsBack {
  std::vector<RoleHandle> roles;
};

/// A rank → the keeper of the run's table: where ranks in several processes find each other.
enum class TableVerb : uint8_t { get = 0, put = 1, put_if_absent = 2 };
struct TableRequest {
  TableVerb verb = TableVerb::get;
  std::string key;
  std::string value;  // of a put
};

/// The key's value, or an error.
struct TableReply {
  bool has_value = false;
  std::string value;
  uint8_t code = 0;  // Errc, 0: no error
  std::string error = {};
};

/// The reason of a run's failure.
struct Failure {
  std::string role;
  std::string phase;
  std::string detail;
  bool is_consequence = false;  // another role died first; the supervisor names it
  bool is_loss = false;         // a process has gone that the run needs: it can be resumed
  std::string link = {};        // phase "link": the name of the link that failed
};

}  // namespace cohort::control

namespace cohort {
COHORT_MESSAGE(Histogram, control::exact(x.least), control::exact(x.greatest), x.counts)
}  // namespace cohort

namespace cohort::plan {
COHORT_MESSAGE(Command, x.verb, x.phase, x.role, x.card.value, x.object, x.to, x.bytes)
COHORT_MESSAGE(CardCommand, x.id, x.command, x.version, x.stage, x.receiver, x.epoch, x.absent)
COHORT_MESSAGE(CardReply, x.id, x.bytes_on_card, x.bytes_moved, control::exact(x.seconds),
               x.version, x.checksum, x.card_bytes, x.card_peak_bytes, x.process, x.process_bytes,
               x.sent)
COHORT_MESSAGE(PhaseRequest, x.step, x.kind, x.version)
COHORT_MESSAGE(DoneCommand, x.command, x.bytes_on_card, x.bytes_moved,
               control::exact(x.start_seconds), control::exact(x.seconds))
COHORT_MESSAGE(PhaseReport, x.step, x.kind, control::exact(x.seconds), x.transitions,
               x.bytes_per_card, x.alarms)
}  // namespace cohort::plan

namespace cohort::control {
COHORT_MESSAGE(Lease, x.kind, x.step, x.attempt, x.groups, x.group_size, x.seeds, x.version, x.tags,
               exact(x.expert_fraction), x.indices, x.number, x.spans)
COHORT_MESSAGE(LeaseReport, x.step, x.trajectories, x.response_tokens, x.generated_tokens,
               x.prefill_tokens, exact(x.busy_seconds), exact(x.wall_seconds), x.number)
COHORT_MESSAGE(CollectRequest, x.kind, x.step, x.groups, x.group_size, x.in_place)
COHORT_MESSAGE(MaskRequest, x.kind, x.step, x.group, x.attempt, x.version, x.run_id, x.tag, x.seed,
               x.prompt_id, x.reason)
COHORT_MESSAGE(ProcessJudgement, x.card, x.judgement, x.text)
COHORT_MESSAGE(RecordedReport, x.trajectories)
COHORT_MESSAGE(CollectReport, x.step, x.trajectories, x.tokens, exact(x.metrics), exact(x.success),
               x.left_out, x.histograms, x.answer)
COHORT_MESSAGE(SiftReport, x.left_out)
COHORT_MESSAGE(UpdateRequest, x.kind, x.step, x.next_version, x.trajectories, x.stage)
COHORT_MESSAGE(UpdateReport, x.step, x.param_hash, exact(x.compute_seconds), x.tokens,
               exact(x.metrics), x.critic_hash, x.histograms)
COHORT_MESSAGE(CheckpointRequest, x.step, x.folder, x.state_json)
COHORT_MESSAGE(CheckpointReport, x.folder, x.param_hash, x.state_json, exact(x.seconds))
COHORT_MESSAGE(ProcessHello, x.slot, x.pid, x.attempt)
COHORT_MESSAGE(ProcessWelcome, x.run_id, x.run_folder, x.working_folder, x.config_yaml,
               x.socket_folder, x.cards, x.attempt, x.run_attempt)
COHORT_MESSAGE(RoleHandle, x.role, x.card, x.actor)
COHORT_MESSAGE(ProcessReady, x.slot, x.roles, x.attempt, x.process)
COHORT_MESSAGE(ProcessLost, x.slot, x.attempt, x.text, x.is_node_gone)
COHORT_MESSAGE(CardsLost, x.cards, x.text, x.is_away)
COHORT_MESSAGE(CardsBack, x.roles)
COHORT_MESSAGE(TableRequest, x.verb, x.key, x.value)
COHORT_MESSAGE(TableReply, x.has_value, x.value, x.code, x.error)
COHORT_MESSAGE(Failure, x.role, x.phase, x.detail, x.is_consequence, x.is_loss, x.link)
}  // namespace cohort::control

CAF_BEGIN_TYPE_ID_BLOCK(cohort, caf::first_custom_type_id)
  CAF_ADD_TYPE_ID(cohort, (cohort::plan::Command))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CardCommand))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CardReply))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::PhaseRequest))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::Transition))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::PhaseReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::Lease))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::LeaseReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CollectRequest))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CollectReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::UpdateRequest))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::UpdateReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CheckpointRequest))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CheckpointReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::Failure))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::RecordedReport))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CardsLost))
  CAF_ADD_TYPE_ID(cohort, (cohort::control::CardsBack))
  CAF_ADD_ATOM(cohort, cohort::control, card_atom, "card")
  CAF_ADD_ATOM(cohort, cohort::control, phase_atom, "phase")
  CAF_ADD_ATOM(cohort, cohort::control, lease_atom, "lease")
  CAF_ADD_ATOM(cohort, cohort::control, collect_atom, "collect")
  CAF_ADD_ATOM(cohort, cohort::control, update_atom, "update")
  CAF_ADD_ATOM(cohort, cohort::control, save_atom, "save")
  CAF_ADD_ATOM(cohort, cohort::control, load_atom, "load")
  CAF_ADD_ATOM(cohort, cohort::control, fail_atom, "fail")
  CAF_ADD_ATOM(cohort, cohort::control, notice_atom, "notice")
  CAF_ADD_ATOM(cohort, cohort::control, start_atom, "start")
  CAF_ADD_ATOM(cohort, cohort::control, stop_atom, "stop")
  CAF_ADD_ATOM(cohort, cohort::control, reset_atom, "reset")
  CAF_ADD_ATOM(cohort, cohort::control, act_atom, "act")
  CAF_ADD_ATOM(cohort, cohort::control, play_atom, "play")
  CAF_ADD_ATOM(cohort, cohort::control, deliver_atom, "deliver")
  CAF_ADD_ATOM(cohort, cohort::control, outputs_atom, "outputs")
  CAF_ADD_ATOM(cohort, cohort::control, record_atom, "record")
  CAF_ADD_ATOM(cohort, cohort::control, flush_atom, "flush")
  CAF_ADD_ATOM(cohort, cohort::control, expect_atom, "expect")
  CAF_ADD_ATOM(cohort, cohort::control, open_atom, "open")
  CAF_ADD_ATOM(cohort, cohort::control, watch_atom, "watch")
  CAF_ADD_ATOM(cohort, cohort::control, lost_atom, "lost")
  CAF_ADD_ATOM(cohort, cohort::control, back_atom, "back")
  CAF_ADD_ATOM(cohort, cohort::control, recorded_atom, "recorded")
  CAF_ADD_ATOM(cohort, cohort::control, fence_atom, "fence")
CAF_END_TYPE_ID_BLOCK(cohort)

namespace cohort::control {

/// Error → caf::error of category "cohort": code = Errc, context = detail text.
caf::error to_caf(const Error& error);
/// Returns an answer to `command` without measurements.
CardReply reply_to(const CardCommand& command);
/// caf::error → Error; foreign categories (CAF's own) become closed, timeout or internal with CAF's
/// text.
Error from_caf(const caf::error& error);
/// Returns the failure of a request that `role` was to answer. A dead receiver is a consequence.
Failure failure_of(Role role, std::string phase, const caf::error& error);
/// Returns the failure of a link, one end of which `role` owns.
Failure failure_of_link(std::string_view role, const std::string& link, const Error& error);
/// For set_exception_handler: keeps what() of an exception that leaked out of a handler.
caf::error to_error(const std::exception_ptr& leaked);

}  // namespace cohort::control

// Messages between processes of a run and nodes of a cluster.
CAF_BEGIN_TYPE_ID_BLOCK(cohort_cluster, caf::id_block::cohort::end)
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::NodeHello))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::NodeWelcome))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::NodeInfo))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ClusterStatus))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessOrder))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::LaunchRequest))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessExit))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::RunEnd))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, beat_atom, "beat")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, status_atom, "status")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, launch_atom, "launch")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, end_atom, "end")
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::LeaveOrder))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, leave_atom, "leave")
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessHello))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessWelcome))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::RoleHandle))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessReady))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessLost))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::TableRequest))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::TableReply))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, join_atom, "join")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, ready_atom, "ready")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, table_atom, "table")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, ping_atom, "ping")
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::MaskRequest))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::ProcessJudgement))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, mask_atom, "mask")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, judge_atom, "judge")
  CAF_ADD_ATOM(cohort_cluster, cohort::control, cancel_atom, "cancel")
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::TrajectoryKind))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::SiftReport))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, sift_atom, "sift")
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::WaitsQuery))
  CAF_ADD_TYPE_ID(cohort_cluster, (cohort::control::NodeWaits))
  CAF_ADD_ATOM(cohort_cluster, cohort::control, waits_atom, "waits")
CAF_END_TYPE_ID_BLOCK(cohort_cluster)
