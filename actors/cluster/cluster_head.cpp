#include "actors/cluster/cluster_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/control/request.hpp"
#include "runtime/plan/membership/node_table.hpp"

namespace cohort::actors {

using namespace control;

namespace {

class ClusterHeadState {
 public:
  static inline const char* name = "cluster_head";
  explicit ClusterHeadState(ClusterHeadActor::pointer self) : self_(self) {}
  void open(ClusterHeadOptions options) {
    options_ = std::move(options);
    started_ = now_seconds();
    self_->set_down_handler([this](const caf::down_msg& message) { on_down(message); });
    self_->delayed_send(ClusterHeadActor{self_}, std::chrono::milliseconds(k_beat_ms), watch_atom_v,
                        uint64_t{0});
  }
  caf::result<control::NodeWelcome> on_join(const NodeHello& hello,
                                            const caf::strong_actor_ptr& agent) {
    const uint32_t protocol = std::min(hello.protocol_max, k_control_protocol_max);
    if (protocol < std::max(hello.protocol_min, k_control_protocol_min))
      return to_caf(
          {Errc::protocol,
           fmt::format("{} speaks control protocol {} to {}, this head ({}) {} to {}: "
                       "install the same actor-node on both",
                       hello.version, hello.protocol_min, hello.protocol_max, options_.version,
                       k_control_protocol_min, k_control_protocol_max)});
    if (agent == nullptr) return to_caf({Errc::protocol, "a node joined without an agent"});
    plan::NodeEntry node;
    node.name = hello.name;
    node.address = hello.address;
    node.version = hello.version;
    node.pid = hello.pid;
    node.cards = hello.cards;
    auto rank = hello.rank < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(hello.rank));
    auto added = nodes_.add(std::move(node), rank, now_seconds());
    if (!added) return to_caf(added.error());
    agents_[added->id] = {caf::actor_cast<ClusterAgentActor>(agent), added->epoch};
    self_->monitor(agent);
    options_.on_line(fmt::format("node {}: {} has joined", added->id, plan::to_text(*added)));
    start_waiting(added->id);
    return NodeWelcome{added->id, added->epoch, protocol};
  }
  bool on_beat(uint32_t node, uint64_t epoch) { return nodes_.hear(node, epoch, now_seconds()); }
  control::ClusterStatus on_status() const {
    ClusterStatus status;
    status.version = options_.version;
    status.up_s = now_seconds() - started_;
    for (const plan::NodeEntry& entry : nodes_.entries()) {
      NodeInfo info;
      info.node = entry.id;
      info.name = entry.name;
      info.address = entry.address;
      info.version = entry.version;
      info.pid = entry.pid;
      info.cards = entry.cards;
      info.heard_s = now_seconds() - entry.heard;
      info.is_lost = entry.is_lost;
      auto agent = agents_.find(entry.id);
      info.is_leaving = !entry.is_lost && agent != agents_.end() && agent->second.is_leaving;
      for (const auto& [run_id, run] : runs_)
        for (const ProcessOrder& process : run.processes)
          if (process.node == entry.id) info.processes.push_back(run_id + ": " + process.what);
      status.nodes.push_back(std::move(info));
    }
    std::map<uint32_t, NodeInfo> away;
    for (const auto& [run_id, run] : runs_)
      for (const ProcessOrder& process : run.waiting)
        away[process.node].processes.push_back(run_id + ": " + process.what);
    for (auto& [node, info] : away) {
      auto known = std::ranges::find(status.nodes, node, &NodeInfo::node);
      if (known == status.nodes.end()) {
        info.node = node;
        info.name = info.address = info.version = "-";
        known = status.nodes.insert(known, info);
      }
      known->is_lost = nodes_.find(node) == nullptr;
      known->is_away = known->is_lost;
    }
    for (const auto& [run_id, run] : runs_) status.runs.push_back(run_id);
    return status;
  }
  caf::result<bool> on_launch(const LaunchRequest& request) {
    // With a supervisor it is a run's start, or its start after its process had died; without, the
    // start of single processes.
    if (request.supervisor == nullptr) {
      auto run = runs_.find(request.run_id);
      if (run == runs_.end()) return to_caf({Errc::not_found, "no run " + request.run_id});
      return start_again(run->second, request);
    }
    std::set<uint32_t> nodes;
    std::vector<ProcessOrder> waiting;
    for (const ProcessOrder& process : request.processes) {
      if (is_there(process.node))
        nodes.insert(process.node);
      else if (process.may_wait)
        waiting.push_back(process);
      else
        return to_caf({Errc::not_found, fmt::format("{}: the cluster has no living node {}",
                                                    process.what, process.node)});
    }
    runs_[request.run_id] = {request.supervisor, ++launches_,       request.address,
                             request.folder,     request.processes, std::move(waiting)};
    self_->monitor(request.supervisor);
    LaunchRequest order = request;
    order.launch = launches_;
    order.supervisor = nullptr;  // theirs to know is this head: a run may end without them
    return pass_on(nodes, launch_atom_v, order);
  }
  void on_exit(const control::ProcessExit& exit, bool is_node_gone = false) {
    auto run = runs_.find(exit.run_id);
    if (run == runs_.end() || run->second.launch != exit.launch) return;  // it is over
    std::erase_if(run->second.processes, [&](const ProcessOrder& each) {
      return each.slot == exit.process.slot && each.attempt == exit.process.attempt;
    });
    caf::anon_send(
        caf::actor_cast<RunSupervisor>(run->second.supervisor), lost_atom_v,
        ProcessLost{exit.process.slot, exit.process.attempt,
                    fmt::format("{} on node {}", exit.reason, exit.process.node), is_node_gone});
  }
  void on_kill(const std::string& run_id, const ProcessOrder& process) {
    if (nodes_.find(process.node) != nullptr)
      caf::anon_send(agents_.at(process.node).handle, end_atom_v, run_id, process);
  }
  caf::result<bool> on_end(const RunEnd& end) {
    runs_.erase(end.run_id);
    return pass_on(living(), end_atom_v, end);  // all: some live only as long as the run does
  }
  // What is started again on a node that leaves waits for its successor. An agent that ends may be
  // gone before its answer is.
  caf::result<bool> on_leave(uint32_t node, uint32_t wait_ms) {
    if (nodes_.find(node) == nullptr)
      return to_caf({Errc::not_found, fmt::format("the cluster has no living node {}", node)});
    Agent& agent = agents_.at(node);
    if (agent.handle.node() == self_->node())
      return to_caf({Errc::invalid_argument,
                     fmt::format("node {} is the head's own: end the cluster with `stop`", node)});
    if (std::exchange(agent.is_leaving, true))
      return to_caf({Errc::invalid_argument, fmt::format("node {} is leaving already", node)});
    options_.on_line(fmt::format("node {}: {} leaves", node, plan::to_text(*nodes_.find(node))));
    auto promise = self_->make_response_promise<bool>();
    auto missing = std::make_shared<size_t>(1);
    auto refused = std::make_shared<Expected<void>>();
    auto answered = [this, promise, missing, refused, node] {
      if (--*missing == 0) left(node, *refused, promise);
    };
    constexpr uint32_t k_answer_ms = 10000;
    for (const auto& [run_id, run] : runs_) {
      LeaveOrder order{{}, wait_ms};
      for (const ProcessOrder& process : run.processes)
        if (process.node == node) order.slots.push_back(process.slot);
      if (order.slots.empty() || run.supervisor == nullptr) continue;
      ++*missing;
      send_request(
          self_, caf::actor_cast<RunSupervisor>(run.supervisor),
          std::chrono::milliseconds(wait_ms + k_answer_ms), [answered](bool) { answered(); },
          [answered, refused, run_id = run_id](caf::error& e) {
            *refused = from_caf(e).with_context("run " + run_id);
            answered();
          },
          leave_atom_v, order);
    }
    answered();
    return promise;
  }
  caf::result<control::NodeWaits> on_waits(const WaitsQuery& query) {
    const auto run = runs_.find(query.run_id);
    if (run == runs_.end()) return to_caf({Errc::not_found, "no run " + query.run_id});
    if (nodes_.find(query.node) == nullptr)
      return to_caf({Errc::not_found, "it is no living node of the cluster any more"});
    WaitsQuery asked = query;
    asked.folder = run->second.folder;
    auto promise = self_->make_response_promise<control::NodeWaits>();
    send_request(
        self_, agents_.at(query.node).handle,
        std::chrono::milliseconds(asked.window_ms + options_.agent_timeout_ms),
        [promise](const control::NodeWaits& waits) mutable { promise.deliver(waits); },
        [promise](caf::error& e) mutable { promise.deliver(std::move(e)); }, waits_atom_v, asked);
    return promise;
  }
  // One that ends may be gone before its answer is: that is what was asked for.
  caf::result<bool> on_stop() {
    auto promise = self_->make_response_promise<bool>();
    auto missing = std::make_shared<size_t>(living().size());
    auto ended = [this, promise, missing](const Expected<void>&) mutable {
      if (*missing > 0 && --*missing > 0) return;
      promise.deliver(true);
      options_.on_stop();
    };
    if (*missing == 0) ended({});
    for (uint32_t node : living()) tell({node}, ended, stop_atom_v);
    return promise;
  }
  void on_watch() {
    for (const plan::NodeEntry& node : nodes_.lose_silent(now_seconds(), k_silence_s))
      lose(node, fmt::format("nothing heard for {} s", k_silence_s));
    std::vector<std::string> unsaid;
    for (const auto& [run_id, run] : runs_)
      if (run.ends_since >= 0 && now_seconds() - run.ends_since > k_silence_s)
        unsaid.push_back(run_id);
    for (const std::string& run_id : unsaid) end_unsaid(run_id);
    self_->delayed_send(ClusterHeadActor{self_}, std::chrono::milliseconds(k_beat_ms), watch_atom_v,
                        uint64_t{0});
  }
  void on_down(const caf::down_msg& message) {
    for (const auto& [id, agent] : agents_)
      if (agent.handle.address() == message.source) {
        const plan::NodeEntry* node = nodes_.find(id);
        if (node == nullptr || node->epoch != agent.epoch) return;
        plan::NodeEntry lost = *node;
        nodes_.lose(id, agent.epoch);
        return lose(lost, "its process has ended");
      }
    for (auto run = runs_.begin(); run != runs_.end(); ++run)
      if (run->second.supervisor && run->second.supervisor->address() == message.source) {
        if (message.reason != caf::exit_reason::user_shutdown) return end_unsaid(run->first);
        run->second.ends_since = now_seconds();  // its RunEnd is on its way
        return;
      }
  }

