#pragma once
/// Moves units of parameters and gradients between the ranks of a training engine. Private to the
/// folder. Owner: one step or call of an engine; its buffers are booked on the card.
///
/// ZERO-4: gradients of a unit are added at their owner in the order of the micro-batches, the
/// rounds one after the other and in a round rank after rank. ZERO-5: every rank makes the same
/// calls; a rank that has nothing to add still receives. EP-3: an owner of experts has the
/// gradients of each micro-batch of its replica apart, so that ZERO-4 holds for them too.
/// Bound: two messages of the largest unit.
#include <memory>
#include <span>
#include <vector>

#include "runtime/compute/train/train_state.hpp"

namespace cohort::compute {

/// Gradients of the leaves of a graph, found by their place in the flat buffer.
class LeafGradients {
 public:
  LeafGradients() = default;
  /// An undefined gradient is zero.
  LeafGradients(std::vector<at::Tensor> gradients, const std::vector<PolicyWeights::Leaf>& leaves);
  /// Returns the gradient from flat element `offset` on; no data if it is zero.
  FlatSource find(int64_t offset) const;

 private:
  struct Piece {
    int64_t begin = 0, end = 0;
    at::Tensor gradient;  // contiguous
  };
  std::vector<Piece> pieces_;
};

class UnitExchange {
 public:
  /// `element`: bytes of the widest element that will travel. The buffers are on the card, or on
  /// the host for what is not on the card, or is not to compete for it.
  static Expected<UnitExchange> create(const TrainEngine::State& state, size_t element,
                                       bool is_on_host = false);

  /// Adds a round's gradients of a unit to this rank's part of `grads`. `adds[r]` tells whether
  /// rank r has a micro-batch in this round; `mine` is what this rank adds, nullptr: zeros. Of a
  /// unit of experts `mine` has one item for each rank of this replica: what its micro-batch adds.
  Expected<void> add_gradients(const ZeroUnit& unit, const std::vector<bool>& adds,
                               std::span<const LeafGradients* const> mine);
  Expected<void> add_gradients(const ZeroUnit& unit, const std::vector<bool>& adds,
                               const LeafGradients* mine) {
    return add_gradients(unit, adds, std::span(&mine, 1));
  }
  /// Adds gradients that this rank made itself to its whole `grads`. Says nothing to others.
  void add_own(const ZeroUnit& unit, const LeafGradients& mine) const;
  /// Sums the whole f32 gradients of all that share a unit into this rank's part, in rank order.
  Expected<void> sum_gradients(const ZeroUnit& unit);
  /// Fills `to` (the unit as it lies in the flat buffer, padding untouched) from everybody's parts.
  /// `from` is cut, or whole with this rank's parts up to date.
  Expected<void> gather(const ZeroUnit& unit, const HeldBuffer& from, std::byte* to);

 private:
  explicit UnitExchange(const TrainEngine::State& state) : state_(&state) {}
  void add_part(const ZeroUnit& unit, const std::byte* from, bool is_half) const;
  const TrainEngine::State* state_;
  std::shared_ptr<std::byte> send_, receive_;
};

}  // namespace cohort::compute
