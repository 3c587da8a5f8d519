#pragma once
/// Node: spawns the role actors of this process, links them over ZeroMQ, watches them, and names
/// the reason when one dies. Owner: main. Thread: CAF's scheduler. It monitors every role; the
/// reward actor, which holds nothing that its producers do not still hold, is restarted (at most
/// k_reward_restarts times a run); any other death ends the run with the role's name and reason as
/// its first cause.
///
/// Cards may be in other processes (NodeOptions::processes). plan::Membership decides which of them
/// are there, lost, started again, away or leaving, and whether a failed link is a consequence
/// (docs/membership.md): the node turns messages into its events and executes its commands. A role
/// that dies with its process counts as a consequence until the watcher of the processes has told
/// their end. Messages: NodeActor in role_handles.hpp; result through NodeOptions::on_end, once.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/node/role_spawner.hpp"
#include "actors/roles/reward_actor.hpp"
#include "actors/run/driver_actor.hpp"
#include "actors/run/preflight.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/plan/membership/membership.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::actors {

inline constexpr int k_reward_restarts = 3;

/// How a process of the run is ended and started; the calls return at once. Its end is told by
/// (lost, ProcessLost), also one that was asked for.
struct ProcessControl {
  std::function<void(uint32_t slot, uint32_t attempt)> end;    // SIGKILL
  std::function<void(uint32_t slot, uint32_t attempt)> start;  // again
};

struct NodeOptions {
  config::RunConfig config;
  Preflight plan;
  RunFolder folder;
  std::shared_ptr<stream::Writer> writer;  // null: recording is off
  std::vector<RewardFunction> rewards;     // open already; empty: the node opens them
  RunLog* log = nullptr;
  std::shared_ptr<const plan::RecordedSchedule> schedule = {};  // async.schedule, or null
  std::vector<std::vector<CardId>> processes;  // cards by slot; empty: all cards are here
  Wires wires;                                 // to them
  ProcessControl process_control;              // unset: a process that is lost ends the run
  std::set<uint32_t> absent = {};              // slots that the run starts without
  plan::MembershipLimits limits;
  std::function<void(RunResult)> on_end;
  /// Told of every role actor that starts, restarts included. May be empty.
  std::function<void(const std::string& role, const caf::actor_addr& actor)> on_spawn;
};

class NodeState {
 public:
  static inline const char* name = "node";
  explicit NodeState(NodeActor::pointer self) : self_(self) {}
  void open(NodeOptions options);
  void on_start();
  void on_stop();
  void on_fail(const control::Failure& failure);
  void on_notice(const std::string& role, const std::string& text);
  void on_down(const caf::down_msg& message);
  bool on_shutdown();
  caf::result<control::ProcessWelcome> on_join(const control::ProcessHello& hello);
  void on_ready(const control::ProcessReady& ready);
  void on_watch(uint64_t time);  // the bits of a double: when it was to come
  void on_process_lost(const control::ProcessLost& lost);
  caf::result<bool> on_leave(const control::LeaveOrder& order);
  void on_judged(const control::ProcessJudgement& judged);
  control::TableReply on_table(const control::TableRequest& request);

 private:
  template <class Handle>
  Handle watch(Handle handle, const std::string& role);
  /// Who holds a role on a card, in this process or another.
  struct Holder {
    caf::strong_actor_ptr actor;
    bool is_remote = false;
  };
  /// The last attempt of a slot that was admitted.
  struct Process {
    caf::strong_actor_ptr actor;
    std::vector<control::RoleHandle> roles;
  };

  double now() const;
  void feed(const plan::member::Event& event, double now);
  void feed(const plan::member::Event& event) { feed(event, now()); }
  void execute(const plan::member::Welcome& welcome);
  void execute(const plan::member::Refuse& refusal);
  void execute(const plan::member::Admit& admitted);
  void execute(const plan::member::BeginRun& begin);
  void execute(const plan::member::StartRun& start);
  void execute(const plan::member::Start& start);
  void execute(const plan::member::Kill& kill);
  void execute(const plan::member::Stop& stop);
  void execute(const plan::member::Ping& ping);
  void execute(const plan::member::Forget& forgotten);
  void execute(const plan::member::TellLost& told);
  void execute(const plan::member::TellBack& told);
  void execute(const plan::member::AskLeave& leave);
  void execute(const plan::member::AnswerLeave& answer);
  void execute(const plan::member::Notice& notice);
  void execute(const plan::member::EndRun& end);
  void execute(const plan::member::WakeAt& wake);
  plan::member::LinkFailed link_of(const control::Failure& failure) const;
  control::CardsLost cards_of(const std::vector<uint32_t>& slots, const std::string& text) const;

  void open_membership();
  void end_run(const control::Failure& failure);
  void spawn_cards();
  void spawn_trainer();
  void spawn_reward();
  bool spawn_producers();
  void name_players(DriverOptions& options) const;
  std::shared_ptr<TaskSource> open_tasks() const;
  void spawn_head();
  FailureSink failure_sink();
  NoticeSink notice_sink();
  template <class Handle>
  Handle holder(const std::string& role, CardId card) const;

  NodeActor::pointer self_;
  NodeOptions options_;
  /// Where the ranks of this run find each other.
  std::shared_ptr<compute::Rendezvous> table_ = compute::Rendezvous::in_process();
  std::unique_ptr<RoleSpawner> spawner_;
  std::map<std::pair<std::string, CardId>, Holder> holders_;
  std::optional<plan::Membership> membership_;
  std::vector<Process> processes_;                             // by slot
  std::map<std::string, uint32_t> links_;                      // slot by link, attempts left out
  const control::ProcessReady* joining_ = nullptr;             // while its event is taken
  caf::typed_response_promise<control::ProcessWelcome> join_;  // likewise
  std::map<uint64_t, caf::typed_response_promise<bool>> leaves_;
  uint64_t next_leave_ = 0;
  std::set<std::string> fenced_;  // link ends of attempts that were given up
  bool is_first_policy_saved_ = false;
  std::map<caf::actor_addr, std::string> roles_;
  std::set<caf::actor_addr> remote_;  // of roles_, those of other processes
  RecorderActor recorder_;
  TrainerActor trainer_;
  RewardActor reward_;
  PlayerActor rows_;  // rows of files
  PlacementActor placement_;
  DriverActor driver_;
  int reward_restarts_ = 0;
  bool is_shutting_down_ = false;
};

NodeActor::behavior_type node(NodeActor::stateful_pointer<NodeState> self, NodeOptions options);

}  // namespace cohort::actors
