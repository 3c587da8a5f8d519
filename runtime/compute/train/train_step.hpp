#pragma once
/// The parts of TrainEngine::step and log_probs, shared by their source files. Private to the
/// folder.
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/text.hpp"
#include "runtime/compute/train/micro_batch.hpp"
#include "runtime/compute/train/train_state.hpp"
#include "runtime/compute/train/zero_exchange.hpp"

namespace cohort::compute {

/// The micro-batches of a call: one global order, a function of the samples alone. Rank r computes
/// r, r + N, …: round k is the micro-batches k N … k N + N - 1.
struct StepPlan {
  std::vector<int64_t> rows;
  std::vector<MicroSpan> spans;
  size_t rank = 0, ranks = 1;

  size_t rounds() const { return (spans.size() + ranks - 1) / ranks; }
  size_t own_count(size_t of_rank) const {
    return spans.size() > of_rank ? (spans.size() - of_rank - 1) / ranks + 1 : 0;
  }
  size_t own_count() const { return own_count(rank); }
  const MicroSpan& own(size_t round) const { return spans[round * ranks + rank]; }
  /// Whether each rank has a micro-batch in `round`.
  std::vector<bool> adds(size_t round) const {
    std::vector<bool> out(ranks);
    for (size_t r = 0; r < ranks; ++r) out[r] = round * ranks + r < spans.size();
    return out;
  }
  /// Of lengths, tokens and masks: what all ranks must have been given alike.
  uint64_t fingerprint = 0;
};

/// The numbers of one micro-batch, as ranks exchange them.
struct MicroNumbers {
  double total = 0;
  Numbers of_loss;
};

/// What a step works on. `numbers` has one entry per own micro-batch.
struct StepInput {
  const TrainEngine::State& state;
  std::span<const TrainSample> samples;
  const StepPlan& plan;
  const LossFunction& loss;
  UnitExchange& exchange;
  std::vector<MicroNumbers>& numbers;
};

/// What the teacher, if there is one, makes of a micro-batch. Throws what ops do.
Lesson lesson_of(const TrainEngine::State& state, const PackedBatch& batch);

/// Gradient of one micro-batch and the loss's numbers.
struct MicroResult {
  LeafGradients gradients;
  MicroNumbers numbers;
};
/// Forward and backward of one micro-batch on this thread. Throws what ops and the loss do.
MicroResult run_micro_batch(const StepInput& in, const PolicyWeights& weights,
                            const MicroSpan& span);

/// Whether one micro-batch after the other, shared by the threads, is faster than micro-batches
/// side by side: bf16 on one card of the CPU, few tokens or a large model.
bool takes_turns(const StepInput& in);
/// Sums the gradients of all micro-batches in turns; what fails goes to `mine`.
void accumulate_in_turns(const StepInput& in, Expected<void>& mine);

/// Adds the gradients of all micro-batches of ranks that hold different experts, one micro-batch of
/// each rank at a time. Errors as below.
Expected<void> accumulate_with_experts(const StepInput& in, Expected<void>& mine);
Expected<void> log_probs_with_experts(const TrainEngine::State& state,
                                      std::span<const TrainSample> samples, const StepPlan& plan,
                                      AdapterUse use, std::vector<at::Tensor>& out,
                                      Expected<void>& mine);

/// Adds the gradients of all micro-batches with parameters gathered unit by unit and layers
/// computed again for the backward. Returns an error of the group; what fails in this rank alone
/// goes to `mine`, and this rank goes on exchanging zeros (ZERO-5).
Expected<void> accumulate_by_unit(const StepInput& in, Expected<void>& mine);

/// Returns log-probabilities of own micro-batches, one [M] each, in order; errors as above.
Expected<void> log_probs_by_unit(const TrainEngine::State& state,
                                 std::span<const TrainSample> samples, const StepPlan& plan,
                                 UnitExchange& exchange, std::vector<at::Tensor>& out,
                                 Expected<void>& mine);

/// Runs `f` unless `mine` has failed; an exception becomes Errc::compute in `mine`.
template <class F>
void guarded(Expected<void>& mine, F f) {
  if (!mine) return;
  try {
    f();
  } catch (const std::exception& e) {
    mine = Error{Errc::compute, first_line(e.what())};
  }
}

}  // namespace cohort::compute
