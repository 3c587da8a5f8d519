#pragma once
/// A checkpoint becomes a Hugging Face folder that transformers, vLLM and llama.cpp's converter
/// load: config.json in transformers 4's spelling, safetensors with Hugging Face's names (sharded
/// with an index when they are large), and the tokenizer files of the folder that training started
/// from. One thread; memory for a piece of a tensor, however large the model is, and for one weight
/// where an adapter is merged.
///
/// EXPORT-1: a value of the folder is the checkpoint's, rounded once if the folder's dtype is bf16;
/// with an adapter it is W + s B A, computed in f32, as a rollout on one card serves it.
/// EXPORT-2: the folder has its name when it is complete and on disk; before that there is only
/// "<folder>.tmp-<pid>" beside it.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::compute {

struct ExportOptions {
  std::filesystem::path checkpoint = {};     // of TrainEngine::save, or any Hugging Face folder
  std::filesystem::path folder = {};         // to be made
  bool merges_adapter = false;               // `checkpoint` is a LoRA adapter, to be merged
  std::filesystem::path base = {};           // of the adapter; empty: what its config names
  bool replaces = false;                     // else `folder` must be absent or empty
  std::optional<tensor::Dtype> dtype = {};   // f32 or bf16; absent: that of the checkpoint's source
  uint64_t shard_bytes_max = 5'000'000'000;  // of a file's tensors; a larger tensor goes alone
  enum class Text : uint8_t {
    of_source,  // the checkpoint's folder if it has a tokenizer.json, else what it started from
    of_folder,  // `text_folder`
    none,
  };
  Text text = Text::of_source;  // where tokenizer, chat template and generation_config.json are
  std::filesystem::path text_folder = {};
};

struct ExportReport {
  uint64_t parameters = 0, bytes = 0;  // bytes of the tensors
  size_t files = 0;                    // of weights
  tensor::Dtype dtype = tensor::Dtype::f32;
  std::vector<std::string> copied = {};   // files of the tokenizer and the like
  std::vector<std::string> notices = {};  // one sentence each, for the user
};

/// Writes the folder. Returns Errc::not_found, Errc::config, Errc::corrupt (also where the weights
/// do not have the hash in train_state.json) or Errc::invalid_argument (also for an adapter that
/// was trained over other weights) naming file, key or tensor; Errc::io with path and cause for a
/// full disk; nothing is left then.
Expected<ExportReport> export_folder(const ExportOptions& options);

}  // namespace cohort::compute
