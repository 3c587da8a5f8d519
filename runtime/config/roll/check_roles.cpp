/// Rules on roles, their cards and engines, the model, and Cohort's own keys.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "runtime/config/roll/roll_check.hpp"
#include "runtime/config/train_groups.hpp"
#include "runtime/model/families.hpp"

namespace cohort::config {
namespace {

bool is_folder(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure);
}

/// The engine's cut must divide the cards; gives the copies of the model (D for a train role).
void complete_parallel(WorkerConfig& w, Findings& f, const std::string& name) {
  StrategySettings& s = w.strategy_args;
  std::string path = name + ".device_mapping";
  s.virtual_pipeline_size = std::max<int64_t>(s.virtual_pipeline_size, 1);
  auto cards = static_cast<int64_t>(w.device_mapping.size());
  int64_t cut = s.tensor_parallel_size * s.pipeline_parallel_size * s.context_parallel_size;
  if (cards == 0 || f.has_problem(path)) return;
  s.data_parallel_size = std::max<int64_t>(cards / cut, 1);
  if (cards % cut == 0) return;
  std::string factors = fmt::format("tensor parallel {} x pipeline parallel {}",
                                    s.tensor_parallel_size, s.pipeline_parallel_size);
  if (s.context_parallel_size > 1)
    factors += fmt::format(" x context parallel {}", s.context_parallel_size);
  f.problem(path, "{} cards are not a multiple of {} = {}; {}", cards, cut, factors,
            nearest_multiples(cards, cut));
}

void complete_role(WorkerConfig& w, Findings& f, const std::string& name, const RunConfig& c) {
  complete_parallel(w, f, name);
  if (w.model_args.lora_alpha == 0) w.model_args.lora_alpha = 2 * w.model_args.lora_rank;
  if (w.model_args.lora_rank == 0 && !w.model_args.lora_target.empty())
    f.problem(name + ".model_args.lora_rank", "0 with lora_target; give at least 1");
  w.model_args.ulysses_size = std::max<int64_t>(w.model_args.ulysses_size, 1);
  bool has_envs = name == "actor_train" || name == "actor_infer" || name == "reference" ||
                  name == "critic";  // ROLL hands the global ones to these four
  if (has_envs) w.system_envs.insert(c.system_envs.begin(), c.system_envs.end());
}

void require(const RunConfig& c, Findings& f, const WorkerConfig& role, const std::string& name) {
  if (f.has_problem(name)) return;
  bool is_mapped = !role.device_mapping.empty() || f.has_problem(name + ".device_mapping");
  std::string_view runs = c.pipeline == Pipeline::agentic || c.pipeline == Pipeline::rlvr
                              ? "every run"
                              : to_string(c.pipeline);
  const bool is_play_alone = c.pipeline == Pipeline::agentic && name == "actor_train" &&
                             !c.actor_infer.device_mapping.empty();
  if (!role.is_configured)
    f.problem(name, "missing: {} needs this role, with a device_mapping{}", runs,
              is_play_alone ? "; to play and record alone, as ROLL's agentic_rollout does, give it "
                              "cards and record_only: true"
                            : "");
  else if (!is_mapped && is_play_alone)
    f.problem(name + ".device_mapping",
              "missing: ROLL's agentic_rollout, which plays and trains nothing, is no pipeline "
              "here; give the role cards, and record_only: true to play and record alone");
  else if (!is_mapped)
    f.problem(name + ".device_mapping", "missing: the role needs at least one card");
}

void require_roles(const RunConfig& c, Findings& f) {
  if (c.record_only && !has_rollouts(c))
    f.problem("record_only", "true, and {} plays nothing that could be recorded; remove it",
              c.from_stream.empty() ? fmt::format("pipeline {}", to_string(c.pipeline))
                                    : std::string("from_stream"));
  if (c.pipeline == Pipeline::sft) return require(c, f, c.sft_train, "sft_train");
  if (c.pipeline == Pipeline::distill) return require(c, f, c.student, "student");
  require(c, f, c.actor_train, "actor_train");
  if (has_rollouts(c)) require(c, f, c.actor_infer, "actor_infer");
}

/// Node of a card: id div num_gpus_per_node.
void count_nodes(RunConfig& c, Findings& f) {
  if (f.has_problem("num_gpus_per_node") || f.has_problem("num_nodes")) return;
  uint32_t id_max = 0;
  std::string widest;
  for (const NamedRole& x : roles_of(c))
    for (uint32_t id : x.role->device_mapping)
      if (id >= id_max) {
        id_max = id;
        widest = x.name;
      }
  c.derived.num_nodes = id_max / c.num_gpus_per_node + 1;
  if (c.num_nodes > 0 && c.num_nodes != c.derived.num_nodes)
    f.warn("num_nodes",
           "{} has no effect (ROLL rewrites it): card {} of {} makes it {} of {} cards",
           c.num_nodes, id_max, widest, c.derived.num_nodes, c.num_gpus_per_node);
  if (f.has("num_gpus_per_node") && !f.has("platform"))
    f.warn("num_gpus_per_node",
           "{} counts here: card id div {} is its node; ROLL "
           "overwrites it with the cards that the driver sees",
           c.num_gpus_per_node, c.num_gpus_per_node);
}

bool is_contiguous(std::vector<uint32_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids.empty() || ids.back() - ids.front() + 1 == ids.size();
}

void check_weight_sync(const RunConfig& c, Findings& f) {
  for (const auto& [name, role] :
       {std::pair{"actor_train", &c.actor_train}, std::pair{"actor_infer", &c.actor_infer}}) {
    std::string path = std::string(name) + ".device_mapping";
    if (!f.has_problem(path) && !is_contiguous(role->device_mapping))
      f.warn(path,
             "the card ids have gaps: ROLL's weight transfer asserts contiguous ids and would not "
             "start; here they are allowed");
  }
}

void check_engines(const RunConfig& c, Findings& f) {
  const StrategySettings& train = c.actor_train.strategy_args;
  bool is_deepspeed = train.strategy == Strategy::deepspeed_train;
  const std::string stage = "actor_train.strategy_args.strategy_config.zero_optimization.stage";
  if (is_deepspeed && train.zero_stage == 0 && f.has(stage))
    f.warn(stage,
           "ZeRO stage 0: ROLL's deepspeed_train refuses it; here every card holds all of the "
           "training state");
  Strategy infer = c.actor_infer.strategy_args.strategy;
  if (infer != Strategy::vllm && infer != Strategy::sglang && infer != Strategy::none)
    f.warn("actor_infer.strategy_args.strategy_name", "{}: ROLL takes vllm or sglang here only",
           to_string(infer));
  const StrategySettings& s = c.actor_infer.strategy_args;
  if (s.max_model_len && *s.max_model_len < c.sequence_length)
    f.warn("actor_infer.strategy_args.strategy_config.max_model_len",
           c.pipeline == Pipeline::rlvr
               ? fmt::format(
                     "{} is below prompt_length {} + response_length {} = {}: answers are cut at "
                     "{} tokens, never reach the padded width, and max_len_mask cannot fire",
                     *s.max_model_len, c.prompt_length, c.sequence_length - c.prompt_length,
                     c.sequence_length, *s.max_model_len)
               : fmt::format("{} is below sequence_length {}: trajectories end there",
                             *s.max_model_len, c.sequence_length));
  int64_t longest = s.max_model_len.value_or(c.sequence_length);
  if (!s.enable_chunked_prefill && s.max_num_batched_tokens < longest)
    f.warn("actor_infer.strategy_args.strategy_config.max_num_batched_tokens",
           "{} is below the longest sequence {}: without enable_chunked_prefill vLLM "
           "would not start",
           s.max_num_batched_tokens, longest);
}

/// deepspeed_train, vllm and hf_infer are what the built-in engine stands for; the others by name.
void name_engines(RunConfig& c, Findings& f) {
  for (const NamedRole& x : roles_of(c)) {
    const StrategySettings& s = x.role->strategy_args;
    bool is_usual = s.strategy == Strategy::deepspeed_train || s.strategy == Strategy::vllm ||
                    s.strategy == Strategy::hf_infer || s.strategy == Strategy::none;
    if (!is_usual)
      f.warn(x.name + ".strategy_args.strategy_name",
             "{}: not built in; the built-in engine is used", s.strategy_name);
  }
}

/// Run folders stay under output_dir.
void check_name(const RunConfig& c, Findings& f) {
  const std::filesystem::path name(c.exp_name);
  const bool is_outside = name.is_absolute() ||
                          std::ranges::any_of(name, [](const auto& part) { return part == ".."; });
  if (is_outside && usable(f, {"exp_name"}))
    f.problem("exp_name", "'{}' leaves output_dir {}; give a name, and the folder as output_dir",
              c.exp_name, c.output_dir);
}

void check_shape(model::ModelShape& m, Findings& f) {
  const model::Family& family = *model::find_family(m.family);
  if (family.experts != model::ExpertKeys::none || family.has_latent_attention)
    return f.problem(
        "model.model_type",
        fmt::format("{} has {}, which this section cannot describe; give the shape as pretrain: a "
                    "folder, or random:<config.json>",
                    family.model_type,
                    family.has_latent_attention ? "latent attention" : "routed experts"));
  if (!f.has("model.attention_bias")) m.attention_bias = family.attention_bias;
  m.attention_output_bias = m.attention_bias && family.has_bias_key;
  m.qk_norm = family.qk_norm;
  for (const char* key :
       {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"}) {
    if (f.has_problem(std::string("model.") + key)) return;
  }
  if (m.num_attention_heads % m.num_key_value_heads != 0)
    f.problem("model.num_key_value_heads", "{} does not divide num_attention_heads {}",
              m.num_key_value_heads, m.num_attention_heads);
  if (m.head_dim == 0 && m.hidden_size % m.num_attention_heads != 0)
    return f.problem(
        "model.hidden_size",

        "{} is not a multiple of num_attention_heads {}; nearest that work: {}, {}; or "
        "give head_dim",
        m.hidden_size, m.num_attention_heads,
        std::max<int64_t>(1, m.hidden_size / m.num_attention_heads) * m.num_attention_heads,
        (m.hidden_size / m.num_attention_heads + 1) * m.num_attention_heads);
  if (m.head_dim == 0) m.head_dim = m.hidden_size / m.num_attention_heads;
  if (m.head_dim % 2 != 0)
    f.problem(f.has("model.head_dim") ? "model.head_dim" : "model.hidden_size",
              "a head of {} is odd; rotary positions need an even head_dim", m.head_dim);
}

void check_paths(const RunConfig& c, Findings& f, const LoadOptions& options) {
  bool has_model = !c.pretrain.empty() || c.model.is_configured ||
                   !c.actor_train.model_args.model_name_or_path.empty() ||
                   !c.sft_train.model_args.model_name_or_path.empty();
  if (!has_model && usable(f, {"model", "pretrain"}))
    f.problem("pretrain",
              "missing: give a checkpoint folder, or a `model` section for a random start");
  const bool has_shape = std::ranges::any_of(c.origins, [](const auto& each) {
    return each.first.starts_with("model.") && !each.first.starts_with("model.tokenizer");
  });
  if (c.pretrain.starts_with("random:") && has_shape)
    f.warn("model", "has no effect but for its tokenizer: the shape is that of pretrain {}",
           c.pretrain);
  const std::string& checkpoint = c.resume_from_checkpoint.path;
  if (options.check_files && !checkpoint.empty() && !is_folder(checkpoint))
    f.problem("resume_from_checkpoint", "no folder '{}'", checkpoint);
}

}  // namespace

std::vector<NamedRole> roles_of(RunConfig& c) {
  std::vector<NamedRole> roles;
  for (const auto& [name, role] :
       {std::pair{"actor_train", &c.actor_train}, std::pair{"actor_infer", &c.actor_infer},
        std::pair{"reference", &c.reference}, std::pair{"critic", &c.critic},
        std::pair{"reward_model", &c.reward_model}, std::pair{"sft_train", &c.sft_train},
        std::pair{"student", &c.student}, std::pair{"teacher", &c.teacher}})
    if (role->is_configured) roles.push_back({name, role});
  for (auto& [name, reward] : c.rewards)
    if (!reward.worker.device_mapping.empty()) roles.push_back({"rewards." + name, &reward.worker});
  return roles;
}

void check_roles(RunConfig& c, Findings& f, const LoadOptions& options) {
  for (const NamedRole& x : roles_of(c)) complete_role(*x.role, f, x.name, c);
  require_roles(c, f);
  const std::string trained = train_section(c);
  for (const NamedRole& x : roles_of(c)) {
    if (x.role->model_args.dtype != ModelDtype::fp16) continue;
    const std::string key = x.name + ".model_args.dtype";
    if (x.name == trained)
      f.warn(key, k_half_as_single);
    else
      f.note(key, fmt::format("every role computes in {}'s", trained));
  }
  if (!c.actor_infer.device_mapping.empty())
    c.derived.infer_replicas = c.actor_infer.strategy_args.data_parallel_size;
  count_nodes(c, f);
  check_weight_sync(c, f);
  name_engines(c, f);
  if (c.actor_infer.generating_args.top_k < 0) c.actor_infer.generating_args.top_k = 0;
  if (c.model.is_configured) check_shape(c.model.shape, f);
  check_paths(c, f, options);
}

void check_runtime(RunConfig& c, Findings& f) {
  check_engines(c, f);
  check_name(c, f);
  const std::string temperature = "actor_infer.generating_args.temperature";
  if (has_rollouts(c) && c.actor_infer.generating_args.temperature == 0)
    f.warn(temperature,
           "0 is greedy: the answers of a group are the same, and none is better than another");
  check_async(c, f);
  if (c.cards.reserve_bytes >= c.cards.memory_bytes)
    f.problem("cards.reserve_bytes", "{} bytes leave nothing of memory_bytes {}",
              c.cards.reserve_bytes, c.cards.memory_bytes);
  for (auto [key, bytes] : {std::pair{"credit_bytes", c.transport.credit_bytes},
                            std::pair{"queue_bytes", c.transport.queue_bytes}}) {
    if (c.transport.chunk_bytes > bytes)
      f.problem("transport.chunk_bytes", "{} is more than transport.{} {}: no chunk would ever fit",
                c.transport.chunk_bytes, key, bytes);
  }
  const WarmStartSection& w = c.warm_start;
  if (w.steps > 0 && w.rounds > w.steps)
    f.problem("warm_start.rounds", "{} rounds for {} optimizer steps; at most one round a step",
              w.rounds, w.steps);
  if (w.steps > 0 && w.warmup_steps > w.steps)
    f.problem("warm_start.warmup_steps", "{} of only {} steps", w.warmup_steps, w.steps);
}

}  // namespace cohort::config
