#include "actors/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/plan/memory_model.hpp"

namespace cohort::actors {
namespace {

Expected<std::shared_ptr<const tasks::Tokenizer>> make_tokenizer(
    const config::ModelSection& model) {
  tasks::WordVocabulary vocabulary;
  if (!model.vocabulary.empty()) {
    vocabulary.specials = {"<pad>", "<|im_end|>"};
    for (const std::string& word : model.vocabulary)
      if (word != "<pad>" && word != "<|im_end|>") vocabulary.words.push_back(word);
  } else if (model.tokenizer == "frozen_lake") {
    vocabulary = tasks::frozen_lake_vocabulary();
  } else {
    return Error{
        Errc::config,
        fmt::format("model.tokenizer: no built-in vocabulary '{}'; there is frozen_lake, or give "
                    "a list of words",
                    model.tokenizer)};
  }
  COHORT_ASSIGN(auto tokenizer, tasks::make_word_tokenizer(vocabulary));
  return std::shared_ptr<const tasks::Tokenizer>(std::move(tokenizer));
}

compute::ModelConfig make_model(const config::RunConfig& config, int64_t vocab_size) {
  compute::ModelConfig model;
  model.vocab_size = vocab_size;
  model.hidden_size = config.model.hidden_size;
  model.num_hidden_layers = config.model.num_hidden_layers;
  model.num_attention_heads = config.model.num_attention_heads;
  model.num_key_value_heads = config.model.num_key_value_heads;
  model.head_dim = config.model.head_dim;
  model.intermediate_size = config.model.intermediate_size;
  model.max_position = config.sequence_length;
  model.rope_theta = config.model.rope_theta;
  model.rms_norm_eps = config.model.rms_norm_eps;
  model.initializer_range = config.model.initializer_range;
  model.attention_bias = config.model.attention_bias;
  model.tie_word_embeddings = config.model.tie_word_embeddings;
  model.dtype = config.actor_train.model_args.dtype == config::ModelDtype::bf16
                    ? tensor::Dtype::bf16
                    : tensor::Dtype::f32;
  return model;
}

Expected<std::shared_ptr<const EnvironmentOptions>> make_environment(
    const config::RunConfig& config, const std::string& tag) {
  auto entry = config.custom_envs.find(tag);
  if (entry == config.custom_envs.end())
    return Error{Errc::config, fmt::format("environment tag '{}' is not in custom_envs", tag)};
  const config::EnvTemplate& source = entry->second;
  tasks::PromptOptions prompt;
  prompt.system_template = source.agent_system_template;
  prompt.agent_template = source.agent_template;
  prompt.shows_instructions =
      !(source.env_config.env_instruction && source.env_config.env_instruction->empty());
  auto compiled = tasks::PromptTemplate::create(prompt);
  if (!compiled) return compiled.error().with_context(fmt::format("custom_envs.{}", tag));
  tasks::FrozenLakeConfig lake;
  lake.size = static_cast<int>(source.env_config.size);
  lake.p = source.env_config.p;
  lake.is_slippery = source.env_config.is_slippery;
  lake.format_penalty = static_cast<float>(source.env_config.format_penalty);
  lake.max_steps = static_cast<int>(source.max_steps);
  lake.action_pattern = source.env_config.action_pattern;
  return std::make_shared<const EnvironmentOptions>(
      EnvironmentOptions{lake, std::move(*compiled), source.env_config.env_instruction,
                         static_cast<int>(source.max_tokens_per_step)});
}

// The first prompt of a game must encode and leave room for an answer, or the run would fail at its
// first lease.
Expected<void> check_prompt(const std::string& tag,
                            const std::shared_ptr<const EnvironmentOptions>& options,
                            const tasks::Tokenizer& tokenizer, int64_t sequence_length) {
  EnvironmentState game;
  COHORT_TRY(game.configure(options));
  COHORT_ASSIGN(EnvTurn turn, game.on_reset(0));
  auto tokens = tokenizer.encode(turn.prompt);
  if (!tokens)
    return Error{
        Errc::config,
        fmt::format("custom_envs.{}: the prompt has a character that the tokenizer lacks: {}", tag,
                    tokens.error().detail)};
  if (static_cast<int64_t>(tokens->size()) >= sequence_length)
    return Error{Errc::config,
                 fmt::format("sequence_length {} leaves no room for an answer: the first prompt of "
                             "custom_envs.{} has {} tokens; set sequence_length to at least {}",
                             sequence_length, tag, tokens->size(), tokens->size() + 1)};
  return {};
}

plan::ModelShape make_shape(const compute::ModelConfig& model) {
  return {static_cast<uint64_t>(model.vocab_size),
          static_cast<uint64_t>(model.hidden_size),
          static_cast<uint64_t>(model.num_hidden_layers),
          static_cast<uint64_t>(model.num_attention_heads),
          static_cast<uint64_t>(model.num_key_value_heads),
          static_cast<uint64_t>(model.head_dim),
          static_cast<uint64_t>(model.intermediate_size),
          model.attention_bias,
          model.tie_word_embeddings};
}

std::vector<CardId> card_ids(const std::vector<uint32_t>& mapping) {
  std::vector<CardId> cards;
  for (uint32_t id : mapping) cards.push_back({id});
  std::sort(cards.begin(), cards.end());
  return cards;
}

Expected<plan::PlacementPlan> make_placement(const config::RunConfig& config,
                                             const compute::ModelConfig& model) {
  plan::ModelShape shape = make_shape(model);
  COHORT_TRY(plan::check_shape(shape));
  bool is_bf16 = model.dtype == tensor::Dtype::bf16;
  plan::TrainMemory train;
  train.param_bytes = is_bf16 ? 2 : 4;
  train.has_master = is_bf16;
  plan::InferMemory infer;
  infer.param_bytes = infer.kv_element_bytes = is_bf16 ? 2 : 4;
  // Every running trajectory may fill its whole context; a cache that does not fit is made smaller,
  // and then trajectories wait for blocks.
  infer.kv_tokens = static_cast<uint64_t>(config.max_running_requests * config.sequence_length);
  bool has_reference = config.derived.is_reference_needed;
  plan::CardSpec card{{}, config.cards.memory_bytes, config.cards.reserve_bytes};
  uint64_t fixed =
      plan::infer_bytes(shape, infer)[plan::Object::infer_params] +
      (has_reference ? plan::reference_bytes(shape, train.param_bytes)[plan::Object::ref_params]
                     : 0);
  uint64_t room = card.budget_bytes() > fixed ? card.budget_bytes() - fixed : 0;
  uint64_t fitting = plan::kv_tokens_within(shape, infer, room);
  uint64_t least = static_cast<uint64_t>(config.sequence_length * config.cards.threads_per_card);
  if (fitting >= least)
    infer.kv_tokens = std::min(infer.kv_tokens, fitting);
  else
    infer.kv_tokens = least;  // refused below, with the arithmetic
  std::vector<plan::RoleSpec> roles = {
      {"actor_train", card_ids(config.actor_train.device_mapping), plan::train_bytes(shape, train)},
      {"actor_infer", card_ids(config.actor_infer.device_mapping),
       plan::infer_bytes(shape, infer)}};
  if (has_reference)
    roles.push_back({"reference", card_ids(config.reference.device_mapping),
                     plan::reference_bytes(shape, train.param_bytes)});
  std::set<CardId> ids;
  for (const plan::RoleSpec& role : roles) ids.insert(role.cards.begin(), role.cards.end());
  std::vector<plan::CardSpec> cards;
  for (CardId id : ids) {
    card.id = id;
    cards.push_back(card);
  }
  auto mode = config.placement.mode == config::PlacementMode::separate
                  ? plan::PlacementMode::separate
                  : plan::PlacementMode::timeshare;
  return plan::plan_placement(mode, std::move(cards), std::move(roles));
}

// One train card and one reference card in this version; more of them need sharded training.
Expected<void> check_cards(const config::RunConfig& config) {
  if (config.actor_train.device_mapping.size() != 1)
    return Error{
        Errc::config,
        fmt::format("actor_train.device_mapping: {} cards; this version trains on one card (raise "
                    "cards.threads_per_card to use more cores)",
                    config.actor_train.device_mapping.size())};
  if (config.actor_infer.device_mapping.empty())
    return Error{
        Errc::config,
        "actor_infer.device_mapping: no card; give it at least one, e.g. list(range(1,2))"};
  if (config.derived.is_reference_needed && config.reference.device_mapping.size() != 1)
    return Error{
        Errc::config,
        fmt::format("reference.device_mapping: {} cards; a KL to the reference needs one card (or "
                    "set init_kl_coef=0 and use_kl_loss=false)",
                    config.reference.device_mapping.size())};
  return {};
}

std::string make_plan_json(const plan::PlacementPlan& plan, const compute::ModelConfig& model,
                           const config::RunConfig& config) {
  nlohmann::json roles = nlohmann::json::array();
  for (const plan::RoleSpec& role : plan.roles) {
    nlohmann::json bytes;
    for (const auto& [object, size] : role.bytes_per_card)
      bytes[std::string(plan::to_string(object))] = size;
    std::vector<uint32_t> cards;
    for (CardId card : role.cards) cards.push_back(card.value);
    roles.push_back({{"role", role.role}, {"cards", cards}, {"bytes_per_card", bytes}});
  }
  nlohmann::json peaks = nlohmann::json::array();
  for (const plan::PhaseBytes& peak : plan.peak_bytes)
    peaks.push_back(
        {{"card", peak.card.value}, {"phase", plan::to_string(peak.phase)}, {"bytes", peak.bytes}});
  nlohmann::json json = {{"mode", plan::to_string(plan.mode)},
                         {"card_capacity_bytes", config.cards.memory_bytes},
                         {"card_reserve_bytes", config.cards.reserve_bytes},
                         {"parameters", compute::parameter_count(compute::layout_of(model))},
                         {"roles", roles},
                         {"peak_bytes", peaks},
                         {"optimizer_steps_per_step", config.derived.optimizer_steps_per_step},
                         {"optimizer_batch", config.derived.optimizer_batch},
                         {"total_optimizer_steps", config.derived.total_optimizer_steps}};
  return json.dump(2);
}

}  // namespace

Expected<Preflight> preflight(const config::RunConfig& config) {
  Preflight result;
  COHORT_TRY(check_cards(config));
  COHORT_ASSIGN(result.tokenizer, make_tokenizer(config.model));
  result.model = make_model(config, result.tokenizer->vocab_size());
  if (auto valid = compute::validate(result.model); !valid)
    return Error{Errc::config, "model: " + valid.error().detail};
  std::set<std::string> tags(config.train_env_manager.tags.begin(),
                             config.train_env_manager.tags.end());
  tags.insert(config.val_env_manager.tags.begin(), config.val_env_manager.tags.end());
  for (const std::string& tag : tags) {
    COHORT_ASSIGN(auto options, make_environment(config, tag));
    COHORT_TRY(check_prompt(tag, options, *result.tokenizer, config.sequence_length));
    result.max_tokens_per_turn = std::max(1, options->max_response_length);
    result.environments[tag] = std::move(options);
  }
  result.stop_texts = {std::string(tasks::k_turn_end)};
  // An answer ends with its closing tag, if the tag is one token: what would follow is never read.
  if (result.tokenizer->token_id("</answer>")) result.stop_texts.emplace_back("</answer>");
  result.val_tag = config.val_env_manager.tags.front();
  tasks::SeedOptions seeds;
  seeds.run_seed = static_cast<uint64_t>(config.seed);
  seeds.validation_count = static_cast<uint32_t>(config.derived.val_groups);
  result.seeds = std::make_shared<tasks::EpisodeSeeds>(
      seeds, result.environments.at(config.train_env_manager.tags.front())->lake,
      result.environments.at(config.val_env_manager.tags.front())->lake);
  COHORT_ASSIGN(result.placement, make_placement(config, result.model));
  result.offload = config.placement.offload == config::OffloadPolicy::step
                       ? plan::OffloadPolicy::step
                       : plan::OffloadPolicy::never;
  result.plan_json = make_plan_json(result.placement, result.model, config);
  result.checkpoint_bytes =
      12 * static_cast<uint64_t>(
               compute::layout_of(result.model).total_elements);  // weights and two moments
  return result;
}

}  // namespace cohort::actors
