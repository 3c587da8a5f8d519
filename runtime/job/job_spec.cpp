#include "runtime/job/job_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "runtime/config/role_cuts.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/train_groups.hpp"

namespace cohort::job {
namespace {

using config::Pipeline;
using config::Platform;
using config::RunConfig;
using config::Strategy;
using config::WorkerConfig;

uint64_t count(int64_t value) { return value > 0 ? static_cast<uint64_t>(value) : 0; }
uint32_t degree(int64_t value) { return static_cast<uint32_t>(std::max<int64_t>(value, 1)); }

/// A section of the config that becomes a role of the plan.
struct Section {
  std::string name;  // the planner's
  std::string key;   // the config's
  const WorkerConfig* worker = nullptr;
  std::string checkpoint;  // what it starts from; empty: the model section
};

std::string first_of(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

void add_section(std::vector<Section>& out, const std::string& name, const std::string& key,
                 const WorkerConfig& worker, const std::string& checkpoint) {
  if (worker.device_mapping.empty()) return;
  out.push_back({name, key, &worker, first_of(worker.model_args.model_name_or_path, checkpoint)});
}

/// Roles that get cards. A reference only when something needs it, a critic only when gae does.
std::vector<Section> sections_of(const RunConfig& c) {
  std::vector<Section> out;
  if (c.pipeline == Pipeline::sft) {
    add_section(out, "actor_train", "sft_train", c.sft_train, c.pretrain);
    return out;
  }
  if (c.pipeline == Pipeline::distill) {
    add_section(out, "actor_train", "student", c.student, first_of(c.student_pretrain, c.pretrain));
    add_section(out, "reference", "teacher", c.teacher, c.teacher_pretrain);
    return out;
  }
  add_section(out, "actor_train", "actor_train", c.actor_train, c.pretrain);
  if (config::has_rollouts(c))
    add_section(out, "actor_infer", "actor_infer", c.actor_infer, c.pretrain);
  if (c.derived.is_reference_needed)
    add_section(out, "reference", "reference", c.reference, c.pretrain);
  if (config::has_pairs(c.pipeline)) return out;
  if (config::has_teacher(c)) add_section(out, "teacher", "teacher", c.teacher, c.teacher_pretrain);
  if (catalog::entry(c.adv_estimator).has(catalog::need::critic))
    add_section(out, "critic", "critic", c.critic, config::critic_start(c));
  add_section(out, "reward_model", "reward_model", c.reward_model, c.reward_pretrain);
  for (const auto& [name, reward] : c.rewards)
    add_section(out, "rewards." + name, "rewards." + name, reward.worker, c.reward_pretrain);
  return out;
}

plan::Engine engine_of(Strategy strategy, bool is_cpu) {
  if (is_cpu) return plan::Engine::builtin;
  switch (strategy) {
    case Strategy::deepspeed_train:
    case Strategy::deepspeed_infer:
    case Strategy::diffusion_deepspeed_train:
      return plan::Engine::deepspeed;
    case Strategy::fsdp2_train:
    case Strategy::fsdp2_infer:
      return plan::Engine::fsdp;
    case Strategy::megatron_train:
    case Strategy::megatron_infer:
      return plan::Engine::megatron;
    case Strategy::vllm:
      return plan::Engine::vllm;
    case Strategy::sglang:
      return plan::Engine::sglang;
    case Strategy::hf_infer:
      return plan::Engine::hf;
    case Strategy::none:
    case Strategy::mock_infer:
      break;
  }
  return plan::Engine::builtin;
}

/// Numbers of one role on a platform whose engines are not ours.
void fill_engine(plan::RoleJob& job, const Section& section, const RunConfig& c) {
  const WorkerConfig& w = *section.worker;
  const config::StrategySettings& s = w.strategy_args;
  job.zero_stage = static_cast<uint32_t>(count(s.zero_stage));
  if (job.engine == plan::Engine::fsdp) {
    job.zero_stage = 3;
    job.zero_shards = static_cast<uint32_t>(count(s.fsdp_size));
  }
  if (job.engine == plan::Engine::megatron) {
    job.zero_stage = s.use_distributed_optimizer ? 1 : 0;
    if (job.ep > 1) job.expert_tp = job.tp;  // Megatron's default: experts are cut by TP too
  }
  job.offload_optimizer = s.offload_optimizer;
  job.offload_params = s.offload_param;
  job.gradient_checkpointing = w.model_args.is_gradient_checkpointing;
  job.micro_batch = count(w.training_args.per_device_train_batch_size);
  job.memory_utilization = s.gpu_memory_utilization;
  job.block_tokens = count(s.block_size);
  job.max_model_len = count(s.max_model_len.value_or(0));
  job.max_running = count(s.max_num_seqs);
  job.max_batched_tokens = count(s.max_num_batched_tokens);
  if (s.kv_cache_dtype.starts_with("fp8")) job.kv_element_bytes = 1;
  if (c.dialect != config::Dialect::verl) return;
  const config::VerlSection& verl = c.verl;
  if (job.name == Role::actor_train) {
    job.swap_optimizer = verl.swap_optimizer;
    if (verl.use_dynamic_bsz) job.packed_tokens = count(verl.ppo_max_token_len_per_gpu);
  }
  if (job.name == Role::reference && verl.ref_log_prob_use_dynamic_bsz)
    job.packed_tokens = count(verl.ref_log_prob_max_token_len_per_gpu);
}

}  // namespace

ZeroSettings zero_of(const RunConfig& c, const WorkerConfig& role) {
  const config::StrategySettings& s = role.strategy_args;
  const config::StateCut cut = config::state_cut_of(role);
  ZeroSettings zero;
  zero.offload_optimizer = s.offload_optimizer;
  zero.offload_params = cut.offloads_params;
  zero.swap_optimizer =
      &role == &c.actor_train && c.dialect == config::Dialect::verl && c.verl.swap_optimizer;
  if (role.device_mapping.size() < 2) return zero;
  zero.expert_ways = degree(s.expert_parallel_size);
  zero.stage = static_cast<uint32_t>(count(cut.zero_stage));
  return zero;
}

namespace {

/// The built-in engine has keys of its own; what the others' keys say does not change its bytes.
/// Of the cuts it makes TP in a rollout and EP in training (config/role_cuts.hpp).
void fill_builtin(plan::RoleJob& job, const WorkerConfig& role, const RunConfig& c,
                  uint64_t vocab_size) {
  constexpr uint64_t k_logits_max = uint64_t{1} << 24;  // TrainEngineOptions::logits_max
  job.packed_tokens = count(c.micro_batch_tokens);
  job.logits_chunk_tokens = std::max<uint64_t>(k_logits_max / std::max<uint64_t>(vocab_size, 1), 1);
  job.max_running = count(c.max_running_requests);
  job.threads = degree(c.cards.threads_per_card);
  const bool is_trained = job.name == Role::actor_train || job.name == Role::critic;
  job.pp = job.cp = 1;
  if (job.name != Role::actor_infer) job.tp = 1;
  if (!is_trained) job.ep = 1;
  if (!is_trained) return;
  ZeroSettings zero = zero_of(c, role);
  job.zero_stage = zero.stage;
  job.offload_optimizer = zero.offload_optimizer;
  job.offload_params = zero.offload_params;
  job.swap_optimizer = zero.swap_optimizer;
}

/// A classifier that scores answers; other rewards with cards are judges that generate.
bool is_reward_model(const std::string& role, const RunConfig& c) {
  for (const auto& [name, reward] : c.rewards)
    if (role == "rewards." + name) return reward.type == config::RewardType::reward_model;
  return false;
}

/// A judge that answers on its cards, not a classifier.
void fill_judge(plan::RoleJob& job, const RunConfig& c, const model::ModelShape& shape) {
  for (const auto& [name, reward] : c.rewards) {
    if (job.name != "rewards." + name || !config::is_judge_on_cards(reward)) continue;
    job.is_judge = job.has_own_weights = true;
    job.max_running = count(reward.plugin.workers);
    job.max_model_len = count(judge_context(c, reward, shape));
    job.kv_tokens = job.max_running * job.max_model_len;
  }
}

plan::RoleJob role_of(const Section& section, const RunConfig& c, bool is_cpu,
                      const model::ModelShape& shape) {
  const WorkerConfig& w = *section.worker;
  const config::StrategySettings& s = w.strategy_args;
  plan::RoleJob job;
  job.name = section.name;
  for (uint32_t id : w.device_mapping) job.cards.push_back({id});
  job.engine_asked = s.strategy_name;
  job.engine = engine_of(s.strategy, is_cpu);
  job.tp = degree(s.tensor_parallel_size);
  job.pp = degree(s.pipeline_parallel_size);
  job.cp = degree(s.context_parallel_size);
  job.ep = degree(s.expert_parallel_size);
  config::ModelDtype dtype = w.model_args.dtype;
  // One dtype for all roles of a run on our engine: the trainer's (actors::preflight).
  if (is_cpu) dtype = c.actor_train.model_args.dtype;
  job.param_bytes = dtype == config::ModelDtype::bf16 ? 2 : 4;  // fp16 computes in f32
  const bool is_scorer = is_reward_model(job.name, c);
  job.has_value_head = is_scorer || (c.pipeline == Pipeline::rm && job.name == Role::actor_train);
  job.has_own_weights = is_scorer || job.name == Role::teacher ||
                        (job.name == Role::reference && !config::own_reference(c).empty());
  job.log_prob_micro_batch = std::max<uint64_t>(count(w.infer_batch_size), 1);
  if (job.engine == plan::Engine::builtin)
    fill_builtin(job, w, c, count(shape.vocab_size));
  else
    fill_engine(job, section, c);
  if (job.engine == plan::Engine::builtin) fill_judge(job, c, shape);
  return job;
}

Expected<model::ModelShape> shape_of(const Section& section, const RunConfig& c,
                                     const JobOptions& options) {
  if (section.checkpoint.empty()) {
    model::ModelShape shape = c.model.shape;
    shape.vocab_size = options.vocab_size;
    return shape;
  }
  if (auto known = options.models.find(section.checkpoint); known != options.models.end())
    return known->second;
  return model::find_model(section.checkpoint);
}

/// The key that names what a section starts from.
std::string checkpoint_key(const Section& section, const RunConfig& c) {
  if (c.dialect == config::Dialect::verl) return "actor_rollout_ref.model.path";
  if (!section.worker->model_args.model_name_or_path.empty())
    return section.key + ".model_args.model_name_or_path";
  for (const auto& [key, text] : {std::pair{"pretrain", &c.pretrain},
                                  {"student_pretrain", &c.student_pretrain},
                                  {"teacher_pretrain", &c.teacher_pretrain},
                                  {"reward_pretrain", &c.reward_pretrain}})
    if (*text == section.checkpoint) return key;
  return section.key;
}

/// A model that is neither a folder here nor a name of the table, with its key's place.
Error unknown_model(const Section& section, const RunConfig& c, const Error& error) {
  const std::string key = checkpoint_key(section, c);
  const std::string& name = section.checkpoint;
  const bool is_path = name.starts_with('/') || name.starts_with('.') || name.starts_with('~');
  const auto origin = c.origins.find(key);
  return {error.code,
          fmt::format(
              "{}{}{}: {}{}", origin == c.origins.end() ? "" : origin->second,
              origin == c.origins.end() ? "" : ": ", key,
              is_path ? fmt::format("no folder '{}' with a config.json; by its name, ", name) : "",
              error.detail)};
}

/// A model that scores: the policy's plan holds without it.
bool is_judge(const Section& section) {
  return section.name == "reward_model" || section.name.starts_with("rewards.");
}

std::string cards_text(const WorkerConfig& worker) {
  return fmt::format("{}", fmt::join(worker.device_mapping, ", "));
}

bool has_origin(const RunConfig& c, std::string_view key) {
  auto at = c.origins.lower_bound(std::string(key));
  return at != c.origins.end() &&
         (at->first == key || at->first.starts_with(std::string(key) + "."));
}

bool names_npu(std::string_view text) {
  return text.find("npu") != std::string_view::npos ||
         text.find("ascend") != std::string_view::npos;
}

/// What in a config without `platform` tells that it was written for an NPU; empty: nothing.
std::string npu_hint(const RunConfig& c, const std::string& config_name) {
  for (const auto& [key, value] : c.system_envs)
    for (std::string_view prefix : {"HCCL_", "ASCEND_", "NPU_", "PYTORCH_NPU_", "VLLM_ASCEND_"})
      if (key.starts_with(prefix)) return "system_envs." + key;
  for (const WorkerConfig* worker : {&c.actor_train, &c.actor_infer})
    for (const auto& [key, value] : worker->system_envs)
      if (key.starts_with("HCCL_") || key.starts_with("ASCEND_")) return "system_envs." + key;
  if (names_npu(c.exp_name)) return "exp_name " + c.exp_name;
  if (names_npu(config_name)) return "the file's name";
  return "";
}

struct CardChoice {
  std::string name, assumption;
};

/// `cards.type` or --card; else the platform's usual card, and a config that says nothing of a
/// platform is ROLL's, which has accelerators: an A2 unless it says otherwise.
CardChoice choose_card(const RunConfig& c, const JobOptions& options) {
  if (!options.card.empty()) return {options.card, ""};
  if (!c.cards.type.empty()) return {c.cards.type, ""};
  std::string other = "; --card or the key cards.type names another";
  bool is_said = has_origin(c, "platform");
  if (c.platform == Platform::cuda)
    return {"H100", "platform cuda: card type H100 (80 GB) assumed" + other};
  if (c.platform == Platform::npu)
    return {"A2", fmt::format("platform npu{}: card type A2 (64 GB) assumed{}",
                              is_said ? "" : " (verl's trainer.device is not said)", other)};
  if (is_said || has_origin(c, "cards")) return {"cpu", ""};
  std::string hint = npu_hint(c, options.config_name);
  if (!hint.empty())
    return {"A2", fmt::format("no platform is said; {} is an NPU's: card type A2 (64 GB) assumed{}",
                              hint, other)};
  if (c.pretrain.empty()) return {"cpu", ""};
  return {"A2", "no platform is said: card type A2 (64 GB) assumed" + other +
                    ", platform=cpu plans for this host"};
}

plan::BatchOptions verl_batch(const RunConfig& c) {
  const config::VerlSection& verl = c.verl;
  plan::BatchOptions batch;
  batch.kind = plan::BatchKind::verl;
  batch.mini_batch_size = count(verl.ppo_mini_batch_size);
  batch.micro_batch_size = verl.use_dynamic_bsz ? 0 : count(verl.ppo_micro_batch_size_per_gpu);
  batch.log_prob_batch_size =
      verl.log_prob_use_dynamic_bsz ? 0 : count(verl.log_prob_micro_batch_size_per_gpu);
  // verl would stop where they do not share the trajectories evenly: load_verl() has warned, and
  // here one actor drives generation.
  const int64_t trajectories = c.derived.trajectories_per_step;
  if (verl.agent_workers > 0 && trajectories % verl.agent_workers == 0)
    batch.agent_workers = count(verl.agent_workers);
  batch.dataset_rows = count(verl.train_rows);
  batch.total_epochs = std::max<uint64_t>(count(verl.total_epochs), 1);
  batch.max_steps = count(verl.total_training_steps);
  batch.test_freq = count(c.eval_steps);
  batch.validates_first = verl.val_before_train;
  return batch;
}

plan::BatchOptions batch_of(const RunConfig& c) {
  plan::BatchOptions batch;
  if (c.dialect == config::Dialect::verl) {
    batch = verl_batch(c);
  } else {
    const config::TrainingArgs& t = c.actor_train.training_args;
    batch.kind = c.pipeline == Pipeline::agentic     ? plan::BatchKind::agentic
                 : config::is_supervised(c.pipeline) ? plan::BatchKind::sft
                                                     : plan::BatchKind::rlvr;
    batch.is_evenly_cut = c.pipeline == Pipeline::agentic;  // evenly cut
    batch.per_device_train_batch_size = count(t.per_device_train_batch_size);
    batch.gradient_accumulation_steps = count(t.gradient_accumulation_steps);
    batch.max_steps = count(c.max_steps);
    batch.log_prob_batch_size = count(c.actor_train.infer_batch_size);
  }
  batch.critic_batch = count(c.derived.critic.optimizer_batch);
  batch.critic_epochs = count(c.derived.critic.ppo_epochs);
  batch.rollout_batch_size = count(c.rollout_batch_size);
  if (batch.kind == plan::BatchKind::sft)
    batch.rollout_batch_size = count(c.derived.groups_per_step);
  batch.group_size = std::max<uint64_t>(count(c.derived.group_size), 1);
  batch.train_cards = std::max<uint64_t>(count(c.derived.train_dp), 1);
  batch.ppo_epochs = std::max<uint64_t>(count(c.ppo_epochs), 1);
  batch.has_kl = c.derived.is_reference_needed;
  batch.infer_cards = c.actor_infer.device_mapping.size();
  batch.infer_tp = degree(c.actor_infer.strategy_args.tensor_parallel_size);
  batch.infer_pp = degree(c.actor_infer.strategy_args.pipeline_parallel_size);
  if (batch.kind == plan::BatchKind::agentic) {
    batch.num_env_groups = count(c.train_env_manager.num_env_groups);
    if (c.eval_steps > 0) {
      batch.val_batch_size = count(c.val_batch_size);
      batch.val_group_size = count(c.val_env_manager.group_size);
      batch.val_num_env_groups = count(c.val_env_manager.num_env_groups);
    }
  }
  return batch;
}

/// Who shares cards, and whether objects leave them. ROLL takes every role's objects off its cards
/// after each phase; the cpu platform does what the key says.
void set_placement(plan::JobSpec& spec, const RunConfig& c, bool is_cpu) {
  spec.mode = c.placement.mode == config::PlacementMode::timeshare ? plan::PlacementMode::timeshare
                                                                   : plan::PlacementMode::separate;
  bool is_kept = c.placement.offload == config::OffloadPolicy::never;
  bool is_said = has_origin(c, "placement.offload");
  if (!is_said && (!is_cpu || spec.mode == plan::PlacementMode::timeshare)) is_kept = false;
  // Who generates beside training keeps all that it computes with.
  const bool is_beside = c.derived.steps_ahead > 0 && spec.mode == plan::PlacementMode::separate;
  is_kept = is_kept || is_beside;
  spec.offload = is_kept ? plan::OffloadPolicy::never : plan::OffloadPolicy::step;
  spec.init_cache = c.placement.init_cache == config::CacheArrival::early
                        ? plan::CacheArrival::early
                        : plan::CacheArrival::late;
  spec.overlap_is_verl_pool = c.dialect == config::Dialect::verl && c.verl.hybrid_engine &&
                              !has_origin(c, "placement.mode");
}

void say_what_is_left_out(Job& job, const RunConfig& c) {
  bool has_critic = catalog::entry(c.adv_estimator).has(catalog::need::critic);
  if (has_critic && c.critic.device_mapping.empty() && c.pipeline <= Pipeline::rlvr)
    job.assumptions.push_back(
        {"adv_estimator",
         fmt::format("{}{} needs a critic and the config has none: planned without one",
                     config::to_string(c.adv_estimator),
                     has_origin(c, "adv_estimator") ? "" : ", the default,")});
  if (c.pipeline == Pipeline::sft)
    job.assumptions.push_back({"pipeline", "sft: sft_train stands as actor_train"});
  if (c.pipeline == Pipeline::distill)
    job.assumptions.push_back(
        {"pipeline", job.spec.roles.front().teacher
                         ? "distill: student stands as actor_train, with the teacher on its cards"
                         : "distill: student stands as actor_train, teacher as reference"});
}

}  // namespace

int64_t judge_context(const RunConfig& c, const config::RewardConfig& judge,
                      const model::ModelShape& shape) {
  constexpr int64_t k_longer = 4;
  const int64_t reply = judge.worker.generating_args.max_new_tokens;
  return std::min(std::max<int64_t>(shape.max_position, 1), k_longer * c.sequence_length + reply);
}

std::vector<std::string> model_names(const RunConfig& config) {
  std::vector<std::string> names;
  for (const Section& section : sections_of(config))
    if (!section.checkpoint.empty() && std::ranges::find(names, section.checkpoint) == names.end())
      names.push_back(section.checkpoint);
  return names;
}

Expected<std::optional<model::LoraShape>> lora_of(const RunConfig& config,
                                                  const model::ModelShape& shape) {
  const config::ModelArgs& m = config.actor_train.model_args;
  if (m.lora_target.empty()) return std::optional<model::LoraShape>();
  model::LoraShape asked{m.lora_rank, static_cast<double>(m.lora_alpha), false, {}};
  asked.is_pattern = m.lora_target.size() == 1 && model::is_target_pattern(m.lora_target.front());
  if (asked.is_pattern)
    asked.targets = m.lora_target;
  else
    asked.targets = model::target_names(m.lora_target);
  auto lora = model::resolve_lora(shape, std::move(asked));
  if (!lora)
    return Error{Errc::config, "actor_train.model_args.lora_target: " + lora.error().detail};
  return std::optional<model::LoraShape>(*std::move(lora));
}

Expected<Job> job_of(const RunConfig& config, const JobOptions& options) {
  Job job;
  plan::JobSpec& spec = job.spec;
  spec.dialect =
      config.dialect == config::Dialect::verl ? plan::Dialect::verl : plan::Dialect::roll;
  CardChoice choice = choose_card(config, options);
  COHORT_ASSIGN(spec.card, plan::find_card_type(choice.name));
  if (!choice.assumption.empty()) job.assumptions.push_back({"card", choice.assumption});
  bool is_cpu = spec.card.name == "cpu";
  if (is_cpu) {
    spec.card.capacity_bytes = config.cards.memory_bytes;
    spec.card.reserve_bytes = config.cards.reserve_bytes;
  }
  spec.cards_per_node = static_cast<uint32_t>(count(config.num_gpus_per_node));
  set_placement(spec, config, is_cpu);
  for (const Section& section : sections_of(config)) {
    auto known = shape_of(section, config, options);
    if (!known && is_judge(section)) {
      job.assumptions.push_back({section.key, known.error().detail + "; its bytes on cards " +
                                                  cards_text(*section.worker) +
                                                  " are not counted"});
      continue;
    }
    if (!known) return unknown_model(section, config, known.error());
    model::ModelShape shape = *std::move(known);
    if (!shape.left_out.empty() && (spec.roles.empty() || shape != spec.model))
      job.assumptions.push_back(
          {section.key, fmt::format("{}: its part for {} is not counted, and a run refuses it",
                                    shape.name, shape.left_out)});
    if (section.worker == &config.teacher && config.pipeline == Pipeline::distill && is_cpu) {
      spec.roles.front().teacher = shape;  // on its student's cards
      continue;
    }
    plan::RoleJob role = role_of(section, config, is_cpu, shape);
    if (role.name == Role::actor_train && role.engine == plan::Engine::builtin) {
      role.lora = options.lora;
      if (!role.lora) {
        COHORT_ASSIGN(role.lora, lora_of(config, shape));
      }
    }
    if (spec.roles.empty()) {
      spec.model = shape;
      job.model_name = first_of(section.checkpoint, "the model section");
    } else if (shape != spec.model) {
      role.model = shape;
    }
    spec.roles.push_back(std::move(role));
  }
  spec.batch = batch_of(config);
  spec.sequence_length = count(config.sequence_length);
  if (config.pipeline != Pipeline::agentic) {  // there turns share the context
    spec.prompt_length = count(config.prompt_length);
    spec.response_length = count(config.sequence_length - config.prompt_length);
  }
  spec.update_bucket_bytes = count(config.model_update_buffer_size_mb) << 20;
  say_what_is_left_out(job, config);
  return job;
}

}  // namespace cohort::job
