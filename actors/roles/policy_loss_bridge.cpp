#include "actors/roles/policy_loss_bridge.hpp"

#include <algorithm>

#include "algorithms/loss.hpp"
#include "runtime/base/check.hpp"
#include "runtime/compute/train/loss_factory.hpp"

namespace cohort::actors {
namespace {

double gap(const at::Tensor& logp, const at::Tensor& recorded, double tokens) {
  const at::NoGradGuard no_grad;
  return (logp - recorded).abs().sum().item<double>() / std::max(tokens, 1.0);
}

}  // namespace

compute::LossFactory make_policy_loss(const config::RunConfig& config) {
  algorithms::PolicyLossOptions options;
  options.kind = config.actor_train.pg_variant.value_or(catalog::PolicyLossKind::ppo);
  options.pg_clip = config.pg_clip;
  options.pg_clip_low = config.use_pg_clip_range ? config.pg_clip_low : config.pg_clip;
  options.pg_clip_high = config.use_pg_clip_range ? config.pg_clip_high : config.pg_clip;
  options.dual_clip = config.dual_clip_loss;
  options.loss_agg = config.loss_agg_mode;
  options.entropy_coef = config.entropy_loss_coef;
  options.use_kl_loss = config.use_kl_loss;
  options.kl_loss_coef = config.kl_loss_coef;
  options.kl = {config.kl_loss_kind, config.is_kl_loss_straight_through};
  const double norm_length =
      config.loss_scale_factor.value_or(static_cast<double>(config.sequence_length));
  const bool is_first_pass = config.derived.old_log_probs == config::OldLogProbs::first_pass;
  return [options, norm_length,
          is_first_pass](const compute::StepCounts& counts) -> compute::LossFunction {
    algorithms::GlobalCounts global{counts.tokens, counts.sequences, norm_length};
    return [options, global, is_first_pass](
               const compute::MicroBatch& batch,
               const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      algorithms::PolicyLossInput input;
      input.logp = outputs.logp;
      if (!is_first_pass) input.old_logp = batch.old_logp;
      input.advantages = batch.advantages;
      input.ref_logp = batch.ref_logp;
      input.entropy = outputs.entropy;
      input.seq_id = batch.seq_id;
      input.seq_count = batch.seq_count;
      algorithms::PolicyLoss loss = algorithms::policy_loss(input, options, global);
      if (is_first_pass)
        loss.numbers.add(k_behavior_gap, gap(outputs.logp, batch.old_logp, global.tokens));
      return {loss.total, loss.numbers};
    };
  };
}

compute::LossFactory make_sft_loss() {
  return [](const compute::StepCounts& counts) -> compute::LossFunction {
    algorithms::GlobalCounts global{counts.tokens, counts.sequences, 1};
    return [global](const compute::MicroBatch&,
                    const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      return {algorithms::sft_loss(outputs.logp, {}, global).total};
    };
  };
}

}  // namespace cohort::actors
