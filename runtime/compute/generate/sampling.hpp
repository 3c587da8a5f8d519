#pragma once
/// One token from one row of logits. Pure: the token is a function of (logits, options, uniform)
/// and the uniform is a function of (rng_key, turn, position), so a trajectory draws the same
/// tokens in any batch (docs/architecture.md, Determinism). Order of filters: repetition_penalty,
/// temperature, then top_k, then top_p on what is left (renormalised). A Sampler holds scratch for
/// one row; one thread at a time.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::compute {

struct SamplingOptions {
  float temperature = 1.F;  // > 0
  float top_p = 1.F;        // (0, 1]; 1 keeps all
  int top_k = 0;            // 0 keeps all
  /// Logits of tokens that are in the context already are divided by it where positive, else
  /// multiplied (CTRL, arXiv 1909.05858, section 4.1; as Hugging Face and vLLM); > 0; 1: off.
  float repetition_penalty = 1.F;
  bool greedy = false;  // the first of the largest logits; no random number is used
};

/// Returns Errc::invalid_argument naming the field that is out of range.
Expected<void> validate(const SamplingOptions& options);

/// Returns the uniform of [0, 1) that draws token `position` of turn `turn`.
double sampling_uniform(uint64_t rng_key, uint32_t turn, uint64_t position);

struct SampledToken {
  int32_t token = -1;  // -1: the logits hold NaN or infinity
  float logp = 0.F;    // log-softmax at temperature 1 over the full vocabulary
};

class Sampler {
 public:
  explicit Sampler(int64_t vocab_size);
  /// `context`: the tokens that repetition_penalty counts as there.
  /// REQUIRES: logits.size() == vocab_size and validated options.
  SampledToken sample(std::span<const float> logits, const SamplingOptions& options, double uniform,
                      std::span<const int32_t> context = {});

 private:
  std::span<const float> penalised(std::span<const float> logits, float penalty,
                                   std::span<const int32_t> context);
  void filter(const SamplingOptions& options);
  int32_t pick(double total, double uniform) const;

  std::vector<float> weights_;    // unnormalised probabilities
  std::vector<float> penalised_;  // logits
  std::vector<int32_t> order_;
};

}  // namespace cohort::compute
