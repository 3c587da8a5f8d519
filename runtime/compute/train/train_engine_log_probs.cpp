// TrainEngine: log-probabilities. Each rank computes its micro-batches; all get all of them.
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/ordered_work.hpp"
#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;
using State = TrainEngine::State;

Expected<void> log_probs_whole(const State& s, std::span<const TrainSample> samples,
                               const StepPlan& plan, std::vector<Tensor>& out) {
  const Tensor flat = s.compute_flat();
  const PolicyWeights weights = view_weights(flat, s.layout, false);
  auto work = [&](size_t round) -> Expected<Tensor> {
    use_single_threaded_math();
    at::NoGradGuard no_grad;
    const PackedBatch batch =
        to_device(pack(samples, plan.rows, plan.own(round)), s.torch_device());
    return policy_log_probs(weights, s.options.model, s.rope, batch, s.options.logits_max).logp;
  };
  auto commit = [&](size_t round, Tensor&& logp) { out[round] = logp.contiguous(); };
  OrderedWork<Tensor> workers(s.options.threads, plan.own_count());
  return workers.run(work, commit);
}

size_t response_count(std::span<const TrainSample> samples, const MicroSpan& span) {
  size_t count = 0;
  for (size_t i = span.begin; i < span.end; ++i)
    for (uint8_t mask : samples[i].response_mask) count += mask != 0 ? 1 : 0;
  return count;
}

}  // namespace

Expected<void> TrainEngine::log_probs(std::span<const TrainSample> samples,
                                      std::vector<std::vector<float>>& out) try {
  State& s = *state_;
  Expected<void> mine = s.require_on_card({TrainObject::train_params}, "log_probs");
  if (mine) mine = validate(samples, s.options.model);
  StepPlan plan;
  if (mine) plan = plan_step(s, samples);
  const size_t element = s.stage() == 3 ? s.compute_element() : 0;  // else nothing is gathered
  auto exchange = UnitExchange::create(s, element);
  if (mine && !exchange) mine = exchange.error();
  COHORT_TRY(s.agree(mine, plan.fingerprint, "log_probs"));
  out.resize(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) out[i].assign(samples[i].tokens.size(), 0.0f);
  std::vector<Tensor> own(plan.own_count());
  if (s.is_by_unit())
    COHORT_TRY(log_probs_by_unit(s, samples, plan, *exchange, own, mine));
  else
    mine = log_probs_whole(s, samples, plan, own);
  COHORT_TRY(s.agree(mine, 0, "log_probs"));
  std::vector<size_t> sizes(plan.ranks);
  for (size_t i = 0; i < plan.spans.size(); ++i)
    sizes[i % plan.ranks] += response_count(samples, plan.spans[i]) * sizeof(float);
  std::vector<std::byte> bytes;
  for (const Tensor& on_card : own) {
    const Tensor logp = on_card.cpu();
    const auto* data = static_cast<const std::byte*>(logp.data_ptr());
    bytes.insert(bytes.end(), data, data + static_cast<size_t>(logp.numel()) * sizeof(float));
  }
  COHORT_ASSIGN(auto all, s.gather_bytes(bytes, sizes));
  std::vector<size_t> used(plan.ranks);
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const size_t from = i % plan.ranks, count = response_count(samples, plan.spans[i]);
    scatter_log_probs(samples, plan.spans[i],
                      at::from_blob(all[from].data() + used[from], {static_cast<int64_t>(count)},
                                    at::dtype(at::kFloat)),
                      out);
    used[from] += count * sizeof(float);
  }
  return {};
} catch (const std::exception& e) {
  return failed("log_probs", e);
}

}  // namespace cohort::compute
