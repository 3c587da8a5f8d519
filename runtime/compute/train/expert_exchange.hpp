#pragma once
/// The routed experts of a model whose experts are cut over ranks (expert_cut.hpp): the rows of a
/// rank's micro-batch go to the owners of their experts and come back, in the forward and in the
/// backward. Private to the folder. Owner: one step or call of an engine, one thread.
///
/// EP-4: an owner computes each micro-batch's rows of an expert as one product of its own, in the
/// order of the rows, as a rank that holds all experts does: no bit depends on the number of ways.
/// EP-5: in a round every rank of the group makes the same calls: per layer with experts three
/// exchanges in the forward (counts, rows, results) and two in the backward (gradients of results,
/// of rows). A rank without a micro-batch, or whose own work has failed, takes part with no rows or
/// with zeros, and serves the others all the same.
/// Bound: of each layer with experts the rows that a replica sends here in a round, their graph,
/// and in a training pass the gradients of own experts for each of its micro-batches.
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/compute/train/zero_exchange.hpp"

namespace cohort::compute {

enum class ExpertPass : uint8_t { forward, training };

class ExpertExchange {
 public:
  class Layer;  // private to the source
  /// REQUIRES: state.experts.is_cut(); the state outlives it; a training pass has its adapter on.
  ExpertExchange(const TrainEngine::State& state, ExpertPass pass, AdapterUse use = AdapterUse::on);
  ~ExpertExchange();
  ExpertExchange(const ExpertExchange&) = delete;
  ExpertExchange& operator=(const ExpertExchange&) = delete;

  /// The model's weights, whose layers reach the experts through this object. A graph of them runs
  /// between begin_round() and end_round(), on any one thread. Of own experts a gradient by the
  /// leaves is undefined: gradients() has it.
  const PolicyWeights& weights() const { return weights_; }

  void begin_round();
  /// Makes the calls of this round that the graph has not made. Returns an error of the group; what
  /// failed here while others were served goes to `mine`.
  Expected<void> end_round(Expected<void>& mine);
  /// After end_round(), of a training pass: what the micro-batch of each rank of this replica adds
  /// to the gradients of own experts.
  const std::vector<LeafGradients>& gradients() const { return gradients_; }

  // -- for the graph
  /// Returns what the experts make of x [n, H], which is sorted by experts; an error of the group.
  Expected<at::Tensor> forward(Layer& layer, const at::Tensor& x, std::vector<int64_t> counts);
  /// Returns the gradient of forward()'s x, given that of its result.
  Expected<at::Tensor> backward(Layer& layer, const at::Tensor& dy);

 private:
  void find_own_leaves();
  Expected<void> exchange_counts(Layer& layer);
  Expected<void> exchange(const std::vector<at::Tensor>& send,
                          const std::vector<at::Tensor>& receive);
  void serve_forward(Layer& layer, std::vector<at::Tensor>& results);
  void serve_backward(Layer& layer, const std::vector<at::Tensor>& dy, std::vector<at::Tensor>& dx);
  at::Tensor new_rows(int64_t count) const;
  /// Runs f; the group ends if it throws, because a rank that cannot go on cannot serve either.
  template <class F>
  Expected<at::Tensor> or_abort(F f);

  const TrainEngine::State* state_;
  ExpertPass pass_;
  PolicyWeights weights_;
  at::Tensor anchor_;                           // a leaf that every layer with experts hangs on
  at::TensorOptions options_;                   // of rows
  std::vector<std::unique_ptr<Layer>> layers_;  // those with experts, in order
  size_t forwards_ = 0, backwards_ = 0;         // layers done in this round
  Expected<void> group_, service_;
  std::vector<LeafGradients> gradients_;
};

}  // namespace cohort::compute
