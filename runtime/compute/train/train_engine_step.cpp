// TrainEngine: forward, backward and the optimizer step over the ranks of a group.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "runtime/base/clock.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/gradient_norm.hpp"
#include "runtime/compute/train/ordered_work.hpp"
#include "runtime/compute/train/train_step.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;
using State = TrainEngine::State;

/// Gradient of one micro-batch and the loss's numbers.
struct MicroResult {
  LeafGradients gradients;
  MicroNumbers numbers;
};

template <class T>
void add_bytes(tensor::Checksum& sum, std::span<const T> values) {
  sum.update(std::as_bytes(values));
}

uint64_t fingerprint_of(std::span<const TrainSample> samples) {
  tensor::Checksum sum;
  for (const TrainSample& sample : samples) {
    add_bytes(sum, sample.tokens);
    add_bytes(sum, sample.response_mask);
    add_bytes(sum, sample.old_logp);
    add_bytes(sum, sample.advantages);
    add_bytes(sum, sample.ref_logp);
    const uint64_t size = sample.tokens.size();
    add_bytes(sum, std::span(&size, 1));
  }
  return sum.digest();
}

/// Adds everybody's numbers in micro-batch order.
Expected<void> gather_numbers(const State& s, const StepPlan& plan,
                              const std::vector<MicroNumbers>& mine, StepReport& report) {
  std::vector<size_t> sizes;
  for (size_t r = 0; r < plan.ranks; ++r) sizes.push_back(plan.own_count(r) * sizeof(MicroNumbers));
  COHORT_ASSIGN(auto all, s.gather_bytes(std::as_bytes(std::span(mine)), sizes));
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    MicroNumbers one;
    std::memcpy(&one, all[i % plan.ranks].data() + i / plan.ranks * sizeof one, sizeof one);
    report.loss += one.total;
    report.numbers.add(one.of_loss);
  }
  return {};
}

/// Calls visit(span) for this rank's part of each tensor's gradient.
template <class Visit>
void for_each_own_gradient(const State& s, Visit visit) {
  const HeldBuffer grads = s.grads_buffer();
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const TensorPart part = s.zero.part(spec, s.rank());
    visit(std::span<const float>(s.find_float(grads, spec, part.begin),
                                 static_cast<size_t>(part.count())));
  }
}

/// Returns the norm over all ranks, the same bits on each and for any cut (NORM-1); infinity if a
/// gradient is not finite.
Expected<double> global_norm(const State& s) {
  const auto ranks = static_cast<size_t>(s.ranks());
  uint32_t largest = 0;
  for_each_own_gradient(s, [&](std::span<const float> values) {
    largest = std::max(largest, s.math.largest_magnitude(values));
  });
  COHORT_ASSIGN(auto magnitudes, s.gather_bytes(std::as_bytes(std::span(&largest, 1)),
                                                std::vector<size_t>(ranks, sizeof largest)));
  for (const auto& bytes : magnitudes) {
    uint32_t other = 0;
    std::memcpy(&other, bytes.data(), sizeof other);
    largest = std::max(largest, other);
  }
  if (largest >= k_not_finite) return double{INFINITY};
  SquareSum own, total;
  for_each_own_gradient(
      s, [&](std::span<const float> values) { own += s.math.sum_of_squares(values, largest); });
  COHORT_ASSIGN(auto sums, s.gather_bytes(std::as_bytes(std::span(&own, 1)),
                                          std::vector<size_t>(ranks, sizeof own)));
  for (const auto& bytes : sums) {
    SquareSum other;
    std::memcpy(&other, bytes.data(), sizeof other);
    total += other;
  }
  return norm_of(total, largest);
}

Expected<MicroResult> run_micro_batch(const StepInput& in, const Tensor& flat,
                                      const MicroSpan& span) {
  const State& s = in.state;
  use_single_threaded_math();
  at::AutoGradMode grad_on(true);
  const PolicyWeights weights = view_weights(flat, s.layout, true);
  const PackedBatch batch = to_device(pack(in.samples, in.plan.rows, span), s.torch_device());
  const ops::TokenLogProbs out =
      policy_log_probs(weights, s.options.model, s.rope, batch, s.options.logits_max);
  MicroLoss loss =
      in.loss(to_device(loss_columns(in.samples, span), s.torch_device()), {out.logp, out.entropy});
  torch::autograd::variable_list leaves;
  for (const auto& leaf : weights.leaves) leaves.push_back(leaf.tensor);
  MicroResult result;
  result.numbers = {loss.total.item<double>(), loss.numbers};
  result.gradients = LeafGradients(
      torch::autograd::grad({loss.total}, leaves, {}, false, false, true), weights.leaves);
  loss.total.reset();  // frees the graph on this thread
  return result;
}

/// One exchange per step: each rank has summed its own micro-batches.
Expected<void> accumulate_per_card(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  const Tensor flat = s.compute_flat();
  auto work = [&](size_t round) { return run_micro_batch(in, flat, in.plan.own(round)); };
  auto commit = [&](size_t round, MicroResult&& result) {
    in.numbers[round] = result.numbers;
    for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
      const FlatSource from = result.gradients.find(s.layout.specs[spec].offset);
      if (!from) continue;
      s.math.add(s.find_float(s.grads_buffer(), spec, 0), from, s.layout.specs[spec].count,
                 s.is_bf16());
    }
  };
  OrderedWork<MicroResult> workers(s.options.threads, in.plan.own_count());
  mine = workers.run(work, commit);
  for (const ZeroUnit& unit : s.zero.units()) COHORT_TRY(in.exchange.sum_gradients(unit));
  return {};
}

