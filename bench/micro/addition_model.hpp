#pragma once
#include "runtime/compute/model/model_layout.hpp"

namespace cohort::bench {

/// The policy of configs/arithmetic_rlvr.yaml: 2 layers of width 64, a vocabulary of 32.
inline compute::ModelConfig addition_model(int64_t max_position, double rope_theta) {
  compute::ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 192;
  config.max_position = max_position;
  config.rope.theta = rope_theta;
  config.initializer_range = 0.05;
  return config;
}

}  // namespace cohort::bench
