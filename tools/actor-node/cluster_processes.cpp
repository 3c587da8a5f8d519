#include "tools/actor-node/cluster_processes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "tools/actor-node/role_environment.hpp"

namespace cohort {
namespace {

constexpr std::chrono::seconds k_answer_limit{20};

template <class Answer, class Handle, class... Args>
Expected<Answer> ask(caf::actor_system& system, const Handle& handle, Args&&... args) {
  caf::scoped_actor self{system};
  Expected<Answer> result = Error{Errc::timeout, "the cluster's head does not answer"};
  self->request(handle, k_answer_limit, std::forward<Args>(args)...)
      .receive([&](const Answer& answer) { result = answer; },
               [&](const caf::error& e) { result = control::from_caf(e); });
  return result;
}

uint32_t node_of(CardId card, const config::RunConfig& config) {
  return card.value / static_cast<uint32_t>(config.num_gpus_per_node);
}

/// What the run needs of nodes 0 … count - 1.
Expected<plan::NodesWanted> nodes_wanted(const ClusterRun& cluster, const config::RunConfig& config,
                                         const actors::Preflight& plan, uint32_t count) {
  plan::NodesWanted wanted;
  wanted.count = wanted.least = count;
  wanted.wait_s = cluster.wait_s;
  wanted.wait_more_s = cluster.wait_more_s;
  for (const plan::RoleSpec& role : plan.placement.roles)
    for (CardId card : role.cards)
      if (role.role != Role::actor_infer) wanted.required.insert(node_of(card, config));
  const plan::ShardLayout layout = plan.infer_layout();
  for (size_t i = 0; i < layout.ranks.size(); ++i) {
    if (i % layout.tp == 0) wanted.replicas.emplace_back();
    wanted.replicas.back().insert(node_of(layout.ranks[i], config));
  }
  if (cluster.nodes.empty()) return wanted;
  COHORT_ASSIGN(plan::NodeRange range, plan::parse_node_range(cluster.nodes));
  if (range.least > count || range.count.value_or(count) != count)
    return Error{
        Errc::config,
        fmt::format("--nodes {}: {} is {}, which is the most that may be; say --nodes MIN "
                    "or MIN:{}",
                    cluster.nodes,
                    cluster.start ? "WORLD_SIZE" : "the number of nodes in the configuration",
                    count, count)};
  wanted.least = range.least;
  return wanted;
}

}  // namespace

transport::CurveKeys curve_keys(const control::Credentials& credentials) {
  return {credentials.curve_public, credentials.curve_secret, credentials.curve_public};
}

Expected<std::unique_ptr<ClusterProcesses>> ClusterProcesses::create(
    caf::actor_system& system, const ClusterRun& cluster, const config::RunConfig& config,
    const actors::Preflight& plan) {
  std::unique_ptr<ClusterProcesses> processes(new ClusterProcesses(system));
  processes->is_own_ = cluster.start.has_value();
  COHORT_TRY(processes->is_own_ ? processes->open_own(cluster) : processes->open_standing(cluster));
  if (cluster.on_head) cluster.on_head(processes->head_);
  auto nodes = static_cast<uint32_t>(config.derived.num_nodes);
  if (processes->is_own_) {
    if (cluster.start->nodes < nodes)
      return Error{Errc::config,
                   fmt::format("WORLD_SIZE is {}, the configuration has cards on {} "
                               "nodes (num_gpus_per_node {})",
                               cluster.start->nodes, nodes, config.num_gpus_per_node)};
    nodes = cluster.start->nodes;
  }
  COHORT_ASSIGN(plan::NodesWanted wanted, nodes_wanted(cluster, config, plan, nodes));
  COHORT_TRY(processes->await_nodes(std::move(wanted)));
  processes->split(plan.placement, config, cluster.processes_per_node);
  for (size_t i = 0; i < processes->orders_.size(); ++i) {
    COHORT_ASSIGN(processes->orders_[i].environment,
                  role_environment(config, plan.placement, processes->cards_[i]));
  }
  COHORT_ASSIGN(control::SystemOptions options, system_options(cluster.access));
  processes->wires_.listen_host = processes->host_;
  processes->wires_.is_insecure = options.is_insecure;
  if (options.credentials) processes->wires_.curve = curve_keys(*options.credentials);
  return processes;
}

// This process is the cluster's head and its node 0.
Expected<void> ClusterProcesses::open_own(const ClusterRun& cluster) {
  auto say = [](const std::string& line) { log::info("cluster: {}", line); };
  actors::ClusterHeadOptions head;
  head.version = k_version;
  head.on_line = say;
  head.on_stop = [] {};
  head_ = actors::spawn_cluster_head(system_, std::move(head));
  host_ = cluster.access.host.empty() ? cluster.start->head.host : cluster.access.host;
  COHORT_TRY(
      control::publish(system_, head_, {cluster.start->head.host, cluster.start->head.port}));
  actors::ClusterAgentOptions agent;
  agent.local_head = head_;
  agent.hello.version = k_version;
  agent.hello.rank = 0;
  agent.hello.name = host_name();
  agent.hello.address = host_;
  agent.hello.pid = ::getpid();
  agent.command = {runner_path()};
  agent.process_words = access_words(cluster.access);
  agent.process_words.insert(agent.process_words.end(), {"--host", host_});
  agent.on_line = say;
  agent.on_end = [](const actors::AgentEnd&) {};
  agent_ = actors::spawn_cluster_agent(system_, std::move(agent));
  caf::anon_send(agent_, control::start_atom_v);
  return {};
}

Expected<void> ClusterProcesses::open_standing(const ClusterRun& cluster) {
  COHORT_ASSIGN(control::Address address, head_address(cluster.head));
  host_ = cluster.access.host;
  if (host_.empty()) {
    COHORT_ASSIGN(host_, control::address_towards(address));
  }
  COHORT_ASSIGN(head_, control::connect<actors::ClusterHeadActor>(system_, address));
  return {};
}

Expected<void> ClusterProcesses::await_nodes(plan::NodesWanted wanted) {
  const double wait_s = wanted.wait_s;
  plan::StartGate gate(std::move(wanted), now_seconds());
  const std::string word = is_own_ ? "RANK" : "node";
  double told = 0;
  for (;;) {
    COHORT_ASSIGN(auto status, ask<control::ClusterStatus>(system_, head_, control::status_atom_v));
    std::set<uint32_t> joined;
    for (const control::NodeInfo& node : status.nodes)
      if (!node.is_lost && !node.is_leaving) joined.insert(node.node);
    const plan::StartGate::Verdict verdict = gate.judge(joined, now_seconds());
    if (verdict == plan::StartGate::Verdict::start) break;
    if (verdict == plan::StartGate::Verdict::give_up)
      return Error{Errc::timeout, fmt::format("{} after {:g} s (--wait)", gate.text(word), wait_s)};
    if (now_seconds() - told > 10) {
      log::info("cluster: {}", gate.text(word));
      std::fprintf(stderr, "%s\n", gate.text(word).c_str());
      told = now_seconds();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  missing_ = gate.missing();
  if (!missing_.empty()) {
    log::info("cluster: {}", gate.text(word));
    std::fprintf(stderr, "%s; the run begins without\n", gate.text(word).c_str());
  }
  return {};
}

void ClusterProcesses::split(const plan::PlacementPlan& plan, const config::RunConfig& config,
                             size_t processes_per_node) {
  std::map<uint32_t, std::vector<CardId>> by_node;
  std::set<CardId> used;
  for (const plan::RoleSpec& role : plan.roles) used.insert(role.cards.begin(), role.cards.end());
  for (CardId card : used) by_node[node_of(card, config)].push_back(card);
  for (const auto& [node, cards] : by_node) {
    size_t count = processes_per_node;
    if (count == 0) count = config.platform == config::Platform::cpu ? 1 : cards.size();
    count = std::min(count, cards.size());
    for (size_t i = 0; i < count; ++i) {
      std::vector<CardId> part(
          cards.begin() + static_cast<ptrdiff_t>(cards.size() * i / count),
          cards.begin() + static_cast<ptrdiff_t>(cards.size() * (i + 1) / count));
      control::ProcessOrder order;
      order.slot = static_cast<uint32_t>(cards_.size());
      order.node = node;
      order.what = text_of(plan, part);
      order.may_wait = missing_.contains(node);
      if (order.may_wait) absent_.insert(order.slot);
      orders_.push_back(std::move(order));
      cards_.push_back(std::move(part));
    }
  }
}

Expected<void> ClusterProcesses::start(caf::actor_system& system, const actors::RunFolder& run,
                                       const actors::NodeActor& node) {
  COHORT_ASSIGN(uint16_t port, control::publish(system, node, {host_, 0}));
  control::LaunchRequest request;
  request.run_id = run.run_id;
  request.folder = run.path;
  request.address = address_ = control::to_text({host_, port});
  request.supervisor = caf::actor_cast<caf::strong_actor_ptr>(node);
  request.processes = orders_;
  run_id_ = run.run_id;
  COHORT_TRY(ask<bool>(system, head_, control::launch_atom_v, request));
  return {};
}

// Called by the run's node, between start() and finish(): nothing here waits.
actors::ProcessControl ClusterProcesses::control() {
  return {[this](uint32_t slot, uint32_t attempt) {
            control::ProcessOrder order = orders_.at(slot);
            order.attempt = attempt;
            caf::anon_send(head_, control::end_atom_v, run_id_, order);
          },
          [this](uint32_t slot, uint32_t attempt) {
            control::LaunchRequest request{run_id_, address_, nullptr, {orders_.at(slot)}, 0, ""};
            request.processes.front().attempt = attempt;
            caf::anon_send(head_, control::launch_atom_v, request);
          }};
}

void ClusterProcesses::finish(const std::string& error, int) {
  if (run_id_.empty()) return;
  control::RunEnd end{std::exchange(run_id_, ""), error.empty(), error};
  if (auto told = ask<bool>(system_, head_, control::end_atom_v, end); !told)
    log::warn("cluster: the end of the run is not known everywhere: {}", told.error().detail);
}

ClusterProcesses::~ClusterProcesses() {
  ClusterProcesses::finish("the run did not start", 0);
  if (agent_) caf::anon_send_exit(agent_, caf::exit_reason::user_shutdown);
  if (is_own_ && head_) caf::anon_send_exit(head_, caf::exit_reason::user_shutdown);
}

}  // namespace cohort
