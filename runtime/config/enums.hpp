#pragma once
/// Enums of the configuration with the YAML's spelling of each value. Value types.
/// A value that can be written is not always one that this version runs: actors::preflight refuses
/// what it cannot, naming the key.
#include <cstdint>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/catalog/catalog.hpp"
#include "runtime/catalog/distillation_kinds.hpp"
#include "runtime/catalog/preference_kinds.hpp"

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
// Plain enums of the catalogue.
using catalog::AnswerScale;
using catalog::DivergenceKind;
using catalog::PreferenceKind;

// names_of: the YAML's spellings of an enum, in the order of its values.
constexpr std::string_view names_of(Dialect) { return "roll verl"; }

enum class Pipeline : uint8_t { agentic, rlvr, sft, dpo, rm, distill };
constexpr std::string_view names_of(Pipeline) { return "agentic rlvr sft dpo rm distill"; }
/// Trains on pairs of answers, a chosen and a rejected one.
constexpr bool has_pairs(Pipeline x) { return x == Pipeline::dpo || x == Pipeline::rm; }
/// Trains on rows of files; nothing is generated.
constexpr bool is_supervised(Pipeline x) { return x > Pipeline::rlvr; }
enum class Platform : uint8_t { cpu, cuda, npu };
constexpr std::string_view names_of(Platform) { return "cpu cuda npu"; }
enum class Grouping : uint8_t { traj_group_id, tags, batch, state, inductive };
constexpr std::string_view names_of(Grouping) { return "traj_group_id tags batch state inductive"; }
/// How ROLL's crossthinkqa weighs the letter against the box.
enum class ChoiceGrade : uint8_t { loose, soft, strict };
constexpr std::string_view names_of(ChoiceGrade) { return "loose soft strict"; }
enum class NormScope : uint8_t { none, batch, group, running };
constexpr std::string_view names_of(NormScope) { return "none batch group running"; }
enum class RatioType : uint8_t { token, segment };
constexpr std::string_view names_of(RatioType) { return "token segment"; }
/// What one train-infer ratio covers.
enum class ImportanceSampling : uint8_t { token, seq };
constexpr std::string_view names_of(ImportanceSampling) { return "token seq"; }
/// Of a trajectory, what its group is judged by.
enum class FilterMetric : uint8_t { score, reward, acc };
constexpr std::string_view names_of(FilterMetric) { return "score reward acc"; }
enum class BatchAdjustMode : uint8_t { copy, remove, automatic, random_sample };
constexpr std::string_view names_of(BatchAdjustMode) { return "copy delete auto random_sample"; }
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
constexpr std::string_view names_of(SchedulerType) {
  return "constant linear cosine constant_with_warmup cosine_with_restarts cosine_with_min_lr "
         "polynomial inverse_sqrt warmup_stable_decay";
}
/// How answers write tool calls (docs/tools.md).
enum class ToolFormat : uint8_t { hermes, llama3_json };
constexpr std::string_view names_of(ToolFormat) { return "hermes llama3_json"; }
/// Which part of a tool's text stays.
enum class CutSide : uint8_t { left, middle, right };
constexpr std::string_view names_of(CutSide) { return "left middle right"; }
enum class ToolType : uint8_t { python, plugin };
constexpr std::string_view names_of(ToolType) { return "python plugin"; }
enum class ModelDtype : uint8_t { fp32, bf16, fp16 };
constexpr std::string_view names_of(ModelDtype) { return "fp32 bf16 fp16"; }
/// Both dialects give this warning to a trained role in fp16: an engine computes it in f32.
inline constexpr std::string_view k_half_as_single =
    "fp16 computes in fp32, which has all of its values and needs no loss scale, and takes twice "
    "the memory; bf16 takes what fp16 does";
enum class AttnImplementation : uint8_t { automatic, sdpa, fa2 };
constexpr std::string_view names_of(AttnImplementation) { return "auto sdpa fa2"; }
enum class ModelType : uint8_t {
  trl,
  auto_sequence_classification,
  auto_token_classification,
  diffusion_module
};
constexpr std::string_view names_of(ModelType) {
  return "trl auto_sequence_classification auto_token_classification diffusion_module";
}
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
constexpr std::string_view names_of(Strategy) {
  return "none deepspeed_train fsdp2_train megatron_train diffusion_deepspeed_train "
         "deepspeed_infer fsdp2_infer megatron_infer hf_infer vllm sglang mock_infer";
}
enum class PlacementMode : uint8_t { separate, timeshare };
constexpr std::string_view names_of(PlacementMode) { return "separate timeshare"; }
enum class OffloadPolicy : uint8_t { never, step };
constexpr std::string_view names_of(OffloadPolicy) { return "never step"; }
enum class CacheArrival : uint8_t { late, early };
constexpr std::string_view names_of(CacheArrival) { return "late early"; }
/// Generation beside training (docs/async.md).
enum class AsyncMode : uint8_t { sync, one_step_off, fully_async };
constexpr std::string_view names_of(AsyncMode) { return "sync one_step_off fully_async"; }
enum class Determinism : uint8_t { strict, relaxed };
constexpr std::string_view names_of(Determinism) { return "strict relaxed"; }
/// Whose log-probs the ratio of the first optimizer step divides by: those recorded at generation,
/// the update's own forward pass (the ratio is 1), or a pass of the trainer before the update.
enum class OldLogProbs : uint8_t { behavior, first_pass, recomputed };
enum class SandboxMode : uint8_t { bubblewrap, rlimits };
constexpr std::string_view names_of(SandboxMode) { return "bubblewrap rlimits"; }
enum class PromptTruncation : uint8_t { error, left, right, middle };
constexpr std::string_view names_of(PromptTruncation) { return "error left right middle"; }

/// Returns the name as the YAML spells it.
template <class E>
requires requires(E x) { names_of(x); }
std::string_view to_string(E x) {
  const std::vector<std::string_view> names = catalog::words(names_of(x));
  const auto index = static_cast<size_t>(x);
  COHORT_CHECK(index < names.size(), "CONF-3: an enum holds one of its named values");
  return names[index];
}

}  // namespace cohort::config
