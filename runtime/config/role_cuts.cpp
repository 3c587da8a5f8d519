#include "runtime/config/role_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/role_weights.hpp"

namespace cohort::config {
namespace {

/// Returns how the config cuts the state, its cuts of the model apart.
StateCut asked_of(const StrategySettings& s) {
  if (s.strategy == Strategy::fsdp2_train) return {3, s.offload_param};
  if (s.strategy == Strategy::megatron_train)
    return {s.use_distributed_optimizer ? 1 : 0, s.offload_param};
  return {s.zero_stage, s.offload_param};
}

/// "TP 2 x CP 2": the degrees above 1.
std::string degrees_of(const StrategySettings& s, int64_t ulysses, bool has_tp, bool has_ep) {
  std::string text;
  const auto add = [&text](std::string_view name, int64_t degree, bool is_meant) {
    if (is_meant && degree > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, degree);
  };
  add("TP", s.tensor_parallel_size, has_tp);
  add("PP", s.pipeline_parallel_size, true);
  add("CP", s.context_parallel_size, true);
  add("EP", s.expert_parallel_size, has_ep);
  add("Ulysses", ulysses, true);
  return text;
}

std::string state_text(const WorkerConfig& role) {
  const StateCut cut = state_cut_of(role), asked = asked_of(role.strategy_args);
  if (cut.zero_stage > asked.zero_stage)
    return fmt::format("the model's state is cut over all of them (ZeRO {})", cut.zero_stage);
  const bool is_whole =
      cut.zero_stage < asked.zero_stage || cut.offloads_params != asked.offloads_params;
  if (!is_whole) return "";
  const std::string experts =
      role.strategy_args.expert_parallel_size > 1 ? "but for its experts" : "";
  const std::string adapter = has_adapter(role.model_args) ? "under the adapter" : "";
  return fmt::format(
      "{}{}{} the model is whole on each card, its gradients and moments are cut (ZeRO "
      "{})",
      adapter, adapter.empty() || experts.empty() ? "" : " and ", experts, cut.zero_stage);
}

}  // namespace

StateCut state_cut_of(const WorkerConfig& role) {
  const StrategySettings& s = role.strategy_args;
  StateCut cut = asked_of(s);
  if (s.tensor_parallel_size * s.pipeline_parallel_size > 1) cut.zero_stage = 3;
  if (has_adapter(role.model_args) || s.expert_parallel_size > 1)
    cut = {std::min<int64_t>(cut.zero_stage, 2), false};
  return cut;
}

std::string cut_in_run(std::string_view name, const WorkerConfig& role, bool is_trained) {
  const StrategySettings& s = role.strategy_args;
  const bool is_rollout = name == "actor_infer";
  const std::string degrees = degrees_of(s, role.model_args.ulysses_size, !is_rollout, !is_trained);
  const std::string state = is_trained ? state_text(role) : "";
  if (degrees.empty()) return state.empty() ? "" : "in a run " + state;
  const size_t cards = role.device_mapping.size();
  if (is_rollout)
    return fmt::format("{}: in a run a replica is {} card{}, with every layer and expert", degrees,
                       s.tensor_parallel_size, s.tensor_parallel_size == 1 ? "" : "s");
  if (!is_trained)
    return fmt::format(
        "{}: in a run each of its {} cards has the whole model, and reads a share "
        "of the trajectories",
        degrees, cards);
  return fmt::format(
      "{}: in a run each of its {} cards takes whole sequences, in the batches of {} "
      "cop{}{}{}",
      degrees, cards, s.data_parallel_size, s.data_parallel_size == 1 ? "y" : "ies",
      state.empty() ? "" : "; ", state);
}

}  // namespace cohort::config
