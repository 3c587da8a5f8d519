#pragma once
/// A small valid config for tests, and loading it with overrides.
#include <string>
#include <vector>

#include "runtime/config/load.hpp"
#include "tests/support/source_path.hpp"

namespace cohort::test {

inline constexpr const char* k_small_config = R"(exp_name: small
max_steps: 4
rollout_batch_size: 16
val_batch_size: 8
sequence_length: 128
adv_estimator: grpo
init_kl_coef: 0.0
reward_normalization: {grouping: traj_group_id, method: mean_std}
model:
  hidden_size: 32
actor_train:
  training_args:
    per_device_train_batch_size: 4
    gradient_accumulation_steps: 2
  device_mapping: list(range(0,1))
actor_infer:
  generating_args:
    max_new_tokens: 4
  device_mapping: [1]
train_env_manager: {num_env_groups: 4, group_size: 4, tags: [Lake]}
val_env_manager: {num_env_groups: 8, group_size: 1, tags: [Lake]}
custom_envs:
  Lake:
    env_type: frozen_lake
    max_tokens_per_step: 4
    agent_template: "{observation}"
)";

inline Expected<config::RunConfig> load_small(const std::vector<std::string>& overrides = {}) {
  return config::load_text(k_small_config, "small.yaml", overrides);
}

}  // namespace cohort::test
