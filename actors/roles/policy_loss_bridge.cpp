#include "actors/roles/policy_loss_bridge.hpp"

#include <algorithm>

#include "algorithms/distillation.hpp"
#include "algorithms/loss.hpp"
#include "algorithms/losses/surrogate.hpp"
#include "algorithms/preference.hpp"
#include "algorithms/value_loss.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/text.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/micro_batch.hpp"

namespace cohort::actors {
namespace {

using at::Tensor;

/// Of demonstrations, which luffy marks, nothing was recorded.
double gap(const Tensor& logp, const compute::MicroBatch& batch, bool is_luffy, double tokens) {
  const at::NoGradGuard no_grad;
  at::Tensor gaps = (logp - batch.old_logp).abs();
  if (is_luffy && batch.marks.defined()) gaps = gaps.masked_fill(batch.marks.gt(0), 0.0);
  return gaps.sum().item<double>() / std::max(tokens, 1.0);
}

constexpr double k_roll_cispo = 0.1;   // ROLL drops its keys: the range is always this
constexpr double k_kimi_tau = 0.1;     // ROLL's, likewise
constexpr double k_prime_tau = 0.001;  // prime-rl's kl_tau

algorithms::RatioLevel ratio_level(const config::RunConfig& config) {
  if (config.ratio_type == config::RatioType::segment) return algorithms::RatioLevel::segment;
  const bool is_rlvr = config.pipeline == config::Pipeline::rlvr;
  return is_rlvr && config.rlvr.importance_sampling == config::ImportanceSampling::seq
             ? algorithms::RatioLevel::sequence
             : algorithms::RatioLevel::token;
}

void set_numbers(const config::RunConfig& config, algorithms::PolicyLossOptions& options) {
  using catalog::PolicyLossKind;
  const config::PolicyLossSection& x = config.policy_loss;
  options.dual_clip_bound = x.dual_clip_bound;
  options.ratio_cap = x.ratio_cap;
  options.off_policy_mask = x.off_policy_mask;
  options.quadratic_coef = x.quadratic_coef.value_or(
      options.kind == PolicyLossKind::prime_rl ? k_prime_tau : k_kimi_tau);
  options.topr_positive = config.actor_train.topr_positive_weight;
  options.topr_negative = config.actor_train.topr_negative_weight;
  options.tau_pos = x.tau_pos;
  options.tau_neg = x.tau_neg;
  options.clip_cov_ratio = x.clip_cov_ratio;
  options.clip_cov_lb = x.clip_cov_lb;
  options.clip_cov_ub = x.clip_cov_ub;
  options.kl_cov_ratio = x.kl_cov_ratio;
  options.ppo_kl_coef = x.ppo_kl_coef;
  options.k_pos = x.k_pos;
  options.lambda_pos = x.lambda_pos;
  options.k_neg = x.k_neg;
  options.lambda_neg = x.lambda_neg;
  options.shaping_gamma = x.shaping_gamma;
  options.correction = config.train_infer_correction.rules;
}

algorithms::PolicyLossOptions loss_options(const config::RunConfig& config) {
  algorithms::PolicyLossOptions options;
  options.kind = policy_loss_kind(config);
  options.pg_clip = config.pg_clip;
  options.pg_clip_low = config.use_pg_clip_range ? config.pg_clip_low : config.pg_clip;
  options.pg_clip_high = config.use_pg_clip_range ? config.pg_clip_high : config.pg_clip;
  if (options.kind == catalog::PolicyLossKind::cispo && !config.use_pg_clip_range)
    options.pg_clip_low = options.pg_clip_high = k_roll_cispo;
  options.dual_clip = config.dual_clip_loss;
  options.ratio_level = ratio_level(config);
  if (config.pipeline == config::Pipeline::rlvr) options.rl_coef = config.rlvr.rl_loss_coef;
  set_numbers(config, options);
  options.loss_agg = config.loss_agg_mode;
  options.entropy_coef = config.entropy_loss_coef;
  options.use_kl_loss = config.use_kl_loss;
  options.kl_loss_coef = config.kl_loss_coef;
  options.kl = {config.kl_loss_kind, config.is_kl_loss_straight_through};
  return options;
}

algorithms::PreferenceOptions preference_options(const config::PreferenceSection& x) {
  algorithms::PreferenceOptions options;
  options.kind = x.loss;
  options.beta = x.beta;
  options.label_smoothing = x.label_smoothing;
  options.scale = x.answer_scale;
  if (x.loss == config::PreferenceKind::simpo) options.gamma_beta_ratio = x.gamma_beta_ratio;
  return options;
}

/// Sums over answers [P]; those of pairs in other micro-batches are 0.
struct Sides {
  Tensor chosen, rejected;
};
Sides sides_of(const Tensor& tokens, const compute::MicroBatch& batch) {
  const Tensor sums =
      algorithms::sequence_sums(tokens, {{}, batch.seq_id, batch.seq_count}).view({-1, 2});
  return {sums.select(1, 0), sums.select(1, 1)};
}

algorithms::PairLoss preference_of(const compute::MicroBatch& batch, const Tensor& logp,
                                   const algorithms::PreferenceOptions& options, double pairs) {
  const Sides policy = sides_of(logp, batch), lengths = sides_of(at::ones_like(logp), batch);
  algorithms::PreferenceInput input;
  input.policy_chosen = policy.chosen;
  input.policy_rejected = policy.rejected;
  if (options.kind != catalog::PreferenceKind::simpo) {
    const bool has_reference = batch.ref_logp.defined();
    const Sides ref = sides_of(has_reference ? batch.ref_logp : at::zeros_like(logp), batch);
    input.ref_chosen = ref.chosen;
    input.ref_rejected = ref.rejected;
  }
  input.length_chosen = lengths.chosen;
  input.length_rejected = lengths.rejected;
  input.mask = lengths.chosen.gt(0);
  return algorithms::preference_loss(input, options, pairs);
}

}  // namespace

catalog::PolicyLossKind policy_loss_kind(const config::RunConfig& config) {
  return config.actor_train.pg_variant.value_or(catalog::PolicyLossKind::ppo);
}

std::vector<uint8_t> token_picks(const config::RunConfig& config, const PickColumns& tokens) {
  const algorithms::PolicyLossOptions options = loss_options(config);
  const algorithms::TokenPicks picks = algorithms::loss_form(options.kind).picks;
  COHORT_CHECK(picks != nullptr, "LOSS-2: a loss with need::first_pass says what it picks");
  return picks({tokens.logp, tokens.old_logp, tokens.advantages, tokens.rng}, options);
}

namespace {

/// What of a config the policy loss of a micro-batch depends on.
struct PolicyLossRule {
  explicit PolicyLossRule(const config::RunConfig& config)
      : options(loss_options(config)),
        norm_length(config.loss_scale_factor.value_or(static_cast<double>(config.sequence_length))),
        is_first_pass(config.derived.old_log_probs == config::OldLogProbs::first_pass) {}

