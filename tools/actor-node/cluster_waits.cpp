#include "tools/actor-node/cluster_waits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "actors/cluster/cluster_roles.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/control/system.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds k_head_limit{5};

using control::ClusterStatus;
using control::NodeInfo;
using control::NodeWaits;

Expected<ClusterStatus> ask_status(caf::scoped_actor& self, const actors::ClusterHeadActor& head) {
  Expected<ClusterStatus> status = Error{Errc::timeout, "the cluster's head does not answer"};
  self->request(head, k_head_limit, control::status_atom_v)
      .receive([&](const ClusterStatus& answer) { status = answer; },
               [&](const caf::error& e) { status = control::from_caf(e); });
  return status;
}

/// "" if nothing runs.
Expected<std::string> chosen_run(const ClusterStatus& status, const std::string& wanted) {
  const std::string all = fmt::format("{}", fmt::join(status.runs, ", "));
  if (!wanted.empty()) {
    if (std::ranges::find(status.runs, wanted) != status.runs.end()) return wanted;
    return Error{Errc::not_found, fmt::format("--run {}: the cluster runs {}", wanted,
                                              all.empty() ? "nothing" : all)};
  }
  if (status.runs.size() > 1)
    return Error{Errc::invalid_argument, fmt::format("say which run, with --run: {}", all)};
  return status.runs.empty() ? std::string() : status.runs.front();
}

/// The clocks of hosts differ: what counts is how long ago a wait began.
void take(RunWaits& waits, NodeWaits answer) {
  plan::StallInput& input = waits.input;
  for (ProcessWaits& process : answer.processes) {
    const auto is_same = [&](const ProcessWaits& known) {
      return known.host == process.host && known.pid == process.pid;
    };
    // Two nodes of one host both see it.
    if (std::ranges::any_of(input.processes, is_same)) continue;
    for (WaitEntry& wait : process.waits) wait.since += input.now - answer.now;
    input.processes.push_back(std::move(process));
  }
  for (const auto& [pid, state] : answer.states) input.states[{answer.host, pid}] = state;
  for (const auto& [host, count] : answer.elsewhere) waits.elsewhere[host] = count;
}

std::string node_text(const NodeInfo& node) {
  return fmt::format("node {} ({} at {})", node.node, node.name, node.address);
}

/// Why a node has said nothing.
std::string silence_of(const Error& error, double limit_s) {
  if (error.code == Errc::timeout)
    return fmt::format("does not answer within {:.1f} s: it is stopped or cut off", limit_s);
  return "does not answer: " + error.detail;
}

void ask_nodes(caf::scoped_actor& self, const actors::ClusterHeadActor& head,
               const std::vector<NodeInfo>& nodes, const std::string& run_id,
               std::chrono::milliseconds window, RunWaits& waits) {
  using Asked = decltype(self->request(head, window, control::waits_atom_v, control::WaitsQuery{}));
  std::vector<Asked> asked;
  const std::chrono::milliseconds limit = window + k_node_limit;
  for (const NodeInfo& node : nodes)
    asked.push_back(
        self->request(head, limit, control::waits_atom_v,
                      control::WaitsQuery{run_id, node.node, static_cast<uint32_t>(window.count()),
                                          static_cast<uint32_t>(1e3 * waits.input.after_s), ""}));
  std::set<std::string> heard;
  for (size_t i = 0; i < nodes.size(); ++i)
    asked[i].receive(
        [&](const NodeWaits& answer) {
          heard.insert(answer.host);
          waits.input.now = now_seconds();
          take(waits, answer);
        },
        [&](const caf::error& e) {
          heard.insert(nodes[i].name);
          waits.input.silent.push_back(
              {node_text(nodes[i]),
               silence_of(control::from_caf(e), 1e-3 * static_cast<double>(limit.count()))});
        });
  std::erase_if(waits.elsewhere, [&](const auto& each) { return heard.contains(each.first); });
}

}  // namespace

Expected<ClusterWaits> read_cluster_waits(const std::string& head, const std::string& run_id,
                                          double after_s, std::chrono::milliseconds window,
                                          const ClusterAccess& access) {
  COHORT_ASSIGN(const control::Address address, head_address(head));
  COHORT_ASSIGN(const control::SystemOptions options, system_options(access));
  control::SystemConfig config(options);
  caf::actor_system system(config);
  COHORT_ASSIGN(const auto found, control::connect<actors::ClusterHeadActor>(system, address));
  caf::scoped_actor self{system};
  COHORT_ASSIGN(ClusterStatus status, ask_status(self, found));
  ClusterWaits cluster;
  COHORT_ASSIGN(cluster.run_id, chosen_run(status, run_id));
  cluster.waits.input.after_s = after_s;
  cluster.waits.input.now = now_seconds();
  cluster.waits.is_of_no_run = cluster.run_id.empty();
  if (cluster.run_id.empty()) return cluster;
  // One that is lost has no processes any more: the run knows, and says what it does without them.
  std::erase_if(status.nodes, [](const NodeInfo& node) { return node.is_lost; });
  ask_nodes(self, found, status.nodes, cluster.run_id, window, cluster.waits);
  return cluster;
}

}  // namespace cohort
