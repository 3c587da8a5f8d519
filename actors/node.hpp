#pragma once
/// Node: spawns the role actors of this process, links them over ZeroMQ, watches them, and says why
/// one died. Owner: main. Thread: CAF's scheduler. It monitors every role; the reward actor, which
/// holds nothing that its producers do not still hold, is restarted (at most k_reward_restarts
/// times a run); any other death ends the run with the role's name and reason as its first cause.
/// Cards may be in other processes (NodeOptions::processes): the node waits, for join_timeout_ms,
/// until all have joined and said which role actors they hold, and uses those like its own. A role
/// that dies with its process is told by whoever watches the processes; until then it counts as a
/// consequence. Messages: NodeActor in roles.hpp; result through NodeOptions::on_end, once.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/driver.hpp"
#include "actors/preflight.hpp"
#include "actors/reward.hpp"
#include "actors/role_spawner.hpp"
#include "actors/run_folder.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::actors {

inline constexpr int k_reward_restarts = 3;

struct NodeOptions {
  config::RunConfig config;
  Preflight plan;
  RunFolder folder;
  std::shared_ptr<stream::Writer> writer;  // null: recording is off
  std::vector<RewardFunction> rewards;     // open already; empty: the node opens them
  RunLog* log = nullptr;
  std::vector<std::vector<CardId>> processes;  // cards by slot; empty: all cards are here
  Wires wires;                                 // to them
  int join_timeout_ms = 60000;
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
  void on_watch();
  control::TableReply on_table(const control::TableRequest& request);

 private:
  template <class Handle>
  Handle watch(Handle handle, const std::string& role);
  /// Who holds a role on a card, in this process or another.
  struct Holder {
    caf::strong_actor_ptr actor;
    bool is_remote = false;
  };
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
  std::vector<bool> is_ready_;  // by slot of a process
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
