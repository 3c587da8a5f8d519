#pragma once
/// Node: spawns the role actors of this process, links them over ZeroMQ, watches them, and says why
/// one died. Owner: main. Thread: CAF's scheduler. It monitors every role; the reward actor, which
/// holds nothing that its producers do not still hold, is restarted (at most k_reward_restarts
/// times a run); any other death ends the run with the role's name and reason as its first cause.
/// Cards may be in other processes (NodeOptions::processes): the node waits, for join_timeout_ms,
/// until all have joined and said which role actors they hold, and uses those like its own. A role
/// that dies with its process is told by whoever watches the processes; until then it counts as a
/// consequence.
///
/// A process whose cards have rollouts or the reference alone may be lost (lost, from whoever
/// watches; or it leaves pings unanswered for k_silence_ms, and is then ended through
/// ProcessControl): the node tells placement and driver, has it started again, and hands out its
/// new role actors. Processes that hold parts of one tensor-parallel group are lost together. The
/// old attempt is fenced: it may not join, its links are not heard. One that has rollouts alone is
/// away when it has not joined within join_timeout_ms, when its node is gone or leaves, or at the
/// start (NodeOptions::absent): nobody waits for it, and it has its part again once it has joined.
/// Bound: k_process_restarts in k_restart_window_s; one more, and it is away for good, or ends the
/// run if no other replica lives. The run goes on for join_timeout_ms without any. Any other
/// process that is lost ends it. Losses that the driver puts down to a prompt do not count (judge);
/// it bounds those. Messages: NodeActor in roles.hpp; result through NodeOptions::on_end, once.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/node/role_spawner.hpp"
#include "actors/roles/reward_actor.hpp"
#include "actors/run/driver_actor.hpp"
#include "actors/run/preflight.hpp"
#include "actors/run/run_folder.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::actors {

inline constexpr int k_reward_restarts = 3;
inline constexpr size_t k_process_restarts = 3;
inline constexpr double k_restart_window_s = 600;
inline constexpr int k_ping_ms = 500;
inline constexpr int k_silence_ms = 2500;

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
  std::vector<std::vector<CardId>> processes;  // cards by slot; empty: all cards are here
  Wires wires;                                 // to them
  ProcessControl process_control;              // unset: a process that is lost ends the run
  std::set<uint32_t> absent = {};              // slots that the run starts without
  int join_timeout_ms = 60000;
  int restart_grace_ms = 2000;  // for which a publish waits for a process that starts again
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
  void on_watch(uint64_t slot_and_attempt);
  void on_ping();
  void on_pong(uint32_t slot, uint32_t attempt);
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
  /// A process that holds cards. Its attempts are numbered; only the last one is heard.
  struct Slot {
    bool is_ready = false;
    bool is_lost = false;      // of the present attempt: it is given up
    bool is_gone = false;      // likewise: its end is told
    bool is_away = false;      // nobody waits for it
    bool is_given_up = false;  // away, and not started again
    bool is_alone = false;     // it plays one suspect: if it is lost, the suspect did it
    uint32_t attempt = 0;
    caf::strong_actor_ptr process;
    double last_heard = 0;
    std::vector<double> losses;  // when, within the window
    std::string first_loss;      // of them
    std::vector<control::RoleHandle> roles;
  };
  std::string slot_name(uint32_t slot) const;
  std::vector<uint32_t> unit_of(uint32_t slot) const;
  bool is_recoverable(const std::vector<uint32_t>& unit) const;
  bool may_be_away(const std::vector<uint32_t>& unit) const;
  bool is_there(const std::vector<uint32_t>& unit) const;
  bool has_player(const std::vector<uint32_t>& beside) const;
  void start_if_all();
  void set_away(const std::vector<uint32_t>& unit, const std::string& text);
  void tell_lost(const control::CardsLost& lost);
  void watch_players(const std::string& cause);
  void on_nobody();
  void part(const std::vector<uint32_t>& slots);
  void watch_slot(uint32_t slot);
  void lose(const std::vector<uint32_t>& unit, uint32_t first, const std::string& text,
            bool is_silent);
  void forget_roles(Slot& slot, bool is_silent);
  void hand_out(const std::vector<uint32_t>& unit);
  void spawn_cards();
  void start_run();
  void spawn_trainer();
  void spawn_reward();
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
  std::vector<Slot> slots_;
  std::set<std::string> fenced_;  // link ends of attempts that were given up
  double last_ping_ = 0;
  double last_loss_ = -1;
  std::string nobody_since_;  // the loss that left no replica; empty: there is one
  uint32_t times_nobody_ = 0;
  bool is_begun_ = false;
  std::map<caf::actor_addr, std::string> roles_;
  std::set<caf::actor_addr> remote_;  // of roles_, those of other processes
  RecorderActor recorder_;
  TrainerActor trainer_;
  RewardActor reward_;
  PlacementActor placement_;
  DriverActor driver_;
  int reward_restarts_ = 0;
  bool is_shutting_down_ = false;
};

NodeActor::behavior_type node(NodeActor::stateful_pointer<NodeState> self, NodeOptions options);

}  // namespace cohort::actors