/// Gathers whole tensors from everybody's parts, in place.
Expected<void> make_whole(const State& s, UnitExchange& exchange, const HeldBuffer& buffer) {
  if (s.ranks() == 1) return {};
  for (const ZeroUnit& unit : s.zero.units())
    COHORT_TRY(exchange.gather(unit, buffer,
                               buffer.data + static_cast<size_t>(unit.begin) * buffer.element));
  return {};
}

/// Bytes of the widest element that travels in a step.
size_t step_element(const State& s) {
  const bool has_f32 =
      s.stage() == 0 || s.options.zero.reduce == GradientReduce::per_card || !s.is_bf16();
  return has_f32 ? sizeof(float) : sizeof(uint16_t);
}

Expected<void> check_step(const State& s, std::span<const TrainSample> samples) {
  if (s.options.is_frozen)
    return Error{Errc::invalid_argument,
                 fmt::format("{} is frozen: it takes no step", s.options.role)};
  COHORT_TRY(s.require_on_card(
      {TrainObject::train_params, TrainObject::grads, TrainObject::optimizer}, "step"));
  return validate(samples, s.options.model);
}

Expected<void> accumulate(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  s.math.zero(s.grads.data(), s.grads.size_bytes());
  if (s.is_by_unit()) return accumulate_by_unit(in, mine);
  if (s.options.zero.reduce == GradientReduce::per_card && s.ranks() > 1)
    return accumulate_per_card(in, mine);
  return accumulate_whole(in, mine);
}

}  // namespace

StepPlan plan_step(const State& s, std::span<const TrainSample> samples) {
  StepPlan plan;
  plan.rows = input_rows(samples);
  plan.spans = plan_micro_batches(plan.rows, s.options.micro_batch_tokens);
  plan.rank = static_cast<size_t>(s.rank());
  plan.ranks = static_cast<size_t>(s.ranks());
  if (plan.ranks > 1) plan.fingerprint = fingerprint_of(samples);
  return plan;
}

Expected<void> accumulate_whole(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  const Tensor flat = s.compute_flat();
  Expected<void> group;  // what the exchange says: commit() cannot return it
  std::atomic<bool> is_lost = false;
  size_t rounds_done = 0;
  auto add_round = [&](size_t round, const LeafGradients* gradients) {
    const std::vector<bool> adds = in.plan.adds(round);
    for (const ZeroUnit& unit : s.zero.units()) {
      if (group) group = in.exchange.add_gradients(unit, adds, gradients);
    }
    is_lost = !group;
    ++rounds_done;
  };
  auto work = [&](size_t round) -> Expected<MicroResult> {
    if (is_lost) return Error{Errc::closed, "the group is lost"};
    return run_micro_batch(in, flat, in.plan.own(round));
  };
  auto commit = [&](size_t round, MicroResult&& result) {
    in.numbers[round] = result.numbers;
    add_round(round, &result.gradients);
  };
  OrderedWork<MicroResult> workers(s.options.threads, in.plan.own_count());
  mine = workers.run(work, commit);
  while (group && rounds_done < in.plan.rounds() && s.ranks() > 1) add_round(rounds_done, nullptr);
  return group;
}

Expected<StepReport> TrainEngine::step(std::span<const TrainSample> samples,
                                       const LossFactory& loss, double learning_rate) try {
  const double begin = now_seconds();
  State& s = *state_;
  Expected<void> mine = check_step(s, samples);
  StepPlan plan;
  if (mine) plan = plan_step(s, samples);
  if (mine && plan.spans.empty())
    mine = Error{Errc::invalid_argument, "step: no sample has a response token"};
  auto exchange = UnitExchange::create(s, step_element(s));
  if (mine && !exchange) mine = exchange.error();
  COHORT_TRY(s.agree(mine, plan.fingerprint, "step"));
  const StepCounts counts = count_responses(samples);
  const LossFunction function = loss(counts);
  std::vector<MicroNumbers> numbers(plan.own_count());
  const StepInput in{s, samples, plan, function, *exchange, numbers};
  auto at_step = [&](const Error& error) {
    return error.with_context(fmt::format("optimizer step {}", s.steps + 1));
  };
  if (auto done = accumulate(in, mine); !done) return at_step(done.error());
  if (auto done = s.agree(mine, s.steps, "step"); !done) return at_step(done.error());
  StepReport report;
  COHORT_TRY(gather_numbers(s, plan, numbers, report));
  COHORT_ASSIGN(const double norm, global_norm(s));
  if (!std::isfinite(norm)) {  // TRAIN-2, on every rank
    report.is_finite = false;
    return report;
  }
  if (s.stage() == 0) COHORT_TRY(make_whole(s, *exchange, s.grads_buffer()));
  update_parameters(s, adamw_scale(s.options.optimizer, norm, learning_rate, s.steps + 1));
  if (s.stage() == 1 || s.stage() == 2) COHORT_TRY(make_whole(s, *exchange, s.params_buffer()));
  ++s.steps;
  report.grad_norm = norm;
  report.learning_rate = learning_rate;
  for (const TrainSample& sample : samples) report.tokens += sample.tokens.size();
  report.response_tokens = static_cast<uint64_t>(counts.tokens);
  report.micro_batches = plan.spans.size();
  report.seconds = now_seconds() - begin;
  return report;
} catch (const std::exception& e) {
  return failed("step", e);
}

}  // namespace cohort::compute
