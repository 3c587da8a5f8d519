#include "tools/actor-node/rescale_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/doctor/rules/rescale.hpp"

namespace cohort {
namespace {

/// One key with its old and its new value.
struct Change {
  std::string key, before, after;
};

std::string number(double value) { return fmt::format("{}", value); }

std::string text_of(const std::vector<Change>& changes, const std::vector<Change>& follow) {
  size_t width = 0;
  for (const auto* part : {&changes, &follow})
    for (const Change& x : *part) width = std::max(width, x.key.size());
  std::string text;
  for (const auto* part : {&changes, &follow})
    for (const Change& x : *part)
      text += fmt::format("{:<{}}  {} -> {}\n", x.key, width, x.before, x.after);
  text += "overrides:";
  for (const Change& x : changes) {
    bool is_plain = x.after.find_first_of(" ,[") == std::string::npos;
    text +=
        is_plain ? fmt::format(" {}={}", x.key, x.after) : fmt::format(" '{}={}'", x.key, x.after);
  }
  return text + "\n";
}

Expected<std::string> from_numbers(const RescaleCommand& command) {
  COHORT_ASSIGN(doctor::Rescaled scaled, doctor::rescale({.from = command.from,
                                                          .to = command.to,
                                                          .nodes = command.nodes,
                                                          .batch = command.batch,
                                                          .learning_rate = command.learning_rate}));
  return text_of(
      {{"batch_size", std::to_string(command.batch), std::to_string(scaled.batch)},
       {"learning_rate", number(command.learning_rate), number(scaled.learning_rate)},
       {"world_size", std::to_string(uint64_t{command.from} * command.nodes),
        std::to_string(scaled.world_size)},
       {"nproc_per_node", std::to_string(command.from), std::to_string(scaled.nproc_per_node)}},
      {});
}

/// The first `to` of each node's cards of a mapping, or an error when a node has not `from`.
Expected<std::vector<uint32_t>> cut_mapping(const RescaleCommand& command,
                                            const config::RunConfig& config) {
  const auto& mapping = config.actor_train.device_mapping;
  if (command.to > command.from)
    return Error{Errc::config,
                 fmt::format("rescale: from {} to {} cards: name the new cards yourself, with "
                             "actor_train.device_mapping=…, then give --batch and --lr",
                             command.from, command.to)};
  if (mapping.size() != size_t{command.from} * command.nodes)
    return Error{Errc::config,
                 fmt::format("rescale: actor_train has {} cards, not --from {} times --nnodes {}; "
                             "cards per node that fit: {}",
                             mapping.size(), command.from, command.nodes,
                             mapping.size() % command.nodes == 0
                                 ? std::to_string(mapping.size() / command.nodes)
                                 : "none: another --nnodes")};
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < mapping.size(); ++i)
    if (i % command.from < command.to) kept.push_back(mapping[i]);
  return kept;
}

std::string list_text(const std::vector<uint32_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

/// ROLL: P and A stay, so the optimizer batch P*A*D shrinks with the cards; rollout_batch_size
/// shrinks with it, so that a step keeps its number of optimizer steps.
Expected<std::string> from_roll(const RescaleCommand& command, const config::RunConfig& config) {
  COHORT_ASSIGN(std::vector<uint32_t> kept, cut_mapping(command, config));
  const auto& training = config.actor_train.training_args;
  bool is_agentic = config.pipeline == config::Pipeline::agentic;
  auto unit = is_agentic ? std::max<int64_t>(config.train_env_manager.group_size, 1) : 1;
  auto scale = [&](int64_t batch, int64_t multiple) {
    return doctor::rescale({.from = command.from,
                            .to = command.to,
                            .nodes = command.nodes,
                            .batch = static_cast<uint64_t>(std::max<int64_t>(batch, 0)),
                            .learning_rate = training.learning_rate,
                            .unit = static_cast<uint64_t>(multiple)});
  };
  auto rollout = scale(config.rollout_batch_size, unit);
  if (!rollout) return rollout.error().with_context("rollout_batch_size");
  auto optimizer = scale(config.derived.optimizer_batch, 1);
  if (!optimizer) return optimizer.error().with_context("optimizer batch");
  return text_of({{"actor_train.device_mapping", list_text(config.actor_train.device_mapping),
                   list_text(kept)},
                  {"rollout_batch_size", std::to_string(config.rollout_batch_size),
                   std::to_string(rollout->batch)},
                  {"actor_train.training_args.learning_rate", number(training.learning_rate),
                   number(optimizer->learning_rate)}},
                 {{"optimizer batch P*A*D", std::to_string(config.derived.optimizer_batch),
                   std::to_string(optimizer->batch)},
                  {"world_size", std::to_string(uint64_t{command.from} * command.nodes),
                   std::to_string(optimizer->world_size)},
                  {"nproc_per_node", std::to_string(command.from),
                   std::to_string(optimizer->nproc_per_node)}});
}

/// verl: prompts per step and per optimizer step, and the cards of the one pool.
Expected<std::string> from_verl(const RescaleCommand& command, const config::RunConfig& config) {
  double rate = config.actor_train.training_args.learning_rate;
  auto scale = [&](int64_t batch) {
    return doctor::rescale({.from = command.from,
                            .to = command.to,
                            .nodes = command.nodes,
                            .batch = static_cast<uint64_t>(std::max<int64_t>(batch, 0)),
                            .learning_rate = rate});
  };
  auto train = scale(config.rollout_batch_size);
  if (!train) return train.error().with_context("data.train_batch_size");
  auto mini = scale(config.verl.ppo_mini_batch_size);
  if (!mini) return mini.error().with_context("actor_rollout_ref.actor.ppo_mini_batch_size");
  return text_of(
      {{"trainer.n_gpus_per_node", std::to_string(command.from), std::to_string(command.to)},
       {"data.train_batch_size", std::to_string(config.rollout_batch_size),
        std::to_string(train->batch)},
       {"actor_rollout_ref.actor.ppo_mini_batch_size",
        std::to_string(config.verl.ppo_mini_batch_size), std::to_string(mini->batch)},
       {"actor_rollout_ref.actor.optim.lr", number(rate), number(mini->learning_rate)}},
      {{"world_size", std::to_string(uint64_t{command.from} * command.nodes),
        std::to_string(mini->world_size)}});
}

}  // namespace

CLI::App* add_rescale_command(CLI::App& app, RescaleCommand& command) {
  CLI::App* rescale =
      app.add_subcommand("rescale", "batch and learning rate for another number of cards");
  rescale->add_option("config", command.config.path, "YAML file; else give --batch and --lr");
  rescale->add_option("overrides", command.config.overrides, "key=value changes");
  rescale->add_option("--dialect", command.config.dialect, "roll or verl")->capture_default_str();
  rescale->add_option("--from", command.from, "cards of one node that the settings are for")
      ->required();
  rescale->add_option("--to", command.to, "cards of one node to run on")->required();
  rescale->add_option("--nnodes", command.nodes, "nodes")->capture_default_str();
  rescale->add_option("--batch", command.batch, "global batch of one optimizer step");
  rescale->add_option("--lr", command.learning_rate, "learning rate");
  rescale->footer(
      "b' = b*k'/k, lr' = lr*b'/b, world_size = k'*nnodes. Prints old -> new and the "
      "overrides to paste.");
  return rescale;
}

Expected<std::string> rescale_text(const RescaleCommand& command) {
  if (command.from == 0 || command.nodes == 0)
    return Error{Errc::config, "rescale: --from and --nnodes are 1 or more"};
  if (!command.config.is_given()) {
    if (command.batch == 0 || !(command.learning_rate > 0))
      return Error{Errc::config, "rescale: give a CONFIG, or --batch and --lr above 0"};
    return from_numbers(command);
  }
  COHORT_ASSIGN(config::RunConfig config, load_words(command.config));
  return config.dialect == config::Dialect::verl ? from_verl(command, config)
                                                 : from_roll(command, config);
}

int rescale_command(const RescaleCommand& command) {
  auto text = rescale_text(command);
  if (!text) {
    std::fprintf(stderr, "error: %s\n", text.error().detail.c_str());
    return 2;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace cohort
