#include "tools/actor-node/card_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include "actors/node/card_process.hpp"
#include "runtime/base/log.hpp"
#include "runtime/config/load.hpp"
#include "runtime/control/network.hpp"
#include "tools/actor-node/role_environment.hpp"
#include "tools/actor-node/run_links.hpp"
#include "tools/actor-node/run_processes.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort {
namespace {

using control::ProcessWelcome;

constexpr std::chrono::seconds k_join_limit{30};

Expected<actors::NodeActor> find_node(caf::actor_system& system, const std::string& text) {
  COHORT_ASSIGN(control::Address address, control::parse_address(text));
  return control::connect<actors::NodeActor>(system, address);
}

Expected<ProcessWelcome> join(caf::actor_system& system, const actors::NodeActor& node,
                              const CardCommand& command) {
  caf::scoped_actor self{system};
  Expected<ProcessWelcome> welcome = Error{Errc::timeout, "the node does not answer"};
  self->request(node, k_join_limit, control::join_atom_v,
                control::ProcessHello{command.slot, ::getpid(), command.attempt})
      .receive([&](const ProcessWelcome& answer) { welcome = answer; },
               [&](const caf::error& e) { welcome = control::from_caf(e); });
  return welcome;
}

/// Where this process stands in the run: the same files as the run's node sees.
Expected<void> enter_run(const ProcessWelcome& welcome, uint32_t slot) {
  std::error_code failed;
  std::filesystem::current_path(welcome.working_folder, failed);
  if (failed)
    return Error{Errc::not_found,
                 fmt::format("{}: the run's working folder is not on {}: {}; mount shared storage "
                             "at the same path on every host",
                             welcome.working_folder, host_name(), failed.message())};
  if (!std::filesystem::exists(welcome.run_folder + "/config.yaml", failed))
    return Error{
        Errc::not_found,
        fmt::format("{}: the run's folder is not on {}: output_dir must be on storage that "
                    "every host has at the same path",
                    welcome.run_folder, host_name())};
  COHORT_TRY(
      log::open(fmt::format("{}/log/process_{}.log", welcome.run_folder, slot), log::Level::error));
  if (auto published =
          publish_waits(waits_folder(welcome.run_folder), fmt::format("card process {}", slot));
      !published)
    log::warn("waits: {}: `actor-node diagnose` will not see this process",
              published.error().detail);
  return {};
}

/// Before the platform's runtime starts: this process sees its own cards.
Expected<void> show_cards(const config::RunConfig& config, const std::vector<CardId>& cards) {
  const std::string variable(visible_variable(config.platform));
  if (variable.empty()) return {};
  const char* inherited = std::getenv(variable.c_str());
  COHORT_ASSIGN(std::string shown,
                visible_devices(inherited == nullptr ? "" : inherited, cards,
                                static_cast<uint32_t>(config.num_gpus_per_node)));
  ::setenv(variable.c_str(), shown.c_str(), 1);
  return {};
}

/// How this process is reached, and reaches others.
Expected<actors::Wires> wires_of(const ProcessWelcome& welcome, const CardCommand& command,
                                 const control::SystemOptions& system) {
  actors::Wires wires;
  wires.socket_folder = welcome.socket_folder;
  if (!wires.socket_folder.empty()) return wires;
  wires.listen_host = command.access.host;
  if (wires.listen_host.empty()) {
    COHORT_ASSIGN(control::Address node, control::parse_address(command.node));
    COHORT_ASSIGN(wires.listen_host, control::address_towards(node));
  }
  wires.is_insecure = system.is_insecure;
  if (system.credentials) wires.curve = curve_keys(*system.credentials);
  return wires;
}

Expected<void> serve(caf::actor_system& system, const control::SystemOptions& network,
                     const actors::NodeActor& node, const CardCommand& command) {
  const uint32_t slot = command.slot;
  COHORT_ASSIGN(ProcessWelcome welcome, join(system, node, command));
  COHORT_TRY(enter_run(welcome, slot));
  const LinkTeller links(waits_folder(welcome.run_folder), fmt::format("card process {}", slot));
  actors::CardProcessOptions options;
  config::LoadOptions loading;
  COHORT_ASSIGN(
      options.config,
      config::load_text(welcome.config_yaml, welcome.run_folder + "/config.yaml", {}, loading));
  std::vector<CardId> cards;
  for (uint32_t card : welcome.cards) cards.push_back({card});
  COHORT_TRY(show_cards(options.config, cards));
  COHORT_ASSIGN(options.plan, actors::preflight(options.config, cards));
  COHORT_ASSIGN(options.wires, wires_of(welcome, command, network));
  options.welcome = welcome;
  options.slot = slot;
  options.node = node;
  std::promise<std::string> ended;
  auto future = ended.get_future();
  options.on_end = [&ended](std::string reason) { ended.set_value(std::move(reason)); };
  // On a thread of its own, so that it answers pings whatever the roles compute.
  auto process = actors::spawn_card_process(system, std::move(options));
  log::info("process {}: ends, {}", slot, future.get());
  return {};
}

}  // namespace

CLI::App* add_card_command(CLI::App& app, CardCommand& command) {
  CLI::App* card = app.add_subcommand("card", "hold some cards of a run (started by `run`)");
  card->group("");
  card->add_option("--join", command.node, "host:port of the run's node")->required();
  card->add_option("--slot", command.slot, "which of the run's processes this is")->required();
  card->add_option("--attempt", command.attempt, "how many have held the slot before");
  add_access_options(*card, command.access);
  return card;
}

int card_command(const CardCommand& command) {
  auto options = system_options(command.access);
  if (!options) {
    std::fprintf(stderr, "error: process %u: %s\n", command.slot, options.error().detail.c_str());
    return 1;
  }
  control::SystemConfig config(*options);
  caf::actor_system system(config);
  auto node = find_node(system, command.node);
  Expected<void> served =
      node ? serve(system, *options, *node, command) : Expected<void>(node.error());
  if (!served) {
    std::fprintf(stderr, "error: process %u: %s\n", command.slot, served.error().detail.c_str());
    const bool is_given_up = served.error().code == Errc::denied;  // nobody waits for it any more
    if (node && !is_given_up) {
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
