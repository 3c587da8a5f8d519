#include "runtime/config/names.hpp"

#include <array>

#include "runtime/base/check.hpp"

namespace cohort::config {
namespace {

constexpr std::array<std::string_view, 3> k_platform_names = {"cpu", "cuda", "npu"};
constexpr std::array<std::string_view, 3> k_adv_estimator_names = {"gae", "grpo", "reinforce"};
constexpr std::array<std::string_view, 4> k_kl_penalty_names = {"kl", "abs", "mse", "k3"};
constexpr std::array<std::string_view, 4> k_loss_agg_mode_names = {
    "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"};
constexpr std::array<std::string_view, 3> k_grouping_names = {"traj_group_id", "tags", "batch"};
constexpr std::array<std::string_view, 4> k_norm_method_names = {"identity", "mean", "mean_std",
                                                                 "asym_clip"};
constexpr std::array<std::string_view, 3> k_norm_scope_names = {"none", "batch", "group"};
constexpr std::array<std::string_view, 3> k_scheduler_type_names = {"constant", "linear", "cosine"};
constexpr std::array<std::string_view, 3> k_model_dtype_names = {"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 2> k_placement_mode_names = {"separate", "timeshare"};
constexpr std::array<std::string_view, 2> k_offload_policy_names = {"never", "step"};
constexpr std::array<std::string_view, 2> k_determinism_names = {"strict", "relaxed"};
constexpr std::array<std::string_view, 1> k_reward_type_names = {"env_return"};
constexpr std::array<std::string_view, 3> k_env_type_names = {"frozen_lake", "sokoban", "webshop"};

template <class E>
std::string_view name_of(E x) {
  std::span<const std::string_view> names = names_of(x);
  auto index = static_cast<size_t>(x);
  COHORT_CHECK(index < names.size(), "CONF-3: an enum holds one of its named values");
  return names[index];
}

}  // namespace

std::span<const std::string_view> names_of(Platform) { return k_platform_names; }
std::span<const std::string_view> names_of(AdvEstimator) { return k_adv_estimator_names; }
std::span<const std::string_view> names_of(KlPenalty) { return k_kl_penalty_names; }
std::span<const std::string_view> names_of(LossAggMode) { return k_loss_agg_mode_names; }
std::span<const std::string_view> names_of(Grouping) { return k_grouping_names; }
std::span<const std::string_view> names_of(NormMethod) { return k_norm_method_names; }
std::span<const std::string_view> names_of(NormScope) { return k_norm_scope_names; }
std::span<const std::string_view> names_of(SchedulerType) { return k_scheduler_type_names; }
std::span<const std::string_view> names_of(ModelDtype) { return k_model_dtype_names; }
std::span<const std::string_view> names_of(PlacementMode) { return k_placement_mode_names; }
std::span<const std::string_view> names_of(OffloadPolicy) { return k_offload_policy_names; }
std::span<const std::string_view> names_of(Determinism) { return k_determinism_names; }
std::span<const std::string_view> names_of(RewardType) { return k_reward_type_names; }
std::span<const std::string_view> names_of(EnvType) { return k_env_type_names; }

std::string_view to_string(Platform x) { return name_of(x); }
std::string_view to_string(AdvEstimator x) { return name_of(x); }
std::string_view to_string(KlPenalty x) { return name_of(x); }
std::string_view to_string(LossAggMode x) { return name_of(x); }
std::string_view to_string(Grouping x) { return name_of(x); }
std::string_view to_string(NormMethod x) { return name_of(x); }
std::string_view to_string(NormScope x) { return name_of(x); }
std::string_view to_string(SchedulerType x) { return name_of(x); }
std::string_view to_string(ModelDtype x) { return name_of(x); }
std::string_view to_string(PlacementMode x) { return name_of(x); }
std::string_view to_string(OffloadPolicy x) { return name_of(x); }
std::string_view to_string(Determinism x) { return name_of(x); }
std::string_view to_string(RewardType x) { return name_of(x); }
std::string_view to_string(EnvType x) { return name_of(x); }

}  // namespace cohort::config
