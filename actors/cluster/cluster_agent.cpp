#include "actors/cluster/cluster_agent.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "actors/cluster/host_waits.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"
#include "runtime/control/request.hpp"
#include "runtime/platform/child_processes.hpp"

namespace cohort::actors {

using namespace control;

namespace {
constexpr std::chrono::seconds k_answer_limit{5};
constexpr uint32_t k_leave_ms = 10000;
constexpr size_t k_waits_told = 160;  // some 64 KiB of the longest texts
constexpr uint32_t k_window_max_ms = 60000;

/// Reads what a run's processes here wait for: one question at a time, so that it may block.
using WaitsReader =
    caf::typed_actor<caf::replies_to<waits_atom, WaitsQuery>::with<control::NodeWaits>>;

control::NodeWaits told(const WaitsQuery& query) {
  HostWaits found = read_host_waits(
      query.folder, std::chrono::milliseconds(std::min(query.window_ms, k_window_max_ms)));
  keep_telling(found.processes, k_waits_told, found.now - 1e-3 * query.after_ms);
  control::NodeWaits waits;
  waits.host = host_name();
  waits.now = found.now;
  waits.processes = std::move(found.processes);
  waits.states.assign(found.states.begin(), found.states.end());
  for (const auto& [host, count] : found.elsewhere)
    waits.elsewhere.emplace_back(host, static_cast<uint32_t>(count));
  return waits;
}

WaitsReader::behavior_type waits_reader(WaitsReader::pointer self) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  return {[](waits_atom, const WaitsQuery& query) { return told(query); }};
}

class ClusterAgentState {
 public:
  static inline const char* name = "cluster_agent";
  explicit ClusterAgentState(ClusterAgentActor::pointer self) : self_(self) {}
  void open(ClusterAgentOptions options) {
    options_ = std::move(options);
    away_since_ = now_seconds();
    self_->set_down_handler([this](const caf::down_msg& message) { on_down(message); });
  }
  void on_start() {
    if (is_over_ || head_) return;
    if (auto joined = join(); !joined) return retry(joined.error());
  }
  void on_beat() {
    is_beating_ = head_ && !is_over_;
    if (!is_beating_) return;
    send_request(
        self_, head_, k_answer_limit,
        [this](bool is_known) {
          if (!is_known && head_) on_down({head_.address(), caf::error{}});
        },
        [this](caf::error&) {
          if (head_) on_down({head_.address(), caf::error{}});
        },
        beat_atom_v, welcome_.node, welcome_.epoch);
    self_->delayed_send(ClusterAgentActor{self_}, std::chrono::milliseconds(k_beat_ms),
                        beat_atom_v);
  }
  caf::result<bool> on_launch(const LaunchRequest& request) {
    Run& run = runs_[request.run_id];
    if (run.launch != request.launch) run = Run{request.launch, {}, nullptr};  // ends what it was
    if (auto started = start(run, request); !started) {
      if (run.orders.empty()) runs_.erase(request.run_id);
      return to_caf(started.error());
    }
    return true;
  }
  void on_exit(const ProcessExit& exit) {
    auto run = runs_.find(exit.run_id);
    if (run == runs_.end() || run->second.launch != exit.launch) return;  // it was told to end
    const ProcessExit told{exit.run_id, run->second.orders.at(exit.process.slot), exit.reason,
                           exit.launch};
    options_.on_line(
        fmt::format("run {}: process {} {}", told.run_id, told.process.slot, told.reason));
    if (head_) caf::anon_send(head_, fail_atom_v, told);
  }
  void on_kill(const std::string& run_id, const ProcessOrder& process) {
    auto run = runs_.find(run_id);
    if (run == runs_.end()) return;
    for (size_t i = 0; i < run->second.orders.size(); ++i)
      if (run->second.orders[i].slot == process.slot &&
          run->second.orders[i].attempt == process.attempt)
        run->second.children->kill(i);
  }
  bool on_run_end(const RunEnd& end) {
    if (auto run = runs_.extract(end.run_id); !run.empty()) {
      constexpr int k_end_ms = 3000;  // its processes see that their node is gone, and end
      run.mapped().children->wait_all(k_end_ms);
      options_.on_line(fmt::format("run {}: {}", end.run_id, end.is_ok ? "done" : end.error));
    }
    if (options_.ends_with_run) finish({end.is_ok, end.error});
    return true;
  }
  // SIGTERM: a host that is to go. What plays here is played to its end, within a limit.
  void on_leave() {
    if (!head_ || options_.local_head || runs_.empty()) return finish({true, ""});
    options_.on_line("leaving: what is played here is played to its end first");
    send_request(
        self_, head_, std::chrono::milliseconds(2 * k_leave_ms),
        [this](bool) {
          finish({true, ""});
        },
        [this](caf::error& e) {
          options_.on_line("leaving at once: " + from_caf(e).detail);
          finish({true, ""});
        },
        leave_atom_v, welcome_.node, k_leave_ms);
  }
  bool on_stop() {
    finish({true, ""});
    return true;
  }
  caf::result<control::NodeWaits> on_waits(const WaitsQuery& query) {
    if (!reader_) reader_ = self_->spawn<caf::linked + caf::detached>(waits_reader);
    return self_->delegate(reader_, waits_atom_v, query);
  }
  void on_down(const caf::down_msg& message) {
    if (!head_ || message.source != head_.address() || is_over_) return;
    self_->demonitor(head_.address());
    head_ = nullptr;
    away_since_ = now_seconds();
    options_.on_line("the head is away: joining again");
    self_->send(ClusterAgentActor{self_}, start_atom_v);
  }

