#pragma once
/// Enums of the configuration with the YAML's spelling of each value. Value types.
/// A value that can be written is not always one that this version runs: actors::preflight refuses
/// what it cannot, naming the key.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/catalog/catalog.hpp"

namespace cohort::config {

// Kinds whose values are rows of the catalogue.
using catalog::AdvEstimator;
using catalog::Dialect;
using catalog::EnvType;
using catalog::GroupFilter;
using catalog::KlKind;
using catalog::LossAgg;
using catalog::NormMethod;
using catalog::PolicyLossKind;
using catalog::RewardType;
using catalog::to_string;

/// The YAML's spelling of an enum, in the order of its values.
using Names = std::span<const std::string_view>;
inline constexpr std::array<std::string_view, 2> k_dialect_names = {"roll", "verl"};
constexpr Names names_of(Dialect) { return k_dialect_names; }

enum class Pipeline : uint8_t { agentic, rlvr, sft, dpo, distill };
inline constexpr std::array<std::string_view, 5> k_pipeline_names = {"agentic", "rlvr", "sft",
                                                                     "dpo", "distill"};
constexpr Names names_of(Pipeline) { return k_pipeline_names; }
enum class Platform : uint8_t { cpu, cuda, npu };
inline constexpr std::array<std::string_view, 3> k_platform_names = {"cpu", "cuda", "npu"};
constexpr Names names_of(Platform) { return k_platform_names; }
enum class Grouping : uint8_t { traj_group_id, tags, batch, state, inductive };
inline constexpr std::array<std::string_view, 5> k_grouping_names = {"traj_group_id", "tags",
                                                                     "batch", "state", "inductive"};
constexpr Names names_of(Grouping) { return k_grouping_names; }
enum class NormScope : uint8_t { none, batch, group, running };
inline constexpr std::array<std::string_view, 4> k_norm_scope_names = {"none", "batch", "group",
                                                                       "running"};
constexpr Names names_of(NormScope) { return k_norm_scope_names; }
enum class RatioType : uint8_t { token, segment };
inline constexpr std::array<std::string_view, 2> k_ratio_type_names = {"token", "segment"};
constexpr Names names_of(RatioType) { return k_ratio_type_names; }
/// What one train-infer ratio covers.
enum class CorrectionType : uint8_t { token, segment, geometric, sequence };
inline constexpr std::array<std::string_view, 4> k_correction_type_names = {
    "token", "segment", "geometric", "sequence"};
constexpr Names names_of(CorrectionType) { return k_correction_type_names; }
enum class ImportanceSampling : uint8_t { token, seq };
inline constexpr std::array<std::string_view, 2> k_importance_sampling_names = {"token", "seq"};
constexpr Names names_of(ImportanceSampling) { return k_importance_sampling_names; }
enum class BatchAdjustMode : uint8_t { copy, remove, automatic, random_sample };
inline constexpr std::array<std::string_view, 4> k_batch_adjust_mode_names = {
    "copy", "delete", "auto", "random_sample"};
constexpr Names names_of(BatchAdjustMode) { return k_batch_adjust_mode_names; }
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
inline constexpr std::array<std::string_view, 9> k_scheduler_type_names = {"constant",
                                                                           "linear",
                                                                           "cosine",
                                                                           "constant_with_warmup",
                                                                           "cosine_with_restarts",
                                                                           "cosine_with_min_lr",
                                                                           "polynomial",
                                                                           "inverse_sqrt",
                                                                           "warmup_stable_decay"};
constexpr Names names_of(SchedulerType) { return k_scheduler_type_names; }
enum class ModelDtype : uint8_t { fp32, bf16, fp16 };
inline constexpr std::array<std::string_view, 3> k_model_dtype_names = {"fp32", "bf16", "fp16"};
constexpr Names names_of(ModelDtype) { return k_model_dtype_names; }
enum class AttnImplementation : uint8_t { automatic, sdpa, fa2 };
inline constexpr std::array<std::string_view, 3> k_attn_implementation_names = {"auto", "sdpa",
                                                                                "fa2"};
constexpr Names names_of(AttnImplementation) { return k_attn_implementation_names; }
enum class ModelType : uint8_t {
  trl,
  auto_sequence_classification,
  auto_token_classification,
  diffusion_module
};
inline constexpr std::array<std::string_view, 4> k_model_type_names = {
    "trl", "auto_sequence_classification", "auto_token_classification", "diffusion_module"};
constexpr Names names_of(ModelType) { return k_model_type_names; }
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
inline constexpr std::array<std::string_view, 12> k_strategy_names = {"none",
                                                                      "deepspeed_train",
                                                                      "fsdp2_train",
                                                                      "megatron_train",
                                                                      "diffusion_deepspeed_train",
                                                                      "deepspeed_infer",
                                                                      "fsdp2_infer",
                                                                      "megatron_infer",
                                                                      "hf_infer",
                                                                      "vllm",
                                                                      "sglang",
                                                                      "mock_infer"};
constexpr Names names_of(Strategy) { return k_strategy_names; }
enum class PlacementMode : uint8_t { separate, timeshare };
inline constexpr std::array<std::string_view, 2> k_placement_mode_names = {"separate", "timeshare"};
constexpr Names names_of(PlacementMode) { return k_placement_mode_names; }
enum class OffloadPolicy : uint8_t { never, step };
inline constexpr std::array<std::string_view, 2> k_offload_policy_names = {"never", "step"};
constexpr Names names_of(OffloadPolicy) { return k_offload_policy_names; }
enum class CacheArrival : uint8_t { late, early };
inline constexpr std::array<std::string_view, 2> k_cache_arrival_names = {"late", "early"};
constexpr Names names_of(CacheArrival) { return k_cache_arrival_names; }
enum class Determinism : uint8_t { strict, relaxed };
inline constexpr std::array<std::string_view, 2> k_determinism_names = {"strict", "relaxed"};
constexpr Names names_of(Determinism) { return k_determinism_names; }
/// Whose log-probs the ratio of the first optimizer step divides by: those recorded at generation,
/// the update's own forward pass (the ratio is 1), or a pass of the trainer before the update.
enum class OldLogProbs : uint8_t { behavior, first_pass, recomputed };
enum class SandboxMode : uint8_t { bubblewrap, rlimits };
inline constexpr std::array<std::string_view, 2> k_sandbox_mode_names = {"bubblewrap", "rlimits"};
constexpr Names names_of(SandboxMode) { return k_sandbox_mode_names; }
enum class PromptTruncation : uint8_t { error, left, right, middle };
inline constexpr std::array<std::string_view, 4> k_prompt_truncation_names = {"error", "left",
                                                                              "right", "middle"};
constexpr Names names_of(PromptTruncation) { return k_prompt_truncation_names; }

/// Returns the name as the YAML spells it.
template <class E>
requires requires(E x) { names_of(x); }
std::string_view to_string(E x) {
  const Names names = names_of(x);
  const auto index = static_cast<size_t>(x);
  COHORT_CHECK(index < names.size(), "CONF-3: an enum holds one of its named values");
  return names[index];
}

}  // namespace cohort::config
