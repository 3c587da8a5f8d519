#pragma once
/// Cluster agent: one per node. Joins the head, starts the processes that runs want here, watches
/// them, and joins again when the head was away. Owner: main of `actor-node join`, or of a run that
/// is a node too. Thread: its own (detached: connecting blocks). Bound: the processes of the runs
/// that are under way. When it ends its children are killed. Messages: ClusterAgentActor in
/// cluster_roles.hpp.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/cluster_roles.hpp"
#include "runtime/control/network.hpp"
#include "runtime/platform/child_processes.hpp"

namespace cohort::actors {

struct AgentEnd {
  bool is_ok = false;
  std::string error;  // one line
};

struct ClusterAgentOptions {
  control::Address head;
  ClusterHeadActor local_head;  // instead, in the head's own process
  control::NodeHello hello;
  std::vector<std::string> command;        // the program of a process
  std::vector<std::string> process_words;  // what each process is told besides its own
  double join_timeout_s = 600;             // for the first time
  double rejoin_timeout_s = 600;           // when the head went away
  bool ends_with_run = false;              // (end) ends the agent, with the run's result
  std::function<void(const std::string& line)> on_line;
  std::function<void(AgentEnd)> on_end;  // once
};

class ClusterAgentState {
 public:
  static inline const char* name = "cluster_agent";
  explicit ClusterAgentState(ClusterAgentActor::pointer self) : self_(self) {}
  void open(ClusterAgentOptions options);
  void on_start();
  void on_beat();
  caf::result<bool> on_launch(const control::LaunchRequest& request);
  void on_exit(const control::ProcessExit& exit);
  void on_kill(const std::string& run_id, const control::ProcessOrder& process);
  bool on_run_end(const control::RunEnd& end);
  void on_leave();
  bool on_stop();
  void on_down(const caf::down_msg& message);

 private:
  /// The processes of a run here, in the order in which they were started.
  struct Run {
    uint64_t launch = 0;
    std::vector<control::ProcessOrder> orders;
    std::unique_ptr<platform::ChildProcesses> children;
  };
  Expected<void> start(Run& run, const control::LaunchRequest& request);
  Expected<void> join();
  void retry(const Error& error);
  void finish(AgentEnd end);

  ClusterAgentActor::pointer self_;
  ClusterAgentOptions options_;
  ClusterHeadActor head_;
  control::NodeWelcome welcome_;
  double away_since_ = 0;
  bool was_joined_ = false, is_beating_ = false, is_over_ = false;
  std::map<std::string, Run> runs_;
};

ClusterAgentActor::behavior_type cluster_agent(
    ClusterAgentActor::stateful_pointer<ClusterAgentState> self, ClusterAgentOptions options);

}  // namespace cohort::actors
