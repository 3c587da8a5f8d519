#pragma once
/// The model of a Hugging Face folder, served by the built-in engine on this host: one sequence at
/// a time, token by token. Owner: one thread. Torch-free header.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/generate/sampling.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::compute {

class FolderEngine {
 public:
  struct Options {
    std::filesystem::path folder;
    tensor::Dtype dtype = tensor::Dtype::f32;  // f32 or bf16: what products are computed in
    int64_t context_max = 0;                   // [tokens] bound; 0: the model's
    uint32_t threads = 1;                      // they change no token
  };
  /// Returns the errors of LanguageModel::open, Errc::invalid_argument for a model that the engine
  /// does not compute, and Errc::capacity or Errc::compute if memory is short.
  static Expected<std::unique_ptr<FolderEngine>> open(const Options& options);
  ~FolderEngine();

  /// Sentences about the folder for the user.
  const std::vector<std::string>& notices() const;
  int64_t context_max() const;  // [tokens] of a sequence
  int64_t vocab_size() const;

  /// How the tokens of a sequence are drawn: token i of it is a function of (ids before it,
  /// sampling, seed, turn, i).
  struct Draw {
    SamplingOptions sampling = {};
    uint64_t seed = 0;
    uint32_t turn = 0;
  };
  /// Begins an answer to `ids`. Computes only what the ids add to those of before, if they begin
  /// with them. Returns Errc::capacity if no token fits behind them, Errc::invalid_argument for an
  /// id outside the vocabulary or options out of range.
  Expected<void> begin(std::span<const int32_t> ids, const Draw& draw);
  /// Samples the next token. Returns Errc::capacity if the context is full, Errc::compute if the
  /// model computed no number. REQUIRES begin().
  Expected<int32_t> next();

 private:
  struct State;
  explicit FolderEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cohort::compute
