#pragma once
/// verl's schema: as roll/describe.hpp, for VerlConfig.
#include "runtime/config/bind/visitor.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

/// Walks every key that verl knows, and Cohort's own beside them. The schema of the dialect.
void describe_verl(Visitor& visitor, VerlConfig& config);

// Parts of it, by section.
void describe_verl_data(Visitor& visitor, VerlConfig& config);
void describe_verl_actor(Visitor& visitor, VerlConfig& config);
void describe_verl_rollout(Visitor& visitor, VerlConfig& config);
void describe_verl_critic(Visitor& visitor, VerlConfig& config);
void describe_verl_reward(Visitor& visitor, VerlConfig& config);
void describe_verl_trainer(Visitor& visitor, VerlConfig& config);
void describe_verl_distillation(Visitor& visitor, VerlDistillation& distillation);

// Sections that several roles have.
void describe_verl_log_prob(Visitor& v, VerlMicro& x);
void describe_verl_optim(Visitor& v, VerlOptim& x);
void describe_verl_fsdp(Visitor& v, const Key& key, VerlFsdp& x);
void describe_verl_megatron(Visitor& v, VerlMegatron& x);
/// A critic has its fsdp_config here.
void describe_verl_model(Visitor& v, const Key& key, VerlModel& x, bool is_critic);

}  // namespace cohort::config
