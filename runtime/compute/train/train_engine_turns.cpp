// TrainEngine in turns: one micro-batch after the other, its products shared by the threads, and
// gradients added where they are summed. A large model on few tokens spends its time on gradients:
// each micro-batch's own, once written, once read and once added, cost more than the products. The
// sums, and their bits, are those of micro-batches side by side.
#include <algorithm>

#include "runtime/compute/generate/work_team.hpp"
#include "runtime/compute/kernels/gemm.hpp"
#include "runtime/compute/model/product.hpp"
#include "runtime/compute/train/train_step.hpp"

namespace cohort::compute {
namespace {

using State = TrainEngine::State;

/// The sums of gradients of a step, leaf by leaf. What no micro-batch adds to is zero in the end;
/// until something is added a sum is not written.
class LeafSums {
 public:
  LeafSums(const State& state, const std::vector<PolicyWeights::Leaf>& leaves)
      : state_(state), sums_(reinterpret_cast<float*>(state.grads.data())) {
    for (const PolicyWeights::Leaf& leaf : leaves)
      spans_.push_back({leaf.offset, leaf.offset + leaf.tensor.numel(), false});
    std::ranges::sort(spans_, {}, &Span::begin);
  }

  /// GradientSums::is_first. A leaf that is added to in parts starts from zeros.
  bool is_first(int64_t begin, int64_t count) {
    const auto after = std::ranges::upper_bound(spans_, begin, {}, &Span::begin);
    COHORT_CHECK(after != spans_.begin() && begin + count <= std::prev(after)->end,
                 "a gradient belongs to one leaf");
    Span& span = *std::prev(after);
    if (span.is_written) return false;
    span.is_written = true;
    const bool is_whole = count == span.end - span.begin;
    if (!is_whole) zero(span.begin, span.end);
    return is_whole;
  }

  /// Adds what autograd has made. A leaf that holds no sum starts from zeros that are in the cache.
  void add(const LeafGradients& gradients) {
    constexpr int64_t k_piece = int64_t{1} << 14;
    for (Span& span : spans_) {
      const FlatSource from = gradients.find(span.begin);
      if (!from) continue;
      for (int64_t at = span.begin; at < span.end; at += k_piece) {
        const int64_t end = std::min(span.end, at + k_piece);
        if (!span.is_written) zero(at, end);
        state_.math.add(sums_ + at, from.from(at - span.begin), end - at, state_.is_bf16());
      }
      span.is_written = true;
    }
  }

  /// Zeros what nothing was added to, between the leaves too.
  void finish() {
    int64_t done = 0;
    for (const Span& span : spans_) {
      zero(done, span.is_written ? span.begin : span.end);
      done = span.end;
    }
    zero(done, state_.layout.total_elements);
  }

 private:
  struct Span {
    int64_t begin = 0, end = 0;  // [elements] of the flat layout
    bool is_written = false;
  };

  void zero(int64_t begin, int64_t end) {
    state_.math.zero(sums_ + begin, static_cast<size_t>(end - begin) * sizeof(float));
  }

  const State& state_;
  float* sums_;
  std::vector<Span> spans_;  // by begin
};

}  // namespace

bool takes_turns(const StepInput& in) {
  // Parameters for each token of a micro-batch from which on gradients weigh more than what the
  // threads do side by side: norms, attention, activations.
  constexpr int64_t k_parameters_of_token = 100'000;
  const State& s = in.state;
  if (!s.is_bf16() || s.math.has_device() || s.ranks() > 1 || s.stage() >= 2 || s.is_by_unit() ||
      cpu::gemm_kernel() == nullptr)
    return false;
  return in.plan.spans.size() < static_cast<size_t>(std::max(1, s.options.threads)) ||
         s.layout.total_elements > k_parameters_of_token * s.options.micro_batch_tokens;
}

void accumulate_in_turns(const StepInput& in, Expected<void>& mine) {
  const State& s = in.state;
  const at::Tensor flat = s.compute_flat();
  const PolicyWeights weights = s.weights(flat, true);
  LeafSums sums(s, weights.leaves);
  WorkTeam team(static_cast<uint32_t>(std::max(1, s.options.threads)));
  const ops::ProductScope scope(
      team, {static_cast<const uint16_t*>(flat.data_ptr()),
             reinterpret_cast<float*>(s.grads.data()), s.layout.total_elements,
             [&](int64_t begin, int64_t count) { return sums.is_first(begin, count); }});
  for (size_t round = 0; round < in.plan.own_count(); ++round)
    guarded(mine, [&] {
      const MicroResult result = run_micro_batch(in, weights, in.plan.own(round));
      in.numbers[round] = result.numbers;
      sums.add(result.gradients);
    });
  sums.finish();
}

}  // namespace cohort::compute
