#pragma once
/// Cluster head: knows the nodes of a cluster and passes on what runs want of them. It holds no
/// run: a run goes on while its head is away, and nodes join again when it is back. Owner: main of
/// `actor-node head`, or of the run that starts a cluster of its own. Thread: CAF's scheduler.
/// Bound: plan::k_nodes_max nodes; of a run its processes, until it ends, those included that wait
/// for their nodes to join. Every request to an agent has a time limit. Messages: ClusterHeadActor
/// in cluster_roles.hpp.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/cluster_roles.hpp"
#include "runtime/plan/membership/node_table.hpp"

namespace cohort::actors {

struct ClusterHeadOptions {
  std::string version;                                   // of this actor-node
  std::function<void(const std::string& line)> on_line;  // for people: who joined, who was lost
  std::function<void()> on_stop;                         // once
  int agent_timeout_ms = 10000;
};

class ClusterHeadState {
 public:
  static inline const char* name = "cluster_head";
  explicit ClusterHeadState(ClusterHeadActor::pointer self) : self_(self) {}
  void open(ClusterHeadOptions options);
  caf::result<control::NodeWelcome> on_join(const control::NodeHello& hello,
                                            const caf::strong_actor_ptr& agent);
  bool on_beat(uint32_t node, uint64_t epoch);
  control::ClusterStatus on_status() const;
  caf::result<bool> on_launch(const control::LaunchRequest& request);
  void on_exit(const control::ProcessExit& exit, bool is_node_gone = false);
  void on_kill(const std::string& run_id, const control::ProcessOrder& process);
  caf::result<bool> on_end(const control::RunEnd& end);
  caf::result<bool> on_leave(uint32_t node, uint32_t wait_ms);
  caf::result<bool> on_stop();
  void on_watch();
  void on_down(const caf::down_msg& message);

 private:
  struct Run {
    caf::strong_actor_ptr supervisor;
    uint64_t launch = 0;
    std::string address;                           // of its node
    std::vector<control::ProcessOrder> processes;  // that run, or are to
    std::vector<control::ProcessOrder> waiting;    // of these, for their node to be back
    double ends_since = -1;                        // its node has ended in order: it says how
  };
  struct Agent {
    ClusterAgentActor handle;
    uint64_t epoch = 0;
    bool is_leaving = false;  // nothing is started there
  };
  /// Sends `what` to the agents of `nodes`; `then` runs once, when all have said that they did so,
  /// or with the first error.
  template <class... What>
  void tell(const std::set<uint32_t>& nodes, std::function<void(Expected<void>)> then,
            const What&... what);
  template <class... What>
  caf::result<bool> pass_on(const std::set<uint32_t>& nodes, const What&... what);
  caf::result<bool> start_again(Run& run, const control::LaunchRequest& request);
  void start_waiting(uint32_t node);
  void end_unsaid(const std::string& run_id);
  bool is_there(uint32_t node) const;
  void left(uint32_t node, const Expected<void>& result, caf::typed_response_promise<bool> promise);
  void lose(const plan::NodeEntry& node, const std::string& reason);
  std::set<uint32_t> living() const;

  ClusterHeadActor::pointer self_;
  ClusterHeadOptions options_;
  plan::NodeTable nodes_;
  std::map<uint32_t, Agent> agents_;
  std::map<std::string, Run> runs_;
  uint64_t launches_ = 0;
  double started_ = 0;
};

ClusterHeadActor::behavior_type cluster_head(
    ClusterHeadActor::stateful_pointer<ClusterHeadState> self, ClusterHeadOptions options);

}  // namespace cohort::actors
