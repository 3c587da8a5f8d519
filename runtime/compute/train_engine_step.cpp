// TrainEngine: forward, backward and the optimizer step.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/clock.hpp"
#include "runtime/compute/cpu/kernels.hpp"
#include "runtime/compute/cpu_setup.hpp"
#include "runtime/compute/micro_batch.hpp"
#include "runtime/compute/ordered_work.hpp"
#include "runtime/compute/train_state.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

/// Gradient of one micro-batch: one tensor per weight leaf (undefined = zero), and the loss's
/// numbers.
struct MicroResult {
  std::vector<Tensor> gradients;
  std::vector<int64_t> offsets;
  MicroLoss loss;
  double total = 0;
};

struct StepPlan {
  std::vector<int64_t> rows;
  std::vector<MicroSpan> spans;
};

/// Samples without a response token at the edges of a span cost nothing: their rows are 0.
StepPlan plan_step(std::span<const TrainSample> samples, int64_t micro_batch_tokens) {
  StepPlan plan;
  plan.rows = input_rows(samples);
  plan.spans = plan_micro_batches(plan.rows, micro_batch_tokens);
  return plan;
}

void add_gradients(const MicroResult& result, std::span<float> flat) {
  for (size_t i = 0; i < result.gradients.size(); ++i) {
    if (!result.gradients[i].defined()) continue;
    Tensor gradient = result.gradients[i].to(at::kFloat).contiguous();
    cpu::kernels().add(flat.data() + result.offsets[i], gradient.data_ptr<float>(),
                       gradient.numel());
  }
}

void add_numbers(const MicroResult& result, StepReport& report) {
  report.loss += result.total;
  report.pg_loss += result.loss.pg_loss;
  report.entropy += result.loss.entropy;
  report.kl += result.loss.kl;
  report.clip_fraction += result.loss.clip_fraction;
  report.approx_kl += result.loss.approx_kl;
  report.ratio_max = std::max(report.ratio_max, result.loss.ratio_max);
}

Error with_step(const Error& error, uint64_t step) {
  return error.with_context(fmt::format("optimizer step {}", step));
}

}  // namespace

Expected<StepReport> TrainEngine::step(std::span<const TrainSample> samples,
                                       const LossFactory& loss, double learning_rate) {
  const double begin = now_seconds();
  State& s = *state_;
  if (s.options.is_frozen)
    return Error{Errc::invalid_argument,
                 fmt::format("{} is frozen: it takes no step", s.options.role)};
  COHORT_TRY(s.require_on_card(
      {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer}, "step"));
  COHORT_TRY(validate(samples, s.options.model));
  const StepPlan plan = plan_step(samples, s.options.micro_batch_tokens);
  if (plan.spans.empty())
    return Error{Errc::invalid_argument, "step: no sample has a response token"};
  const StepCounts counts = count_responses(samples);
  const LossFunction function = loss(counts);
  StepReport report;
  std::span<float> gradients = s.grads_span();
  std::fill(gradients.begin(), gradients.end(), 0.0f);
  const Tensor flat = s.compute_flat();

  auto work = [&](size_t index) -> Expected<MicroResult> {
    use_single_threaded_math();
    at::AutoGradMode grad_on(true);
    const MicroSpan span = plan.spans[index];
    const PolicyWeights weights = view_weights(flat, s.options.model, s.layout, true);
    const PackedBatch batch = pack(samples, plan.rows, span);
    const ops::TokenLogProbs out =
        policy_log_probs(weights, s.options.model, s.rope, batch, s.options.logits_max);
    MicroResult result;
    result.loss = function(loss_columns(samples, span), {out.logp, out.entropy});
    torch::autograd::variable_list leaves;
    for (const auto& leaf : weights.leaves) {
      leaves.push_back(leaf.tensor);
      result.offsets.push_back(leaf.offset);
    }
    result.total = result.loss.total.item<double>();
    result.gradients = torch::autograd::grad({result.loss.total}, leaves, {}, false, false, true);
    result.loss.total.reset();  // frees the graph on this thread
    return result;
  };
  auto commit = [&](size_t, MicroResult&& result) {
    add_gradients(result, gradients);
    add_numbers(result, report);
  };
  OrderedWork<MicroResult> workers(s.options.threads, plan.spans.size());
  if (auto done = workers.run(work, commit); !done) return with_step(done.error(), s.steps + 1);

  auto norm = adamw_step({s.master_span(), s.m_span(), s.v_span(), gradients}, s.ranges,
                         s.options.optimizer, learning_rate, s.steps + 1);
  if (!norm) return norm.error();
  s.refresh_compute();
  ++s.steps;
  report.grad_norm = *norm;
  report.learning_rate = learning_rate;
  for (const TrainSample& sample : samples) report.tokens += sample.tokens.size();
  report.response_tokens = static_cast<uint64_t>(counts.tokens);
  report.micro_batches = plan.spans.size();
  report.seconds = now_seconds() - begin;
  return report;
}

Expected<void> TrainEngine::log_probs(std::span<const TrainSample> samples,
                                      std::vector<std::vector<float>>& out) {
  State& s = *state_;
  COHORT_TRY(s.require_on_card({TrainObject::train_params}, "log_probs"));
  COHORT_TRY(validate(samples, s.options.model));
  out.resize(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) out[i].assign(samples[i].tokens.size(), 0.0f);
  const StepPlan plan = plan_step(samples, s.options.micro_batch_tokens);
  const Tensor flat = s.compute_flat();
  const PolicyWeights weights = view_weights(flat, s.options.model, s.layout, false);
  auto work = [&](size_t index) -> Expected<Tensor> {
    use_single_threaded_math();
    at::NoGradGuard no_grad;
    const PackedBatch batch = pack(samples, plan.rows, plan.spans[index]);
    return policy_log_probs(weights, s.options.model, s.rope, batch, s.options.logits_max).logp;
  };
  auto commit = [&](size_t index, Tensor&& logp) {
    scatter_log_probs(samples, plan.spans[index], logp, out);
  };
  OrderedWork<Tensor> workers(s.options.threads, plan.spans.size());
  return workers.run(work, commit);
}

}  // namespace cohort::compute