  algorithms::PolicyLoss operator()(const compute::StepCounts& counts,
                                    const compute::MicroBatch& batch,
                                    const compute::MicroOutputs& outputs) const {
    const algorithms::GlobalCounts global{counts.tokens, counts.sequences, norm_length,
                                          static_cast<double>(counts.sequence_tokens.size())};
    algorithms::PolicyLossInput input;
    input.logp = outputs.logp;
    if (!is_first_pass) input.old_logp = batch.old_logp;
    input.advantages = batch.advantages;
    input.ref_logp = batch.ref_logp;
    input.entropy = outputs.entropy;
    input.weights = batch.weights;
    input.marks = batch.marks;
    input.seq_id = batch.seq_id;
    input.seq_count = batch.seq_count;
    input.segment_id = batch.segment_id;
    input.segment_count = batch.segment_count;
    algorithms::PolicyLoss loss = algorithms::policy_loss(input, options, global);
    if (is_first_pass)
      loss.numbers.add(
          k_behavior_gap,
          gap(outputs.logp, batch, options.kind == catalog::PolicyLossKind::luffy, global.tokens));
    return loss;
  }

  algorithms::PolicyLossOptions options;
  double norm_length;
  bool is_first_pass;
};

/// The response tokens of rows with one entry per token [M] f32.
at::Tensor of_responses(std::span<const compute::TrainSample> samples,
                        const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t t = 0; t < rows[i].size(); ++t)
      if (samples[i].response_mask[t] != 0) values.push_back(rows[i][t]);
  return at::tensor(values, at::kFloat);
}

/// The other way: 0 where the mask is 0.
std::vector<std::vector<float>> to_rows(std::span<const compute::TrainSample> samples,
                                        const at::Tensor& values) {
  std::vector<std::vector<float>> rows;
  for (const compute::TrainSample& sample : samples) rows.emplace_back(sample.tokens.size(), 0.0f);
  compute::scatter_log_probs(samples, {0, samples.size()}, values, rows);
  return rows;
}

}  // namespace

compute::LossFactory make_policy_loss(const config::RunConfig& config) {
  return [rule = PolicyLossRule(config)](const compute::StepCounts& counts) {
    return [rule, counts](const compute::MicroBatch& batch,
                          const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      algorithms::PolicyLoss loss = rule(counts, batch, outputs);
      return {loss.total, loss.numbers};
    };
  };
}

