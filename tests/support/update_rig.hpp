#pragma once
/// A tiny training engine and a batch of four answers, for tests of an update whose numbers are
/// worked out by hand.
#include <vector>

#include "runtime/proto/trajectory.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::tests {

inline compute::TrainEngineOptions update_options() {
  compute::TrainEngineOptions options;
  options.model.vocab_size = 11;
  options.model.hidden_size = 16;
  options.model.num_hidden_layers = 2;
  options.model.num_attention_heads = 2;
  options.model.num_key_value_heads = 1;
  options.model.head_dim = 8;
  options.model.intermediate_size = 24;
  options.model.max_position = 32;
  options.seed = 3;
  options.micro_batch_tokens = 10;  // several micro-batches, packed otherwise than the steps
  return options;
}

/// An engine with all its objects on its card.
struct UpdateRig : TrainRig {
  explicit UpdateRig(const compute::TrainEngineOptions& options = update_options())
      : TrainRig(options) {
    onload_all();
  }
};

/// Four answers of 2, 3, 1 and 4 tokens after prompts of 3, with scores 1, 0, 2, 0.5.
inline std::vector<proto::Trajectory> four_answers() {
  const double scores[] = {1, 0, 2, 0.5};
  const size_t lengths[] = {2, 3, 1, 4};
  std::vector<proto::Trajectory> result(4);
  for (size_t i = 0; i < 4; ++i) {
    proto::Trajectory& t = result[i];
    t.score = scores[i];
    for (size_t k = 0; k < 3 + lengths[i]; ++k) {
      t.tokens.push_back(static_cast<int32_t>((5 * i + 3 * k) % 11));
      t.response_mask.push_back(k < 3 ? 0 : 1);
    }
    t.behavior_logp.resize(t.tokens.size());
  }
  return result;
}

}  // namespace cohort::tests
