#pragma once
/// ROLL's schema. To add a key: one member in run_config.hpp, one line in a describe function.
#include "runtime/config/bind/visitor.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::config {

inline constexpr std::string_view k_trainer = "trainer";  // readers of keys
inline constexpr std::string_view k_nobody = "nobody";

// What is not built in of distillation, and what to do instead.
inline constexpr std::string_view k_several_teachers =
    "several teachers are not built in: give one, as `teacher` with a device_mapping, and a run "
    "for each";

/// Walks every key of `config`. The schema.
void describe(Visitor& visitor, RunConfig& config);

// Parts of it, by section.
void describe_algorithm(Visitor& visitor, RunConfig& config);
void describe_policy_loss(Visitor& visitor, PolicyLossSection& loss);
void describe_correction(Visitor& visitor, TrainInferCorrection& correction);
void describe_rlvr(Visitor& visitor, RunConfig& config);
void describe_distillation(Visitor& visitor, RunConfig& config);
void describe_preference(Visitor& visitor, RunConfig& config);
void describe_roles(Visitor& visitor, RunConfig& config);
void describe_rewards(Visitor& visitor, RunConfig& config);
void describe_strategy(Visitor& visitor, StrategySettings& settings);
void describe_data_args(Visitor& visitor, DataArgs& data);
/// Keys of whatever can be loaded; `reader` is who uses them.
void describe_plugin(Visitor& visitor, PluginSection& plugin, std::string_view reader);
/// Its keys about the processes alone: timeout_s, workers, python, sandbox.
void describe_plugin_process(Visitor& visitor, PluginSection& plugin, std::string_view reader);
void describe_generating_args(Visitor& visitor, GeneratingArgs& sampling);
/// A role. What it does decides which of its keys have an effect.
struct RoleUse {
  bool is_train = false;
  bool is_infer = false;   // generates
  bool is_reward = false;  // a rule unless it has cards
  bool is_rollout = false;
  bool reads_rows = false;  // in some pipelines it trains on rows of files
};
void describe_worker(Visitor& visitor, WorkerConfig& worker, const Key& key, RoleUse use);
/// The keys of a role that are not sections: cards, batch sizes, environment variables.
void describe_worker_keys(Visitor& visitor, WorkerConfig& worker, RoleUse use);
void describe_model_args(Visitor& visitor, ModelArgs& model, bool is_trained);
void describe_environments(Visitor& visitor, RunConfig& config);
void describe_tools(Visitor& visitor, RunConfig& config);
void describe_runtime(Visitor& visitor, RunConfig& config);

}  // namespace cohort::config
