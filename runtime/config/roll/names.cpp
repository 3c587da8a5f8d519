#include "runtime/config/roll/names.hpp"

#include <array>

#include "runtime/base/check.hpp"

namespace cohort::config {
namespace {

using std::string_view;

constexpr std::array<string_view, 2> k_dialect_names = {"roll", "verl"};
constexpr std::array<string_view, 5> k_pipeline_names = {"agentic", "rlvr", "sft", "dpo",
                                                         "distill"};
constexpr std::array<string_view, 3> k_platform_names = {"cpu", "cuda", "npu"};
constexpr std::array<string_view, 5> k_grouping_names = {"traj_group_id", "tags", "batch", "state",
                                                         "inductive"};
constexpr std::array<string_view, 4> k_norm_scope_names = {"none", "batch", "group", "running"};
constexpr std::array<string_view, 2> k_ratio_type_names = {"token", "segment"};
constexpr std::array<string_view, 4> k_correction_type_names = {"token", "segment", "geometric",
                                                                "sequence"};
constexpr std::array<string_view, 2> k_importance_sampling_names = {"token", "seq"};
constexpr std::array<string_view, 4> k_batch_adjust_mode_names = {"copy", "delete", "auto",
                                                                  "random_sample"};
constexpr std::array<string_view, 9> k_scheduler_type_names = {"constant",
                                                               "linear",
                                                               "cosine",
                                                               "constant_with_warmup",
                                                               "cosine_with_restarts",
                                                               "cosine_with_min_lr",
                                                               "polynomial",
                                                               "inverse_sqrt",
                                                               "warmup_stable_decay"};
constexpr std::array<string_view, 3> k_model_dtype_names = {"fp32", "bf16", "fp16"};
constexpr std::array<string_view, 3> k_attn_implementation_names = {"auto", "sdpa", "fa2"};
constexpr std::array<string_view, 4> k_model_type_names = {
    "trl", "auto_sequence_classification", "auto_token_classification", "diffusion_module"};
constexpr std::array<string_view, 12> k_strategy_names = {"none",
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
constexpr std::array<string_view, 2> k_placement_mode_names = {"separate", "timeshare"};
constexpr std::array<string_view, 2> k_offload_policy_names = {"never", "step"};
constexpr std::array<string_view, 2> k_cache_arrival_names = {"late", "early"};
constexpr std::array<string_view, 2> k_determinism_names = {"strict", "relaxed"};
constexpr std::array<string_view, 2> k_sandbox_mode_names = {"bubblewrap", "rlimits"};
constexpr std::array<string_view, 4> k_prompt_truncation_names = {"error", "left", "right",
                                                                  "middle"};

template <class E>
string_view name_of(E x) {
  std::span<const string_view> names = names_of(x);
  auto index = static_cast<size_t>(x);
  COHORT_CHECK(index < names.size(), "CONF-3: an enum holds one of its named values");
  return names[index];
}

}  // namespace

std::span<const string_view> names_of(Dialect) { return k_dialect_names; }
std::span<const string_view> names_of(Pipeline) { return k_pipeline_names; }
std::span<const string_view> names_of(Platform) { return k_platform_names; }
std::span<const string_view> names_of(Grouping) { return k_grouping_names; }
std::span<const string_view> names_of(NormScope) { return k_norm_scope_names; }
std::span<const string_view> names_of(RatioType) { return k_ratio_type_names; }
std::span<const string_view> names_of(CorrectionType) { return k_correction_type_names; }
std::span<const string_view> names_of(ImportanceSampling) { return k_importance_sampling_names; }
std::span<const string_view> names_of(BatchAdjustMode) { return k_batch_adjust_mode_names; }
std::span<const string_view> names_of(SchedulerType) { return k_scheduler_type_names; }
std::span<const string_view> names_of(ModelDtype) { return k_model_dtype_names; }
std::span<const string_view> names_of(AttnImplementation) { return k_attn_implementation_names; }
std::span<const string_view> names_of(ModelType) { return k_model_type_names; }
std::span<const string_view> names_of(Strategy) { return k_strategy_names; }
std::span<const string_view> names_of(PlacementMode) { return k_placement_mode_names; }
std::span<const string_view> names_of(OffloadPolicy) { return k_offload_policy_names; }
std::span<const string_view> names_of(CacheArrival) { return k_cache_arrival_names; }
std::span<const string_view> names_of(Determinism) { return k_determinism_names; }
std::span<const string_view> names_of(SandboxMode) { return k_sandbox_mode_names; }
std::span<const string_view> names_of(PromptTruncation) { return k_prompt_truncation_names; }

string_view to_string(Dialect x) { return name_of(x); }
string_view to_string(Pipeline x) { return name_of(x); }
string_view to_string(Platform x) { return name_of(x); }
string_view to_string(Grouping x) { return name_of(x); }
string_view to_string(NormScope x) { return name_of(x); }
string_view to_string(RatioType x) { return name_of(x); }
string_view to_string(CorrectionType x) { return name_of(x); }
string_view to_string(ImportanceSampling x) { return name_of(x); }
string_view to_string(BatchAdjustMode x) { return name_of(x); }
string_view to_string(SchedulerType x) { return name_of(x); }
string_view to_string(ModelDtype x) { return name_of(x); }
string_view to_string(AttnImplementation x) { return name_of(x); }
string_view to_string(ModelType x) { return name_of(x); }
string_view to_string(Strategy x) { return name_of(x); }
string_view to_string(PlacementMode x) { return name_of(x); }
string_view to_string(OffloadPolicy x) { return name_of(x); }
string_view to_string(CacheArrival x) { return name_of(x); }
string_view to_string(Determinism x) { return name_of(x); }
string_view to_string(SandboxMode x) { return name_of(x); }
string_view to_string(PromptTruncation x) { return name_of(x); }

}  // namespace cohort::config