 private:
  /// The processes of a run here, in the order in which they were started.
  struct Run {
    uint64_t launch = 0;
    std::vector<control::ProcessOrder> orders;
    std::unique_ptr<platform::ChildProcesses> children;
  };
  Expected<void> start(Run& run, const LaunchRequest& request) {
    auto address = ClusterAgentActor{self_};
    // The index of a child says which it was; what was ordered is this actor's own to look at.
    if (run.children == nullptr)
      run.children = std::make_unique<platform::ChildProcesses>(
          [address, run_id = request.run_id,
           launch = request.launch](const platform::ChildExit& exit) {
            ProcessExit ended{run_id, {}, exit.text, launch};
            ended.process.slot = static_cast<uint32_t>(exit.index);
            caf::anon_send(address, fail_atom_v, std::move(ended));
          });
    for (const ProcessOrder& process : request.processes) {
      if (process.node != welcome_.node) continue;
      std::vector<std::string> argv = options_.command;
      argv.insert(argv.end(),
                  {"card", "--join", request.address, "--slot", std::to_string(process.slot),
                   "--attempt", std::to_string(process.attempt)});
      argv.insert(argv.end(), options_.process_words.begin(), options_.process_words.end());
      run.orders.push_back(process);
      if (auto started = run.children->start(argv, process.environment); !started) {
        run.orders.pop_back();
        return started.error();
      }
      options_.on_line(fmt::format("run {}: process {} started, {}", request.run_id, process.slot,
                                   process.what));
    }
    return {};
  }
  Expected<void> join() {
    ClusterHeadActor head = options_.local_head;
    if (!head) {
      COHORT_ASSIGN(head, control::connect<ClusterHeadActor>(self_->home_system(), options_.head));
    }
    caf::scoped_actor asker{self_->home_system()};
    Expected<NodeWelcome> welcome = Error{Errc::timeout, "the head does not answer"};
    asker
        ->request(head, k_answer_limit, join_atom_v, options_.hello,
                  caf::actor_cast<caf::strong_actor_ptr>(ClusterAgentActor{self_}))
        .receive([&](const NodeWelcome& answer) { welcome = answer; },
                 [&](const caf::error& e) { welcome = from_caf(e); });
    COHORT_ASSIGN(welcome_, welcome);
    head_ = head;
    self_->monitor(head_);
    was_joined_ = true;
    options_.on_line(fmt::format("node {}: joined {}", welcome_.node,
                                 options_.local_head ? "its own head" : to_text(options_.head)));
    if (!std::exchange(is_beating_, true)) self_->send(ClusterAgentActor{self_}, beat_atom_v);
    return {};
  }
  // What will not change by itself ends the agent at once; a head that is not there yet is waited
  // for.
  void retry(const Error& error) {
    const double limit = was_joined_ ? options_.rejoin_timeout_s : options_.join_timeout_s;
    const bool is_final = error.code == Errc::protocol || error.code == Errc::invalid_argument ||
                          error.code == Errc::capacity;
    // A rank that a node of ours held is free again when the head has missed it for long enough.
    const bool may_change = was_joined_ && error.code == Errc::invalid_argument;
    if ((is_final && !may_change) || now_seconds() - away_since_ > limit)
      return finish({false, fmt::format("cannot join the cluster at {}: {}", to_text(options_.head),
                                        error.detail)});
    self_->delayed_send(ClusterAgentActor{self_}, std::chrono::milliseconds(k_beat_ms / 2),
                        start_atom_v);
  }
  void finish(AgentEnd end) {
    if (std::exchange(is_over_, true)) return;
    head_ = nullptr;
    runs_.clear();
    options_.on_end(std::move(end));
  }

  ClusterAgentActor::pointer self_;
  ClusterAgentOptions options_;
  ClusterHeadActor head_;
  control::NodeWelcome welcome_;
  double away_since_ = 0;
  bool was_joined_ = false, is_beating_ = false, is_over_ = false;
  std::map<std::string, Run> runs_;
  WaitsReader reader_;  // null until the first question
};

ClusterAgentActor::behavior_type cluster_agent(
    ClusterAgentActor::stateful_pointer<ClusterAgentState> self, ClusterAgentOptions options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return to_error(leaked); });
  self->state.open(std::move(options));
  ClusterAgentState* state = &self->state;
  return {
      [state](start_atom) { state->on_start(); },
      [state](beat_atom) { state->on_beat(); },
      [state](launch_atom, const LaunchRequest& request) { return state->on_launch(request); },
      [state](fail_atom, const ProcessExit& exit) { state->on_exit(exit); },
      [state](end_atom, const RunEnd& end) { return state->on_run_end(end); },
      [state](end_atom, const std::string& run_id, const ProcessOrder& process) {
        state->on_kill(run_id, process);
      },
      [state](leave_atom) { state->on_leave(); },
      [state](stop_atom) { return state->on_stop(); },
      [state](waits_atom, const WaitsQuery& query) { return state->on_waits(query); },
  };
}

}  // namespace

ClusterAgentActor spawn_cluster_agent(caf::actor_system& system, ClusterAgentOptions options) {
  return system.spawn<caf::detached>(cluster_agent, std::move(options));
}

}  // namespace cohort::actors
