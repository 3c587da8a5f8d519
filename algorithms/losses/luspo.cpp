/// LUSPO (TRL): PPO with one ratio per sequence (the exponential of the mean of lp - old, gradient
/// through it), tokens added up and sequences averaged, so that a long answer weighs by its length.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate luspo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  PolicyLossOptions by_sequence = options;
  by_sequence.ratio_level = RatioLevel::sequence;
  Surrogate s = with_ratio(in, by_sequence);
  s.loss = clipped_surrogate(in, by_sequence, s);
  s.aggregation = in.live * (in.counts.sequences > 0 ? 1 / in.counts.sequences : 0);
  return s;
}

}  // namespace

LossForm luspo_loss() { return {luspo_tokens}; }

}  // namespace cohort::algorithms
