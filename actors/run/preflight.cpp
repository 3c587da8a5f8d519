#include "actors/run/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "actors/roles/plugin_spec.hpp"
#include "actors/run/recorded_groups.hpp"
#include "actors/run/task_source.hpp"
#include "actors/run/tool_loop.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/model/model_tp.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/config/env_manager.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "runtime/job/job_json.hpp"
#include "runtime/job/job_spec.hpp"
#include "runtime/job/policy.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/model/lora_file.hpp"
#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/child/plugin_environment.hpp"
#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/tasks/frozen_lake.hpp"
#include "runtime/tasks/worlds.hpp"

namespace cohort::actors {

using namespace job;

namespace {

/// env_config's own keys: those that the schema has for the built-in worlds, or the entry's `args`.
tasks::WorldOptions world_of(const config::EnvTemplate& source) {
  const config::EnvConfigSection& e = source.env_config;
  nlohmann::json own = nlohmann::json::parse(e.plugin.args, nullptr, false);
  if (source.env_type == config::EnvType::frozen_lake)
    own = {{"size", e.size}, {"p", e.p}, {"is_slippery", e.is_slippery}};
  else if (source.env_type == config::EnvType::sokoban)
    own = {{"dim_room", e.dim_room},
           {"num_boxes", e.num_boxes},
           {"search_depth", e.search_depth},
           {"grid_lookup", e.grid_lookup},
           {"grid_vocab", e.grid_vocab}};
  return {static_cast<int>(source.max_steps), static_cast<float>(e.format_penalty),
          e.action_pattern, own.dump()};
}

/// What gem.make() of a package makes, or the agent that acts in its place.
plugin::GemWorld world_of_package(const config::EnvTemplate& source) {
  const config::PluginSection& p = source.env_config.plugin;
  plugin::GemWorld world{source.env_type_name, p.args, source.tool_wrapper, p.modules,
                         p.pythonpath};
  const bool is_of_roll = source.env_type == config::EnvType::package;
  if (world.modules.empty() && is_of_roll) world.modules = {"roll.pipeline.agentic.env"};
  if (!config::has_agent_runner(source)) return world;
  world.agent_runner = source.agent_runner_cls;
  world.entry = nlohmann::json{{"env_type", source.env_type_name},
                               {"max_steps", source.max_steps},
                               {"max_tokens_per_step", source.max_tokens_per_step},
                               {"agent_system_template", source.agent_system_template},
                               {"agent_template", source.agent_template}}
                    .dump();
  return world;
}

/// What child processes play: the user's plugin, a world of a package, an agent.
Expected<plugin::PluginSpec> hosted_world(const config::EnvTemplate& source) {
  plugin::PluginSpec spec;
  fill_plugin_spec(source.env_config.plugin, spec);
  spec.max_steps = static_cast<int>(source.max_steps);
  spec.is_dialogue = config::env_manager_of(source) == config::EnvManager::dialogue;
  if (config::is_of_gem(source.env_type)) {
    COHORT_TRY(plugin::fill_gem_spec(world_of_package(source), spec));
    return spec;
  }
  if (source.env_config.plugin.path.empty())
    return Error{Errc::config, "env_config.plugin: missing; give path.py:Class or path.so"};
  spec.plugin = source.env_config.plugin.path;
  return spec;
}

Expected<void> choose_world(const config::EnvTemplate& source, EnvironmentOptions& options) {
  using World = std::unique_ptr<tasks::Environment>;
  if (!config::is_hosted(source.env_type)) {
    const tasks::WorldOptions world = world_of(source);
    COHORT_TRY(tasks::make_world(source.env_type, world));
    options.make = [type = source.env_type, world] { return tasks::make_world(type, world); };
    if (source.env_type == config::EnvType::frozen_lake) {
      COHORT_ASSIGN(tasks::Options own, tasks::Options::parse("frozen_lake", world.own));
      options.lake = tasks::lake_of(world, own);
    }
  } else {
    COHORT_ASSIGN(const plugin::PluginSpec spec, hosted_world(source));
    COHORT_ASSIGN(auto worlds, plugin::open_environment(spec));
    options.is_blocking = true;
    options.call_limit_s = spec.timeout_s;
    options.processes = spec.workers;
    options.reload = [worlds] { return worlds->reload(); };
    options.make = [worlds]() -> Expected<World> { return worlds->make(); };
  }
  return {};
}

Expected<void> choose_prompt(const config::EnvTemplate& source, EnvironmentOptions& options) {
  options.writes_dialogues = config::env_manager_of(source) == config::EnvManager::dialogue;
  if (options.writes_dialogues) return {};
  if (config::asks_anew(source)) {
    using enum tasks::StepHistory;
    const bool is_concat = config::env_manager_of(source) == config::EnvManager::step_concat;
    COHORT_ASSIGN(options.step_prompt,
                  tasks::StepPrompt::create({source.agent_system_template, source.agent_template,
                                             is_concat ? observations : actions,
                                             static_cast<size_t>(source.history_length)}));
    return {};
  }
  tasks::PromptOptions prompt;
  prompt.system_template = source.agent_system_template;
  prompt.agent_template = source.agent_template;
  prompt.shows_instructions =
      !(source.env_config.env_instruction && source.env_config.env_instruction->empty());
  COHORT_ASSIGN(options.prompt, tasks::PromptTemplate::create(prompt));
  return {};
}

Expected<std::shared_ptr<const EnvironmentOptions>> make_environment(
    const config::RunConfig& config, const std::string& tag, const Preflight& plan) {
  auto entry = config.custom_envs.find(tag);
  if (entry == config.custom_envs.end())
    return Error{Errc::config, fmt::format("environment tag '{}' is not in custom_envs", tag)};
  const config::EnvTemplate& source = entry->second;
  EnvironmentOptions options;
  if (auto compiled = choose_prompt(source, options); !compiled)
    return compiled.error().with_context(fmt::format("custom_envs.{}", tag));
  if (auto chosen = choose_world(source, options); !chosen)
    return chosen.error().with_context(fmt::format("custom_envs.{}", tag));
  options.chat = plan.chat;
  options.instructions = source.env_config.env_instruction;
  options.max_response_length = static_cast<int>(source.max_tokens_per_step);
  if (!options.writes_dialogues) add_tools(config, plan.tools, options);  // else it has its own
  return std::make_shared<const EnvironmentOptions>(std::move(options));
}

// The first prompt of a game must encode and leave room for an answer, or the run would fail at its
// first lease.
Expected<void> check_prompt(const std::string& tag,
                            const std::shared_ptr<const EnvironmentOptions>& options,
                            int64_t sequence_length) {
  EnvironmentState game;
  COHORT_TRY(game.configure(options));
  auto turn = game.on_reset(0);
  if (!turn)
    return Error{Errc::config, fmt::format("custom_envs.{}: {}", tag, turn.error().detail)};
  const size_t tokens = turn->prompt.size();
  if (static_cast<int64_t>(tokens) >= sequence_length)
    return Error{Errc::config,
                 fmt::format("sequence_length {} leaves no room for an answer: the first prompt of "
                             "custom_envs.{} has {} tokens; set sequence_length to at least {}",
                             sequence_length, tag, tokens, tokens + 1)};
  return {};
}

// What the p2p line of the plan's reshard table counts, with its transfers.
Expected<void> plan_weights(const job::Job& job, const compute::ModelConfig& model,
                            const job::ZeroSettings& zero, Preflight& result) {
  constexpr uint64_t k_bucket_bytes = uint64_t{64} << 20;  // two of them are staged on a card
  const plan::PlacementPlan& placed = result.placement;
  plan::ModelTensors tensors =
      plan::reshard_tensors_of(model, tensor::size_of(result.published_dtype()), result.lora);
  plan::ReshardOptions options;
  options.bucket_bytes = std::min(job.spec.update_bucket_bytes, k_bucket_bytes);
  plan::ShardLayout from;
  from.name = "train";
  from.ranks = placed.find(Role::actor_train)->cards;
  from.dp = static_cast<uint32_t>(from.ranks.size());
  from.ep = zero.expert_ways;
  from.zero_stage = zero.stage >= 3 ? 3 : 0;
  for (const plan::RoleJob& role : job.spec.roles) {
    if (role.cards.empty() || (role.name != Role::actor_infer && role.name != Role::reference) ||
        role.has_own_weights)
      continue;
    plan::ShardLayout to;
    to.name = role.name;
    to.ranks = placed.find(role.name)->cards;
    to.tp = role.tp;
    to.expert_tp = model.moe ? role.tp : 1;  // each expert is cut, none is left out
    to.dp = static_cast<uint32_t>(to.ranks.size()) / role.tp;
    COHORT_ASSIGN(plan::ReshardPlan plan, plan::plan_reshard(tensors, from, to, options));
    result.weights[role.name] = std::make_shared<const plan::ReshardPlan>(std::move(plan));
  }
  return {};
}

// A replica of the rollout may be several cards.
Expected<void> check_tensor_parallel(const job::Job& job, const compute::ModelConfig& model) {
  const auto role = std::ranges::find(job.spec.roles, "actor_infer", &plan::RoleJob::name);
  if (role == job.spec.roles.end()) return {};
  const uint32_t tp = role->tp;
  auto part = compute::tp_config(model, static_cast<int>(tp));
  if (part) return {};
  std::string hint;
  const auto vocab = static_cast<uint64_t>(model.vocab_size);
  if (vocab % tp != 0)
    hint = fmt::format("; model.vocab_size={} would do (rows above the tokenizer's stay unused)",
                       (vocab + tp - 1) / tp * tp);
  return Error{Errc::config,
               "actor_infer.strategy_args.strategy_config: " + part.error().detail + hint};
}

// The job that `actor-node plan` shows is the one that runs: same roles, same bytes.
Expected<void> plan_run(const config::RunConfig& config, Preflight& result) {
  job::JobOptions options;
  options.card = "cpu";
  options.vocab_size = result.model.vocab_size;
  options.lora = result.lora;
  for (const std::string& name : job::model_names(config)) options.models[name] = result.model;
  for (const auto& frozen : {result.reference, result.teacher})
    if (frozen) options.models[frozen->folder] = frozen->model;
  if (const std::string start = config::critic_start(config); result.critic && !start.empty())
    options.models[start] = result.critic->model;
  for (const auto& [role, score] : result.score_models)
    options.models[score.weights.folder] = score.weights.model;
  for (const auto& [role, judge] : result.judges) options.models[judge.folder] = judge.model;
  COHORT_ASSIGN(job::Job job, job::job_of(config, options));
  COHORT_ASSIGN(plan::JobPlan plan, plan::plan_job(job.spec));
  COHORT_TRY(plan::check_capacity(plan.placement));
  for (const plan::RoleSpec& role : plan.placement.roles)
    if (!role_of(role.role) && !result.score_models.contains(role.role) &&
        !result.judges.contains(role.role))
      return Error{Errc::config,
                   fmt::format("{}.device_mapping: a role with cards of its own is planned, not "
                               "run by this version; remove the key",
                               role.role)};
  result.plan_json = job::job_json(config, job, plan).dump(2);
  result.placement = std::move(plan.placement);
  result.offload = job.spec.offload;
  COHORT_TRY(check_tensor_parallel(job, result.model));
  return plan_weights(job, result.model, job::zero_of(config, config.actor_train), result);
}

// A process that has all cards sees as many devices: 0 to the highest that a role has.
std::vector<CardId> all_cards(const plan::PlacementPlan& placement) {
  std::vector<CardId> cards;
  for (const auto& role : placement.roles)
    for (CardId card : role.cards)
      for (auto next = static_cast<uint32_t>(cards.size()); next <= card.value; ++next)
        cards.push_back({next});
  return cards;
}

/// The devices of the platforms cuda and npu: the first card is the first device that this process
/// sees, and so on; empty on the cpu platform, where the host plays them. Returns Errc::config
/// naming the key, what the backend lacks and what to do.
Expected<std::map<CardId, std::shared_ptr<compute::Device>>> open_card_devices(
    const config::RunConfig& config, const std::vector<CardId>& cards) {
  std::map<CardId, std::shared_ptr<compute::Device>> devices;
  if (config.platform == config::Platform::cpu) return devices;
  const auto kind = config.platform == config::Platform::cuda ? compute::DeviceKind::cuda
                                                              : compute::DeviceKind::npu;
  const auto origin = config.origins.find("platform");
  for (size_t index = 0; index < cards.size(); ++index) {
    auto device = compute::open_device(kind, static_cast<int>(index));
    if (!device)
      return Error{Errc::config,
                   fmt::format("{}platform: {}; platform=cpu runs on this host",
                               origin == config.origins.end() ? "" : origin->second + ": ",
                               device.error().detail)};
    devices[cards[index]] = std::move(*device);
  }
  return devices;
}

// What load() accepts, and plans, is more than what this version runs.
Expected<void> check_built(const config::RunConfig& config) {
  std::string text;
  for (const config::Note& note : config::not_built(config))
    text += fmt::format("{}{}{}{}: {}", text.empty() ? "" : "\n", note.where,
                        note.where.empty() ? "" : ": ", note.key, note.text);
  if (!text.empty()) return Error{Errc::config, text};
  return {};
}

Expected<void> check_files(const config::RunConfig& config) {
  std::error_code failure;
  if (config.pretrain.empty() || config.pretrain.starts_with(model::k_random) ||
      std::filesystem::is_directory(config.pretrain, failure))
    return {};
  return Error{Errc::config,
               fmt::format("{}: no folder '{}' (nothing is downloaded: give a local folder with "
                           "config.json and safetensors, or random:<model>)",
                           job::pretrain_key(config), config.pretrain)};
}

Expected<void> check_cards(const config::RunConfig& config) {
  const bool has_role =
      !config::has_adapter(config.actor_train.model_args) || !config::own_reference(config).empty();
  if (config.derived.is_reference_needed && has_role && config.reference.device_mapping.empty())
    return Error{
        Errc::config,
        "reference.device_mapping: no card; a KL to the reference needs one (or set init_kl_coef=0 "
        "and use_kl_loss=false)"};
  return {};
}

// The headers of a folder's files: what the engine would refuse when the cards are taken.
Expected<void> check_weights(const std::string& key, const std::string& folder,
                             const compute::ModelConfig& model,
                             model::HeadKind head = model::HeadKind::language) {
  if (folder.empty() || folder.starts_with(model::k_random)) return {};
  auto weights = compute::WeightFolder::open(folder);
  if (!weights) return Error{Errc::config, key + ": " + weights.error().detail};
  const auto fits = head == model::HeadKind::value
                        ? weights->check_values(model)
                        : weights->check(model, compute::layout_of(model));
  if (!fits) return Error{Errc::config, key + ": " + fits.error().detail};
  return {};
}

// One dtype for all roles; a folder's weights are converted when they are read.
Expected<void> choose_frozen(const config::RunConfig& config, const job::Policy& policy, Role role,
                             Preflight& result) {
  COHORT_ASSIGN(const auto found, job::frozen_model_of(config, policy, role));
  if (!found) return {};
  compute::ModelConfig model = {found->shape, result.model.dtype};
  model.max_position = result.model.max_position;
  if (auto valid = compute::validate(model); !valid)
    return Error{Errc::config, found->folder + ": " + valid.error().detail};
  COHORT_TRY(check_weights(job::frozen_key(config, role), found->folder, model));
  (role == Role::teacher ? result.teacher : result.reference) = {
      std::move(model), found->folder, {}};
  return {};
}

// Likewise.
Expected<void> choose_critic(const config::RunConfig& config, const job::Policy& policy,
                             Preflight& result) {
  if (config.derived.critic.optimizer_batch == 0) return {};
  COHORT_ASSIGN(job::CriticStart start, job::critic_start_of(config, policy));
  compute::ModelConfig model = {start.shape, result.model.dtype};
  model.max_position = result.model.max_position;
  if (auto valid = compute::validate(model); !valid)
    return Error{Errc::config, job::critic_key(config) + ": " + valid.error().detail};
  COHORT_TRY(check_weights(job::critic_key(config), start.folder, model, model::HeadKind::value));
  result.critic = {std::move(model), std::move(start.folder), std::move(start.file)};
  return {};
}

/// The ids of a reward model: those of its folder's tokenizer, else the words of the policy.
Expected<std::shared_ptr<const tasks::Tokenizer>> score_tokenizer(const std::string& folder,
                                                                  const model::HfConfig& file,
                                                                  const job::Policy& policy) {
  std::error_code failure;
  for (const std::string& each : {folder, file.name_or_path}) {
    if (each.empty() || !std::filesystem::is_regular_file(each + "/tokenizer.json", failure))
      continue;
    COHORT_ASSIGN(const auto own, tasks::FolderTokenizer::open(each));
    return std::shared_ptr<const tasks::Tokenizer>(own);
  }
  if (policy.file.name_or_path.empty()) return policy.tokenizer;
  return Error{Errc::config,
               fmt::format("{} has no tokenizer.json; copy the one that it was trained with into "
                           "it",
                           folder)};
}

Expected<Preflight::ScoreModel> open_score_model(const config::RunConfig& config,
                                                 const std::string& role,
                                                 const config::WorkerConfig& worker,
                                                 const job::Policy& policy,
                                                 const compute::ModelConfig& of_policy) {
  const std::string& own = worker.model_args.model_name_or_path;
  const std::string folder = own.empty() ? config.reward_pretrain : own;
  std::error_code failure;
  if (!std::filesystem::is_regular_file(folder + "/config.json", failure))
    return Error{Errc::config,
                 fmt::format("no folder '{}' with a config.json (nothing is downloaded); give the "
                             "folder of a classifier, e.g. what `actor-node export` makes of a run "
                             "of pipeline rm",
                             folder)};
  COHORT_ASSIGN(const model::HfConfig file, model::read_hf_folder(folder));
  if (file.head == model::HfConfig::Head::language || file.labels != 1)
    return Error{Errc::config,
                 fmt::format("{}/config.json: {}; a reward model is a classifier of one label "
                             "(pipeline rm trains one)",
                             folder,
                             file.head == model::HfConfig::Head::language
                                 ? "a language model"
                                 : fmt::format("a classifier of {} labels", file.labels))};
  compute::ModelConfig model = {file.shape, of_policy.dtype};
  // Its tokenizer may need more tokens than the policy's.
  constexpr int64_t k_longer = 4;
  const int64_t tokens_max =
      std::min(std::max<int64_t>(file.shape.max_position, 1), k_longer * config.sequence_length);
  model.max_position = tokens_max + 1;  // scored_tokens.hpp
  COHORT_TRY(compute::validate(model));
  COHORT_ASSIGN(const compute::WeightFolder weights, compute::WeightFolder::open(folder));
  COHORT_TRY(weights.check_values(model));
  if (weights.find("score.weight") == nullptr)
    return Error{Errc::config, folder + ": no tensor score.weight"};
  COHORT_ASSIGN(auto tokenizer, score_tokenizer(folder, file, policy));
  if (file.shape.vocab_size < tokenizer->vocab_size())
    return Error{Errc::config,
                 fmt::format("{}/config.json: vocab_size {} is below the {} ids of its tokenizer",
                             folder, file.shape.vocab_size, tokenizer->vocab_size())};
  COHORT_ASSIGN(RowEncoder encode, row_encoder_of(config, worker.data_args, role + ".data_args",
                                                  std::move(tokenizer)));
  return Preflight::ScoreModel{{std::move(model), folder, file}, std::move(encode), tokens_max};
}

Expected<void> open_score_models(const config::RunConfig& config, const job::Policy& policy,
                                 Preflight& result) {
  for (const auto& [name, reward] : config.rewards) {
    if (reward.type != config::RewardType::reward_model) continue;
    const std::string role = "rewards." + name;
    auto opened = open_score_model(config, role, reward.worker, policy, result.model);
    if (!opened)
      return Error{Errc::config, role + ".model_args.model_name_or_path: " + opened.error().detail};
    result.score_models[role] = std::move(*opened);
  }
  return {};
}

// Of the keys, or of the adapter that the run starts from.
Expected<void> choose_lora(const config::RunConfig& config, Preflight& result) {
  const std::string& folder = config.actor_train.model_args.adapter_name_or_path;
  if (folder.empty()) {
    COHORT_ASSIGN(result.lora, job::lora_of(config, result.model));
    return {};
  }
  constexpr const char* k_key = "actor_train.model_args.adapter_name_or_path: ";
  const std::string path = folder + "/adapter_config.json";
  auto text = read_file(path, uintmax_t{1} << 20);
  if (!text) return Error{Errc::config, k_key + text.error().detail};
  auto found = model::parse_adapter_config(*text, path);
  if (!found) return Error{Errc::config, k_key + found.error().detail};
  auto lora = model::resolve_lora(result.model, *std::move(found));
  if (!lora) return Error{Errc::config, k_key + path + ": " + lora.error().detail};
  result.lora = *std::move(lora);
  return {};
}

// Of the lakes among the held-out worlds no map is trained on (TASK-3).
std::shared_ptr<const tasks::EpisodeSeeds> make_seeds(const config::RunConfig& config,
                                                      const Preflight& plan) {
  tasks::SeedOptions seeds;
  seeds.run_seed = static_cast<uint64_t>(config.seed);
  seeds.validation_count = static_cast<uint32_t>(config.derived.val_groups);
  const auto& train = plan.environments.at(config.train_env_manager.tags.front())->lake;
  for (const std::string& tag : config.val_env_manager.tags)
    if (const auto& held_out = plan.environments.at(tag)->lake; train && held_out)
      return std::make_shared<tasks::EpisodeSeeds>(seeds, *train, *held_out);
  return std::make_shared<tasks::EpisodeSeeds>(seeds);
}

Expected<void> open_environments(const config::RunConfig& config, Preflight& result) {
  std::set<std::string> tags(config.train_env_manager.tags.begin(),
                             config.train_env_manager.tags.end());
  tags.insert(config.val_env_manager.tags.begin(), config.val_env_manager.tags.end());
  for (const std::string& tag : tags) {
    COHORT_ASSIGN(auto options, make_environment(config, tag, result));
    COHORT_TRY(check_prompt(tag, options, config.sequence_length));
    result.environments[tag] = std::move(options);
  }
  result.seeds = make_seeds(config, result);
  return {};
}

Expected<void> open_prompts(const config::RunConfig& config, Preflight& result) {
  COHORT_ASSIGN(result.prompts, PromptSet::open(config, result.chat));
  if (config.opd.is_self) {
    COHORT_ASSIGN(result.hints, TeacherHints::open(config, *result.prompts, *result.tokenizer));
    if (result.hints->cut() > 0)
      log::warn(
          "opsd_mode: {} of {} solutions are cut: they, and the longest answer, fill "
          "sequence_length {} or opsd_max_solution_length {}",
          result.hints->cut(), result.prompts->train_rows(), config.sequence_length,
          config.opd.solution_tokens);
  }
  // Told before the run: a domain with too few rows, a warm start without answers.
  COHORT_TRY(make_prompt_tasks(config, result.prompts));
  EnvironmentOptions options;
  options.make = [prompts = result.prompts] {
    return Expected<std::unique_ptr<tasks::Environment>>(make_prompt_world(prompts));
  };
  options.max_response_length = static_cast<int>(config.actor_infer.generating_args.max_new_tokens);
  add_tools(config, result.tools, options);
  auto shared = std::make_shared<const EnvironmentOptions>(std::move(options));
  for (const auto& [name, reward] : config.rewards) result.environments[name] = shared;
  return {};
}

// Told before the run: fewer rows than an optimizer batch.
Expected<void> open_rows(const config::RunConfig& config, Preflight& result) {
  COHORT_ASSIGN(result.rows, RowSet::open(config, result.tokenizer));
  COHORT_TRY(make_row_tasks(config, result.rows));
  result.row_steps = result.rows->steps_of(config);
  const RowCounts& counts = result.rows->counts();
  log::info(
      "rows: {} to train on, {} held out; {} cannot be read, {} are cut at {} tokens, {} of "
      "them lose their end, {} count nothing",
      result.rows->train_rows(), result.rows->size() - result.rows->train_rows(), counts.bad,
      counts.truncated, config.sequence_length, counts.without_end, counts.uncounted);
  return {};
}

// Told before the run: a stream without the groups of a step.
Expected<void> open_recorded(const config::RunConfig& config, Preflight& result) {
  if (config.from_stream.empty()) return {};
  COHORT_ASSIGN(result.recorded, RecordedGroups::open(config));
  log::info("from_stream: {}: {} steps", config.from_stream, result.recorded->steps());
  return {};
}

}  // namespace

plan::ShardLayout Preflight::infer_layout() const {
  const auto found = weights.find("actor_infer");
  return found == weights.end() ? plan::ShardLayout{} : found->second->to;
}

Expected<Preflight> preflight(const config::RunConfig& config,
                              const std::optional<std::vector<CardId>>& own_cards) {
  Preflight result;
  COHORT_TRY(check_built(config));
  COHORT_TRY(check_files(config));
  COHORT_TRY(check_cards(config));
  if (auto engine = compute::engine_named(config.actor_infer.engine); !engine)
    return engine.error().with_context("actor_infer.engine");
  COHORT_ASSIGN(const std::shared_ptr<tasks::ToolLoop> loop, open_tool_loop(config));
  COHORT_ASSIGN(job::Policy policy, job::policy_of(config, shown_tools(config, loop.get())));
  for (const std::string& notice : policy.notices) log::info("pretrain: {}", notice);
  result.tokenizer = policy.tokenizer;
  result.described = policy.file;
  result.chat = policy.chat;
  if (loop) COHORT_TRY(complete_tool_loop(config, policy.tokenizer, policy.chat, *loop));
  result.tools = loop;
  const bool is_bf16 = config.actor_train.model_args.dtype == config::ModelDtype::bf16;
  result.model = {policy.shape, is_bf16 ? tensor::Dtype::bf16 : tensor::Dtype::f32};
  result.head =
      config.pipeline == config::Pipeline::rm ? model::HeadKind::value : model::HeadKind::language;
  // A value is asked for as that of the token behind it (pair_update.hpp).
  const int64_t behind = result.head == model::HeadKind::value ? 1 : 0;
  result.model.max_position = config.sequence_length + behind;
  if (auto valid = compute::validate(result.model); !valid)
    return Error{Errc::config, "model: " + valid.error().detail};
  COHORT_TRY(check_weights(job::pretrain_key(config), config.pretrain, result.model, result.head));
  for (const Role role : {Role::reference, Role::teacher})
    COHORT_TRY(choose_frozen(config, policy, role, result));
  COHORT_TRY(choose_critic(config, policy, result));
  COHORT_TRY(open_score_models(config, policy, result));
  COHORT_ASSIGN(result.judges, open_judges(config, result.model.dtype));
  COHORT_TRY(choose_lora(config, result));
  switch (config.pipeline) {
    case config::Pipeline::rlvr:
      COHORT_TRY(open_prompts(config, result));
      break;
    case config::Pipeline::sft:
    case config::Pipeline::dpo:
    case config::Pipeline::rm:
    case config::Pipeline::distill:
      // A process that only holds cards gets its rows from the one that feeds them.
      if (!own_cards || own_cards->empty()) COHORT_TRY(open_rows(config, result));
      break;
    default:
      COHORT_TRY(open_environments(config, result));
  }
  if (!own_cards || own_cards->empty()) COHORT_TRY(open_recorded(config, result));
  const std::span<const int32_t> ends = result.chat->answer_ends();
  result.stop_ids.assign(ends.begin(), ends.end());
  // An answer ends with its closing tag, if the tag is one token: what would follow is never read.
  if (const auto closing = result.tokenizer->token_id("</answer>");
      closing && config.pipeline == config::Pipeline::agentic)
    result.stop_ids.push_back(*closing);
  COHORT_TRY(plan_run(config, result));
  COHORT_ASSIGN(result.devices,
                open_card_devices(config, own_cards ? *own_cards : all_cards(result.placement)));
  const compute::ParameterLayout saved =
      result.lora ? compute::lora_layout_of(result.model, *result.lora).flat
                  : compute::layout_of(result.model);
  result.checkpoint_bytes = 12 * static_cast<uint64_t>(saved.total_elements);  // two moments too
  if (result.critic) {
    const auto critic = compute::layout_of(result.critic->model, model::HeadKind::value);
    result.checkpoint_bytes += 12 * static_cast<uint64_t>(critic.total_elements);
  }
  if (config.save_hf)  // the whole model, an adapter merged
    result.checkpoint_bytes +=
        4 * static_cast<uint64_t>(compute::layout_of(result.model).total_elements);
  return result;
}

}  // namespace cohort::actors
