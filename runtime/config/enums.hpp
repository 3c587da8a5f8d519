#pragma once
/// Enums of the configuration; names.hpp has the YAML's spelling of each value. Value types.
/// A value that can be written is not always one that this version runs: actors::preflight refuses
/// what it cannot, naming the key.
#include <cstdint>
#include <string_view>

namespace cohort::config {

enum class Dialect : uint8_t { roll, verl };
enum class Pipeline : uint8_t { agentic, rlvr, sft, dpo, distill };
enum class Platform : uint8_t { cpu, cuda, npu };
/// ROLL's six, then verl's.
enum class AdvEstimator : uint8_t {
  gae,
  grpo,
  reinforce,
  gigpo,
  step_reinforce,
  agentic_reinforce,
  reinforce_plus_plus,
  reinforce_plus_plus_baseline,
  rloo,
  remax,
  opo,
  grpo_passk,
  gpg,
  optimal_token_baseline
};
enum class KlPenalty : uint8_t { kl, abs, mse, k3, full };
enum class LossAggMode : uint8_t {
  token_mean,
  seq_mean_token_sum,
  seq_mean_token_mean,
  seq_mean_token_sum_norm
};
enum class Grouping : uint8_t { traj_group_id, tags, batch, state, inductive };
enum class NormMethod : uint8_t { identity, mean, mean_std, asym_clip };
enum class NormScope : uint8_t { none, batch, group, running };
enum class RatioType : uint8_t { token, segment };
/// What one train-infer ratio covers.
enum class CorrectionType : uint8_t { token, segment, geometric, sequence };
enum class ImportanceSampling : uint8_t { token, seq };
enum class PgVariant : uint8_t { ppo, vanilla, tis, topr, cispo, kimi15 };
enum class BatchAdjustMode : uint8_t { copy, remove, automatic, random_sample };
enum class SchedulerType : uint8_t {
  constant,
  linear,
  cosine,
  constant_with_warmup,
  cosine_with_restarts,
  cosine_with_min_lr,
  polynomial,
  inverse_sqrt,
  warmup_stable_decay
};
enum class ModelDtype : uint8_t { fp32, bf16, fp16 };
enum class AttnImplementation : uint8_t { automatic, sdpa, fa2 };
enum class ModelType : uint8_t {
  trl,
  auto_sequence_classification,
  auto_token_classification,
  diffusion_module
};
/// Engines as ROLL names them; verl's fsdp, fsdp2 and megatron are the *_train ones. `none`: the
/// key is missing or ~.
enum class Strategy : uint8_t {
  none,
  deepspeed_train,
  fsdp2_train,
  megatron_train,
  diffusion_deepspeed_train,
  deepspeed_infer,
  fsdp2_infer,
  megatron_infer,
  hf_infer,
  vllm,
  sglang,
  mock_infer
};
enum class PlacementMode : uint8_t { separate, timeshare };
enum class OffloadPolicy : uint8_t { never, step };
enum class CacheArrival : uint8_t { late, early };
enum class Determinism : uint8_t { strict, relaxed };
/// Whose log-probs the ratio of the first optimizer step divides by: those recorded at generation,
/// the update's own forward pass (the ratio is 1), or a pass of the trainer before the update.
enum class OldLogProbs : uint8_t { behavior, first_pass, recomputed };
/// What scores: the environment's pay, ROLL's reward workers, a worker of the user's own; from
/// gsm8k on the rules that are built in beside ROLL's, and plugins.
enum class RewardType : uint8_t {
  env_return,
  math_rule,
  code_sandbox,
  llm_judge,
  ifeval,
  crossthinkqa,
  multiple_choice_boxed,
  general_val,
  detection,
  video_r1,
  remote,
  data_source,  // verl: the scorer follows from the row's data_source
  custom,
  gsm8k,
  math,
  math_dapo,
  multiple_choice,
  exact,
  format,
  overlong,
  length,
  repetition,
  plugin
};
enum class SandboxMode : uint8_t { bubblewrap, rlimits };
enum class PromptTruncation : uint8_t { error, left, right, middle };
enum class RewardFilter : uint8_t { no_filter, mean_filter, std_filter };
enum class EnvType : uint8_t {
  frozen_lake,
  sokoban,
  webshop,
  sokoban_sandbox,
  sokoban_mcp,
  sokoban_native_env,
  roll_math,
  roll_code,
  roll_qa,
  gem_math,
  gem_code,
  gem_qa,
  gem_game,
  deepeyes,
  cli_env,
  rock_tb_native_env,
  plugin,
  other
};

/// Returns whether this version plays the environment.
constexpr bool is_built_in(EnvType x) {
  return x == EnvType::frozen_lake || x == EnvType::sokoban || x == EnvType::plugin;
}

/// Names as the YAML spells them.
std::string_view to_string(Dialect x);
std::string_view to_string(Pipeline x);
std::string_view to_string(Platform x);
std::string_view to_string(AdvEstimator x);
std::string_view to_string(KlPenalty x);
std::string_view to_string(LossAggMode x);
std::string_view to_string(Grouping x);
std::string_view to_string(NormMethod x);
std::string_view to_string(NormScope x);
std::string_view to_string(RatioType x);
std::string_view to_string(CorrectionType x);
std::string_view to_string(ImportanceSampling x);
std::string_view to_string(PgVariant x);
std::string_view to_string(BatchAdjustMode x);
std::string_view to_string(SchedulerType x);
std::string_view to_string(ModelDtype x);
std::string_view to_string(AttnImplementation x);
std::string_view to_string(ModelType x);
std::string_view to_string(Strategy x);
std::string_view to_string(PlacementMode x);
std::string_view to_string(OffloadPolicy x);
std::string_view to_string(CacheArrival x);
std::string_view to_string(Determinism x);
std::string_view to_string(RewardType x);
std::string_view to_string(RewardFilter x);
std::string_view to_string(EnvType x);
std::string_view to_string(SandboxMode x);
std::string_view to_string(PromptTruncation x);

}  // namespace cohort::config
