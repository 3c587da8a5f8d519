#pragma once
/// Enums of the configuration; names.hpp has the YAML's spelling of each value. Value types.
/// A value that can be written is not always one that this version runs: actors::preflight refuses
/// what it cannot, naming the key.
#include <cstdint>
#include <string_view>

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

enum class Pipeline : uint8_t { agentic, rlvr, sft, dpo, distill };
enum class Platform : uint8_t { cpu, cuda, npu };
enum class Grouping : uint8_t { traj_group_id, tags, batch, state, inductive };
enum class NormScope : uint8_t { none, batch, group, running };
enum class RatioType : uint8_t { token, segment };
/// What one train-infer ratio covers.
enum class CorrectionType : uint8_t { token, segment, geometric, sequence };
enum class ImportanceSampling : uint8_t { token, seq };
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
enum class SandboxMode : uint8_t { bubblewrap, rlimits };
enum class PromptTruncation : uint8_t { error, left, right, middle };

/// Names as the YAML spells them.
std::string_view to_string(Dialect x);
std::string_view to_string(Pipeline x);
std::string_view to_string(Platform x);
std::string_view to_string(Grouping x);
std::string_view to_string(NormScope x);
std::string_view to_string(RatioType x);
std::string_view to_string(CorrectionType x);
std::string_view to_string(ImportanceSampling x);
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
std::string_view to_string(SandboxMode x);
std::string_view to_string(PromptTruncation x);

}  // namespace cohort::config
