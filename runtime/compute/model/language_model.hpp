#pragma once
/// A Hugging Face folder, to be asked what its model computes: log-probabilities, entropies, greedy
/// tokens, scores. The reference against which a user holds an engine: the training forward, whole
/// sequences, no cache, on the host. Owner: any one thread at a time. Torch-free header.
///
/// It covers more than the engines do: classification heads, and rope_type dynamic, whose base here
/// is that of the sequence at hand (as transformers computes it without a cache).
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::compute {

class LanguageModel {
 public:
  struct State;  // the inside, private to the source
  struct Options {
    std::filesystem::path folder;
    std::filesystem::path adapter = {};        // a PEFT folder, merged in f32; empty: none
    tensor::Dtype dtype = tensor::Dtype::f32;  // f32 or bf16: what products are computed in
  };
  /// Returns Errc::not_found, Errc::config, Errc::corrupt or Errc::invalid_argument naming file and
  /// key or tensor.
  static Expected<std::unique_ptr<LanguageModel>> open(const Options& options);
  ~LanguageModel();

  const model::HfConfig& config() const;
  /// Sentences about the folder for the user.
  const std::vector<std::string>& notices() const;

  struct Scores {
    std::vector<float> log_probs;  // [n - 1] of ids[1:], each given the ids before it; in nats
    std::vector<float> entropy;    // [n - 1] of the distribution that each was drawn from; in nats
  };
  /// Both of softmax(logits / temperature). Returns Errc::invalid_argument for an id outside the
  /// vocabulary, fewer than one id, or a model with a classification head, and Errc::compute where
  /// a number is NaN or infinite, as those of weights that hold NaN are.
  Expected<Scores> score(std::span<const int32_t> ids, double temperature) const;

  /// Returns the `count` tokens that follow, each the most likely one (ties: the lowest id);
  /// a token that ends a sequence ends nothing here. Errors as score().
  Expected<std::vector<int32_t>> greedy(std::span<const int32_t> ids, int64_t count) const;

  struct HeadScores {
    std::vector<float> pooled;               // [labels] at the last token that is no padding
    std::vector<std::vector<float>> values;  // [n][labels] at every token
  };
  /// Of a classification head. Errors as score(), for a model without one.
  Expected<HeadScores> head_scores(std::span<const int32_t> ids) const;

 private:
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::compute