TokenLosses policy_loss_of(const config::RunConfig& config, const LossColumns& columns) {
  const std::span<const compute::TrainSample> samples = columns.samples;
  compute::MicroOutputs outputs;
  outputs.logp = of_responses(samples, columns.logp).set_requires_grad(true);
  if (!columns.entropy.empty()) outputs.entropy = of_responses(samples, columns.entropy);
  const algorithms::PolicyLoss loss =
      PolicyLossRule(config)(compute::count_responses(samples),
                             compute::loss_columns(samples, {0, samples.size()}), outputs);
  const at::Tensor gradient = torch::autograd::grad({loss.total}, {outputs.logp}).front();
  return {to_rows(samples, loss.tokens), to_rows(samples, gradient), loss.total.item<double>(),
          loss.numbers};
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

compute::LossFactory make_distill_loss(const config::RunConfig& config) {
  return [weight = config.distill.loss_weight](
             const compute::StepCounts& counts) -> compute::LossFunction {
    algorithms::GlobalCounts global{counts.tokens, counts.sequences, 1};
    return [weight, global](const compute::MicroBatch&,
                            const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      const Tensor apart = outputs.divergence.sum() / global.tokens;
      const Tensor own = algorithms::sft_loss(outputs.logp, {}, global).total;
      compute::MicroLoss loss{weight * apart + (1 - weight) * own};
      loss.numbers.add("distill/divergence", apart.item<double>());
      loss.numbers.add("distill/nll", own.item<double>());
      return loss;
    };
  };
}

compute::LogitDivergence make_divergence(const config::RunConfig& config) {
  const config::DistillSection& x = config.distill;
  const algorithms::DistillationOptions options{
      x.objective,   x.temperature, x.teacher_temperature, x.topk, x.adaptive_alpha,
      x.skew_lambda, x.gkd_beta};
  return [options](const Tensor& student, const Tensor& teacher) {
    return algorithms::token_divergence(student, teacher, options);
  };
}

namespace {

compute::LossFactory make_score_loss(double center_coef) {
  return [center_coef](const compute::StepCounts& counted) -> compute::LossFunction {
    const double pairs = counted.sequences / 2;
    return [center_coef, pairs](const compute::MicroBatch& batch,
                                const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      const Sides scores = sides_of(outputs.logp, batch);
      const Tensor mask = sides_of(at::ones_like(outputs.logp), batch).chosen.gt(0);
      algorithms::PairLoss loss = algorithms::reward_model_loss(
          {scores.chosen, scores.rejected, {}, mask}, center_coef, pairs);
      return {loss.total, loss.numbers};
    };
  };
}

}  // namespace

compute::LossFactory make_pair_loss(const config::RunConfig& config) {
  if (config.pipeline == config::Pipeline::rm)
    return make_score_loss(config.preference.center_rewards_coefficient);
  const algorithms::PreferenceOptions options = preference_options(config.preference);
  return [options](const compute::StepCounts& counted) -> compute::LossFunction {
    const double pairs = counted.sequences / 2;
    return [options, pairs](const compute::MicroBatch& batch,
                            const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      algorithms::PairLoss loss = preference_of(batch, outputs.logp, options, pairs);
      return {loss.total, loss.numbers};
    };
  };
}

Expected<Numbers> pair_numbers(const config::RunConfig& config,
                               std::span<const compute::TrainSample> samples,
                               const std::vector<std::vector<float>>& logp) {
  try {
    const at::NoGradGuard no_grad;
    std::vector<float> tokens;
    for (size_t i = 0; i < samples.size(); ++i)
      for (size_t t = 0; t < logp[i].size(); ++t)
        if (samples[i].response_mask[t] != 0) tokens.push_back(logp[i][t]);
    const compute::LossFunction loss = make_pair_loss(config)(compute::count_responses(samples));
    return loss(compute::loss_columns(samples, {0, samples.size()}),
                {at::tensor(tokens, at::kFloat), {}})
        .numbers;
  } catch (const std::exception& e) {
    return Error{Errc::compute, "pairs: " + first_line(e.what())};
  }
}

compute::LossFactory make_value_loss(const config::RunConfig& config) {
  algorithms::ValueLossOptions options;
  options.value_clip = config.value_clip;
  options.loss_agg = config.derived.critic.loss_agg;
  const double norm_length =
      config.loss_scale_factor.value_or(static_cast<double>(config.sequence_length));
  return [options, norm_length](const compute::StepCounts& counts) -> compute::LossFunction {
    algorithms::GlobalCounts global{counts.tokens, counts.sequences, norm_length};
    return [options, global](const compute::MicroBatch& batch,
                             const compute::MicroOutputs& outputs) -> compute::MicroLoss {
      algorithms::ValueLoss loss = algorithms::value_loss(
          {outputs.logp, batch.old_logp, batch.advantages, {{}, batch.seq_id, batch.seq_count}},
          options, global);
      return {loss.total, loss.numbers};
    };
  };
}

}  // namespace cohort::actors
