#pragma once
/// `actor-node data tokenizer CORPUS.txt… --size N --out DIR`: trains a byte-level BPE on texts and
/// writes tokenizer.json, tokenizer_config.json and generation_config.json (docs/tokenizer.md).
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort {

struct DataTokenizer {
  std::vector<std::string> texts;
  std::string out;
  uint64_t size = 0;  // [tokens]
  uint64_t frequency_min = 2;
};

/// Declares the subcommand and its options, which write into `options`.
CLI::App* add_data_tokenizer(CLI::App& data, DataTokenizer& options);

/// Returns the lines to print. Errc::not_found or Errc::io naming the file, Errc::config for texts
/// without a character, Errc::invalid_argument for a size that is too small; no file has its name
/// then.
Expected<std::string> make_tokenizer_files(const DataTokenizer& options);

}  // namespace cohort