 private:
  struct Run {
    caf::strong_actor_ptr supervisor;
    uint64_t launch = 0;
    std::string address;                           // of its node
    std::string folder;                            // on every host
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
            const What&... what) {
    if (nodes.empty()) return then({});
    struct Progress {
      size_t missing = 0;
      std::function<void(Expected<void>)> then;
      void end(Expected<void> result) {
        if (auto told = std::exchange(then, nullptr)) told(std::move(result));
      }
    };
    auto progress = std::make_shared<Progress>(Progress{nodes.size(), std::move(then)});
    for (uint32_t node : nodes)
      send_request(
          self_, agents_.at(node).handle, std::chrono::milliseconds(options_.agent_timeout_ms),
          [progress](bool) {
            if (--progress->missing == 0) progress->end({});
          },
          [progress, node](caf::error& e) {
            progress->end(from_caf(e).with_context(fmt::format("node {}", node)));
          },
          what...);
  }
  template <class... What>
  caf::result<bool> pass_on(const std::set<uint32_t>& nodes, const What&... what) {
    auto promise = self_->make_response_promise<bool>();
    tell(
        nodes,
        [promise](Expected<void> done) mutable {
          if (done)
            promise.deliver(true);
          else
            promise.deliver(to_caf(done.error()));
        },
        what...);
    return promise;
  }
  caf::result<bool> start_again(Run& run, const LaunchRequest& request) {
    LaunchRequest now = request;
    now.launch = run.launch;
    now.processes.clear();
    std::set<uint32_t> nodes;
    for (const ProcessOrder& process : request.processes) {
      std::erase_if(run.processes, [&](const auto& each) { return each.slot == process.slot; });
      std::erase_if(run.waiting, [&](const auto& each) { return each.slot == process.slot; });
      run.processes.push_back(process);
      const bool is_startable = is_there(process.node);
      (is_startable ? now.processes : run.waiting).push_back(process);
      if (is_startable) nodes.insert(process.node);
    }
    return pass_on(nodes, launch_atom_v, now);
  }
  void start_waiting(uint32_t node) {
    for (auto& [run_id, run] : runs_) {
      LaunchRequest order{run_id, run.address, nullptr, {}, run.launch, run.folder};
      for (const ProcessOrder& process : run.waiting)
        if (process.node == node) order.processes.push_back(process);
      std::erase_if(run.waiting, [&](const auto& each) { return each.node == node; });
      if (!order.processes.empty()) caf::anon_send(agents_.at(node).handle, launch_atom_v, order);
    }
  }
  void end_unsaid(const std::string& run_id) {
    const RunEnd end{run_id, false, "the process of the run has ended"};
    runs_.erase(end.run_id);
    for (uint32_t node : living()) caf::anon_send(agents_.at(node).handle, end_atom_v, end);
  }
  /// Returns true for a node on which processes can be started.
  bool is_there(uint32_t node) const {
    return nodes_.find(node) != nullptr && !agents_.at(node).is_leaving;
  }
  void left(uint32_t node, const Expected<void>& result,
            caf::typed_response_promise<bool> promise) {
    const bool is_gone = nodes_.find(node) == nullptr;  // it has not waited
    if (result || is_gone) {
      auto ended = [promise](const Expected<void>&) mutable { promise.deliver(true); };
      return tell(is_gone ? std::set<uint32_t>() : std::set{node}, ended, stop_atom_v);
    }
    agents_.at(node).is_leaving = false;
    start_waiting(node);
    promise.deliver(to_caf(result.error()));
  }
  void lose(const plan::NodeEntry& node, const std::string& reason) {
    options_.on_line(
        agents_.at(node.id).is_leaving
            ? fmt::format("node {}: {} has left", node.id, plan::to_text(node))
            : fmt::format("node {}: {} is lost: {}", node.id, plan::to_text(node), reason));
    std::vector<ProcessExit> exits;
    auto waits = [](const Run& run, uint32_t slot) {
      return std::ranges::find(run.waiting, slot, &ProcessOrder::slot) != run.waiting.end();
    };
    for (const auto& [run_id, run] : runs_)
      for (const ProcessOrder& process : run.processes)
        if (process.node == node.id && !waits(run, process.slot))
          exits.push_back(
              {run_id, process, fmt::format("is lost with its node: {}", reason), run.launch});
    for (const ProcessExit& exit : exits) on_exit(exit, true);
  }
  std::set<uint32_t> living() const {
    std::set<uint32_t> nodes;
    for (const auto& [node, agent] : agents_)
      if (nodes_.find(node) != nullptr) nodes.insert(node);
    return nodes;
  }

