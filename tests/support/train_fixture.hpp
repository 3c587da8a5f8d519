#pragma once
/// Small models and samples for tests of the training engine. Header only; everything is a function
/// of a seed.
#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/train/loss_factory.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "tests/support/family_models.hpp"

namespace cohort::tests {

inline compute::ModelConfig tiny_model() {
  compute::ModelConfig config;
  config.vocab_size = 19;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 40;
  config.max_position = 64;
  config.rope.theta = 100;
  config.initializer_range = 0.05;
  return config;
}

/// Qwen3-MoE's: norms of q and k, no biases, four experts of which a token has two, and a dense
/// layer between two with experts.
inline compute::ModelConfig moe_model() {
  compute::ModelConfig config = tiny_model();
  config.family = "qwen3_moe";
  config.attention_bias = false;
  config.qk_norm = true;
  config.num_hidden_layers = 3;
  config.moe = model::MoeShape{.num_experts = 4,
                               .experts_per_token = 2,
                               .moe_intermediate_size = 9,
                               .dense_layers = {1},
                               .norm_topk_prob = true};
  return config;
}

/// The flat buffer of an engine that holds whole tensors (below ZeRO 3), padding zero.
inline std::vector<std::byte> flat_weights(const compute::TrainEngine& engine) {
  std::vector<std::byte> flat(engine.weight_bytes());
  const size_t element = tensor::size_of(engine.config().dtype);
  for (const compute::ParameterShard& shard : engine.shards()) {
    const auto at = static_cast<size_t>(engine.layout().find(shard.name)->offset) * element;
    std::copy(shard.bytes.begin(), shard.bytes.end(), flat.begin() + static_cast<ptrdiff_t>(at));
  }
  return flat;
}

/// Owns the columns that TrainSamples point into.
struct SampleSet {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<uint8_t>> mask;
  std::vector<std::vector<float>> old_logp, advantages;
  std::vector<compute::TrainSample> samples;
};

/// `count` sequences of 2 to 50 tokens; about a third of the tokens are responses, at least the
/// last one.
inline SampleSet random_samples(size_t count, uint64_t seed, int64_t vocabulary = 19) {
  SampleSet set;
  Rng rng(seed);
  for (size_t i = 0; i < count; ++i) {
    const size_t size = 2 + rng.below(49);
    std::vector<int32_t> tokens(size);
    std::vector<uint8_t> mask(size);
    std::vector<float> old_logp(size), advantages(size);
    for (size_t t = 0; t < size; ++t) {
      tokens[t] = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary)));
      mask[t] = t > 0 && (rng.below(3) == 0 || t + 1 == size) ? 1 : 0;
      old_logp[t] = static_cast<float>(-3 + rng.uniform());
      advantages[t] = static_cast<float>(2 * rng.uniform() - 1);
    }
    set.tokens.push_back(std::move(tokens));
    set.mask.push_back(std::move(mask));
    set.old_logp.push_back(std::move(old_logp));
    set.advantages.push_back(std::move(advantages));
  }
  for (size_t i = 0; i < count; ++i)
    set.samples.push_back({set.tokens[i], set.mask[i], set.old_logp[i], set.advantages[i], {}});
  return set;
}

/// Cross entropy by the mean over response tokens.
inline compute::LossFunction cross_entropy(const compute::StepCounts& counts) {
  return [tokens = counts.tokens](const compute::MicroBatch&, const compute::MicroOutputs& out) {
    compute::MicroLoss loss;
    loss.total = -out.logp.sum() / tokens;
    loss.numbers.add("entropy", out.entropy.sum().item<double>() / tokens);
    return loss;
  };
}

/// PPO-like: weights every position differently and uses the entropy too.
inline compute::LossFunction policy_gradient(const compute::StepCounts& counts) {
  return
      [tokens = counts.tokens](const compute::MicroBatch& batch, const compute::MicroOutputs& out) {
        at::Tensor ratio = (out.logp - batch.old_logp).exp();
        compute::MicroLoss loss;
        loss.total = -((ratio * batch.advantages).sum() + 0.1 * out.entropy.sum()) / tokens;
        return loss;
      };
}

/// A card with an engine on it.
struct TrainRig {
  explicit TrainRig(compute::TrainEngineOptions options, uint64_t budget_bytes = 64 << 20)
      : card(CardId{3}, budget_bytes) {
    options.card = &card;
    engine = compute::TrainEngine::create(options).value();
  }
  TrainRig& onload_all() {
    for (auto object : {compute::TrainObject::train_params, compute::TrainObject::grads,
                        compute::TrainObject::optimizer})
      engine->onload(object).value();
    return *this;
  }
  compute::CardMemory card;
  std::unique_ptr<compute::TrainEngine> engine;
};

inline compute::TrainEngineOptions tiny_options() {
  compute::TrainEngineOptions options;
  options.model = tiny_model();
  options.seed = 5;
  options.micro_batch_tokens = 128;
  return options;
}

}  // namespace cohort::tests
