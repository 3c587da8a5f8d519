#include "tools/actor-node/card_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <caf/io/all.hpp>
#include <csignal>
#include <cstdio>
#include <future>
#include <thread>

#include "actors/card_process.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/system.hpp"
#include "runtime/platform/child_processes.hpp"
#include "tools/actor-node/plan_input.hpp"

namespace cohort {
namespace {

using control::ProcessWelcome;

constexpr std::chrono::seconds k_join_limit{30};

Expected<actors::NodeActor> find_node(caf::actor_system& system, const std::string& address) {
  size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  auto port = static_cast<uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10));
  auto node = system.middleman().remote_actor<actors::NodeActor>(host, port);
  if (!node)
    return Error{Errc::closed, fmt::format("no node at {}: {}", address,
                                           control::from_caf(node.error()).to_string())};
  return *node;
}

Expected<ProcessWelcome> join(caf::actor_system& system, const actors::NodeActor& node,
                              uint32_t slot) {
  caf::scoped_actor self{system};
  Expected<ProcessWelcome> welcome = Error{Errc::timeout, "the node does not answer"};
  self->request(node, k_join_limit, control::join_atom_v, control::ProcessHello{slot, ::getpid()})
      .receive([&](const ProcessWelcome& answer) { welcome = answer; },
               [&](const caf::error& e) { welcome = control::from_caf(e); });
  return welcome;
}

Expected<void> serve(caf::actor_system& system, const actors::NodeActor& node, uint32_t slot) {
  COHORT_ASSIGN(ProcessWelcome welcome, join(system, node, slot));
  COHORT_TRY(
      log::open(fmt::format("{}/log/process_{}.log", welcome.run_folder, slot), log::Level::error));
  actors::CardProcessOptions options;
  PlanInput input;
  input.config_path = welcome.run_folder + "/config.yaml";
  COHORT_ASSIGN(options.config, load_config(input, true));
  COHORT_ASSIGN(options.plan, actors::preflight(options.config));
  options.welcome = welcome;
  options.slot = slot;
  options.node = node;
  std::promise<std::string> ended;
  auto future = ended.get_future();
  options.on_end = [&ended](std::string reason) { ended.set_value(std::move(reason)); };
  auto process = system.spawn(actors::card_process, std::move(options));
  log::info("process {}: ends, {}", slot, future.get());
  return {};
}

}  // namespace

CLI::App* add_card_command(CLI::App& app, CardCommand& command) {
  CLI::App* card = app.add_subcommand("card", "hold some cards of a run (started by `run`)");
  card->group("");
  card->add_option("--join", command.node, "host:port of the run's node")->required();
  card->add_option("--slot", command.slot, "which of the run's processes this is")->required();
  card->add_option("--parent", command.parent, "pid of the process that starts this one")
      ->required();
  return card;
}

int card_command(const CardCommand& command) {
  if (auto alive = platform::die_with_parent(command.parent); !alive) return 1;
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the whole group; the node decides what it means
  control::SystemOptions options;
  options.scheduler_threads = 1;
  options.has_network = true;
  control::SystemConfig config(options);
  caf::actor_system system(config);
  auto node = find_node(system, command.node);
  Expected<void> served = node ? serve(system, *node, command.slot) : Expected<void>(node.error());
  if (!served) {
    std::fprintf(stderr, "error: process %u: %s\n", command.slot, served.error().detail.c_str());
    if (node) {
      caf::scoped_actor self{system};
      self->send(*node, control::fail_atom_v,
                 control::Failure{fmt::format("process {}", command.slot), "start",
                                  served.error().to_string()});
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the broker's time to write
    }
  }
  log::flush();
  // Nothing here outlives the run: no need to take its links and engines apart.
  std::_Exit(served ? 0 : 1);
}

}  // namespace cohort
