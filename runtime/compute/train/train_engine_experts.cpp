// TrainEngine with the routed experts cut over ranks: the micro-batches of a round go through the
// layers in step, because the rows of each are computed by the owners of their experts.
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/train/expert_exchange.hpp"
#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;
using State = TrainEngine::State;

/// What the ranks of this replica add to a unit in one round.
std::vector<const LeafGradients*> gradients_of(const ZeroUnit& unit, const ExpertExchange& experts,
                                               const LeafGradients* own) {
  if (!unit.is_experts) return {own};
  std::vector<const LeafGradients*> out;
  for (const LeafGradients& one : experts.gradients()) out.push_back(&one);
  return out;
}

Expected<void> add_round(const StepInput& in, size_t round, const ExpertExchange& experts,
                         const LeafGradients* own) {
  const bool is_summed_once = in.state.options.zero.reduce == GradientReduce::per_card;
  const std::vector<bool> adds = in.plan.adds(round);
  for (const ZeroUnit& unit : in.state.zero.units()) {
    const auto all = gradients_of(unit, experts, own);
    if (!is_summed_once) COHORT_TRY(in.exchange.add_gradients(unit, adds, all));
    for (size_t i = 0; is_summed_once && i < all.size(); ++i)
      if (all[i] != nullptr) in.exchange.add_own(unit, *all[i]);
  }
  return {};
}

}  // namespace

Expected<void> accumulate_with_experts(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  use_single_threaded_math();
  ExpertExchange experts(s, ExpertPass::training);
  for (size_t round = 0; round < in.plan.rounds(); ++round) {
    std::optional<MicroResult> own;
    experts.begin_round();
    if (round < in.plan.own_count())
      guarded(mine, [&] { own = run_micro_batch(in, experts.weights(), in.plan.own(round)); });
    COHORT_TRY(experts.end_round(mine));
    if (own) in.numbers[round] = own->numbers;
    COHORT_TRY(add_round(in, round, experts, own ? &own->gradients : nullptr));
  }
  if (s.options.zero.reduce == GradientReduce::per_card)
    for (const ZeroUnit& unit : s.zero.units()) COHORT_TRY(in.exchange.sum_gradients(unit));
  return {};
}

Expected<void> log_probs_with_experts(const State& s, std::span<const TrainSample> samples,
                                      const StepPlan& plan, AdapterUse use,
                                      std::vector<Tensor>& out, Expected<void>& mine) {
  use_single_threaded_math();
  at::NoGradGuard no_grad;
  ExpertExchange experts(s, ExpertPass::forward, use);
  for (size_t round = 0; round < plan.rounds(); ++round) {
    experts.begin_round();
    if (round < plan.own_count())
      guarded(mine, [&] {
        const PackedBatch batch =
            to_device(pack(samples, plan.rows, plan.own(round)), s.torch_device());
        out[round] = policy_log_probs(experts.weights(), s.options.model, s.rope, batch,
                                      s.options.logits_max)
                         .logp.contiguous();
      });
    COHORT_TRY(experts.end_round(mine));
  }
  return {};
}

}  // namespace cohort::compute