  ClusterHeadActor::pointer self_;
  ClusterHeadOptions options_;
  plan::NodeTable nodes_;
  std::map<uint32_t, Agent> agents_;
  std::map<std::string, Run> runs_;
  uint64_t launches_ = 0;
  double started_ = 0;
};

ClusterHeadActor::behavior_type cluster_head(
    ClusterHeadActor::stateful_pointer<ClusterHeadState> self, ClusterHeadOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  ClusterHeadState* state = &self->state;
  return {
      [state](join_atom, const NodeHello& hello, const caf::strong_actor_ptr& agent) {
        return state->on_join(hello, agent);
      },
      [state](beat_atom, uint32_t node, uint64_t epoch) { return state->on_beat(node, epoch); },
      [state](status_atom) { return state->on_status(); },
      [state](launch_atom, const LaunchRequest& request) { return state->on_launch(request); },
      [state](fail_atom, const ProcessExit& exit) { state->on_exit(exit); },
      [state](end_atom, const RunEnd& end) { return state->on_end(end); },
      [state](end_atom, const std::string& run_id, const ProcessOrder& process) {
        state->on_kill(run_id, process);
      },
      [state](leave_atom, uint32_t node, uint32_t wait_ms) {
        return state->on_leave(node, wait_ms);
      },
      [state](stop_atom) { return state->on_stop(); },
      [state](watch_atom, uint64_t) { state->on_watch(); },
      [state](waits_atom, const WaitsQuery& query) { return state->on_waits(query); },
  };
}

}  // namespace

ClusterHeadActor spawn_cluster_head(caf::actor_system& system, ClusterHeadOptions options) {
  return system.spawn(cluster_head, std::move(options));
}

}  // namespace cohort::actors
