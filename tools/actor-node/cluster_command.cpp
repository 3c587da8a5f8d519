#include "tools/actor-node/cluster_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "actors/cluster/cluster_agent.hpp"
#include "actors/cluster/cluster_head.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/observe/dashboard_page.hpp"
#include "tools/actor-node/dashboard_server.hpp"
#include "tools/actor-node/signal_thread.hpp"

namespace cohort {
namespace {

using actors::AgentEnd;

int fail(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return error.code == Errc::invalid_argument ? 2 : 1;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Ends an actor with its scope: an actor system's destructor waits for its actors.
class Scoped {
 public:
  explicit Scoped(caf::strong_actor_ptr actor) : actor_(std::move(actor)) {}
  ~Scoped() { caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  caf::strong_actor_ptr actor_;
};

/// The end of a command that serves until something ends it; the first wins.
class Ending {
 public:
  void set(AgentEnd end) {
    if (!is_set_.exchange(true)) promise_.set_value(std::move(end));
  }
  AgentEnd wait() { return promise_.get_future().get(); }

 private:
  std::atomic<bool> is_set_ = false;
  std::promise<AgentEnd> promise_;
};

/// Ends the process. CAF's system would wait for actors that peers hold references to: one whose
/// host is gone would keep it for ever. What has to end has ended (AgentEnd comes after that).
[[noreturn]] void leave(const AgentEnd& end) {
  if (!end.is_ok) std::fprintf(stderr, "error: %s\n", end.error.c_str());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the network's time to write
  std::fflush(nullptr);
  std::_Exit(end.is_ok ? 0 : 1);
}

actors::ClusterAgentOptions agent_options(const ClusterAccess& access,
                                          const std::string& own_address,
                                          const std::shared_ptr<Ending>& ending) {
  actors::ClusterAgentOptions agent;
  agent.hello.version = k_version;
  agent.hello.name = host_name();
  agent.hello.address = own_address;
  agent.hello.pid = ::getpid();
  agent.command = {runner_path()};
  agent.process_words = access_words(access);
  agent.process_words.insert(agent.process_words.end(), {"--host", own_address});
  agent.on_line = say;
  agent.on_end = [ending](AgentEnd end) { ending->set(std::move(end)); };
  return agent;
}

/// An agent of its own process, until it ends.
int serve_agent(const ClusterAccess& access, actors::ClusterAgentOptions agent,
                const std::shared_ptr<Ending>& ending, SignalThread& signals) {
  auto options = system_options(access);
  if (!options) return fail(options.error());
  control::SystemConfig config(*options);
  caf::actor_system system(config);
  auto actor = actors::spawn_cluster_agent(system, std::move(agent));
  signals.start([actor] { caf::anon_send(actor, control::leave_atom_v); });
  caf::anon_send(actor, control::start_atom_v);
  leave(ending->wait());
}

Expected<std::string> own_address(const ClusterAccess& access, const control::Address& head) {
  if (!access.host.empty()) return access.host;
  return control::address_towards(head);
}

int join(const ClusterCommand& command) {
  SignalThread signals;
  auto head = head_address(command.address);
  if (!head) return fail(head.error());
  auto host = own_address(command.access, *head);
  if (!host) return fail(host.error());
  auto ending = std::make_shared<Ending>();
  actors::ClusterAgentOptions agent = agent_options(command.access, *host, ending);
  agent.head = *head;
  agent.hello.rank = command.rank;
  agent.hello.cards = command.cards;
  agent.join_timeout_s = command.wait_s;
  agent.rejoin_timeout_s = 1e9;  // a node of a lasting cluster waits for its head
  return serve_agent(command.access, std::move(agent), ending, signals);
}

int head(const ClusterCommand& command) {
  SignalThread signals;
  auto address = head_address(command.address, true);
  if (!address) return fail(address.error());
  auto options = system_options(command.access);
  if (!options) return fail(options.error());
  if (auto reached = check_reach(command.access, *address); !reached) return fail(reached.error());
  auto where = dashboard_address(command.dashboard, false);
  if (!where) return fail(where.error());
  control::SystemConfig config(*options);
  caf::actor_system system(config);
  std::unique_ptr<DashboardServer> dashboard;
  if (*where) {
    auto opened = DashboardServer::open(**where, command.access);
    if (!opened) return fail(opened.error());
    dashboard = std::move(*opened);
  }
  auto ending = std::make_shared<Ending>();
  auto actor =
      actors::spawn_cluster_head(system, actors::ClusterHeadOptions{k_version, say, [ending] {
                                                                      ending->set({true, ""});
                                                                    }});
  Scoped scope(caf::actor_cast<caf::strong_actor_ptr>(actor));
  auto port = control::publish(system, actor, *address);
  if (!port) return fail(port.error());
  const std::string host = command.access.host.empty() ? address->host : command.access.host;
  say(fmt::format("head: {} ({})", control::to_text({host, *port}),
                  options->credentials ? "TLS" : "no credentials"));
  std::function<void()> stop = [ending] { ending->set({true, ""}); };
  if (!command.has_no_node) {
    actors::ClusterAgentOptions own = agent_options(command.access, host, ending);
    own.local_head = actor;
    own.hello.rank = 0;
    own.hello.cards = command.cards;
    auto agent = actors::spawn_cluster_agent(system, std::move(own));
    stop = [agent] { caf::anon_send(agent, control::stop_atom_v); };
    caf::anon_send(agent, control::start_atom_v);
  }
  if (dashboard) {
    say("dashboard: " + dashboard->url());
    dashboard->follow(system, actor);
  }
  signals.start(stop);
  leave(ending->wait());
}

std::string heard_text(const control::NodeInfo& node) {
  if (node.is_away) return "AWAY";
  if (node.is_lost) return "LOST";
  return node.is_leaving ? "LEAVING" : fmt::format("{:.1f} s", node.heard_s);
}

std::string table_of(const control::ClusterStatus& status) {
  std::string text = fmt::format("head {}, up {:.0f} s, {} nodes, {} runs\n", status.version,
                                 status.up_s, status.nodes.size(), status.runs.size());
  text += fmt::format("{:>4}  {:<16} {:<20} {:>6}  {:<8} {:>9}  {}\n", "node", "host", "address",
                      "cards", "version", "heard", "processes");
  for (const control::NodeInfo& node : status.nodes) {
    text += fmt::format("{:>4}  {:<16} {:<20} {:>6}  {:<8} {:>9}  {}\n", node.node, node.name,
                        node.address, node.cards == 0 ? "any" : std::to_string(node.cards),
                        node.version, heard_text(node),
                        node.processes.empty() ? "-" : node.processes.front());
    for (size_t i = 1; i < node.processes.size(); ++i)
      text += fmt::format("{:>76}  {}\n", "", node.processes[i]);
  }
  return text;
}

std::string json_of(const control::ClusterStatus& status) {
  const double now = now_seconds();
  return observe::status_json(
      {std::make_shared<const observe::ClusterView>(view_of(status, now)), nullptr}, now);
}

/// One question to a head.
int ask_head(const ClusterCommand& command) {
  auto address = head_address(command.address);
  if (!address) return fail(address.error());
  auto options = system_options(command.access);
  if (!options) return fail(options.error());
  control::SystemConfig config(*options);
  caf::actor_system system(config);
  auto found = control::connect<actors::ClusterHeadActor>(system, *address);
  if (!found) return fail(found.error());
  caf::scoped_actor self{system};
  constexpr std::chrono::seconds k_limit{10};
  int code = 1;
  auto refused = [&](const caf::error& e) { code = fail(control::from_caf(e)); };
  if (command.stop->parsed()) {  // it has stopped when it is gone
    constexpr std::chrono::seconds k_stop_limit{20};
    self->monitor(*found);
    caf::anon_send(*found, control::stop_atom_v);
    self->receive([&](const caf::down_msg&) { code = 0; },
                  caf::after(k_stop_limit) >>
                      [&] {
                        code = fail({Errc::timeout, "the cluster's head does not end"});
                      });
  } else if (command.leave->parsed()) {
    constexpr double k_more_s = 20;
    self->request(
            *found,
            std::chrono::milliseconds(static_cast<int64_t>(1e3 * (command.drain_s + k_more_s))),
            control::leave_atom_v, static_cast<uint32_t>(command.rank),
            static_cast<uint32_t>(1e3 * command.drain_s))
        .receive(
            [&](bool) {
              code = 0;
              say(fmt::format("node {} has left", command.rank));
            },
            refused);
  } else {
    self->request(*found, k_limit, control::status_atom_v)
        .receive(
            [&](const control::ClusterStatus& status) {
              code = 0;
              std::fputs((command.is_json ? json_of(status) : table_of(status)).c_str(), stdout);
            },
            refused);
  }
  return code;
}

}  // namespace

void add_cluster_commands(CLI::App& app, ClusterCommand& command) {
  command.head = app.add_subcommand("head", "start a cluster: the place where its nodes meet");
  command.address = fmt::format("127.0.0.1:{}", k_head_port);
  command.head->add_option("--listen", command.address, "HOST:PORT to listen on")
      ->capture_default_str();
  command.head->add_flag("--no-node", command.has_no_node, "this host gives no cards");
  add_dashboard_option(*command.head, command.dashboard);
  command.join = app.add_subcommand("join", "make this host a node of a cluster");
  command.join->add_option("head", command.address, "HOST:PORT of the head")->required();
  command.join
      ->add_option("--rank", command.rank, "its number in the cluster (default: a free one)")
      ->check(CLI::Range(0, 4095));
  command.join->add_option("--wait", command.wait_s, "seconds to wait for the head")
      ->capture_default_str();
  for (CLI::App* node : {command.head, command.join})
    node->add_option("--cards", command.cards,
                     "cards of this node (default: as many as a run asks for)");
  command.leave = app.add_subcommand(
      "leave",
      "take a node out of a cluster: its runs go on without, its rollouts play to the end");
  command.leave->add_option("head", command.address, "HOST:PORT of the head")->required();
  command.leave->add_option("--rank", command.rank, "its number in the cluster")
      ->required()
      ->check(CLI::Range(0, 4095));
  command.leave
      ->add_option("--wait", command.drain_s,
                   "seconds for what is played there; then it is played again elsewhere")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  command.status = app.add_subcommand("status", "who is in a cluster, and what runs there");
  command.status->add_option("head", command.address, "HOST:PORT of the head");
  command.status->add_flag("--json", command.is_json, "for programs");
  command.stop = app.add_subcommand("stop", "end a cluster: its head and all nodes");
  command.stop->add_option("head", command.address, "HOST:PORT of the head");
  for (CLI::App* each : {command.head, command.join, command.leave, command.status, command.stop})
    add_access_options(*each, command.access);
}

int cluster_command(const ClusterCommand& command) {
  if (command.head->parsed()) return head(command);
  if (command.join->parsed()) return join(command);
  return ask_head(command);
}

int serve_rank(const RankStart& start, const ClusterAccess& access) {
  SignalThread signals;
  auto host = own_address(access, start.head);
  if (!host) return fail(host.error());
  auto ending = std::make_shared<Ending>();
  actors::ClusterAgentOptions agent = agent_options(access, *host, ending);
  agent.head = start.head;
  agent.hello.rank = start.rank;
  agent.rejoin_timeout_s = 60;  // for the run of rank 0 to come back
  agent.ends_with_run = true;
  return serve_agent(access, std::move(agent), ending, signals);
}

}  // namespace cohort
