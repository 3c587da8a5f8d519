#pragma once
/// How many rows a data file has, without reading them: a parquet file says so in its footer, a
/// jsonl file has one per line. Reads files; no state.
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::config {

/// Rows of a .parquet, .jsonl or .json (one object per line) file; a leading ~ is $HOME. Returns
/// Errc::not_found, Errc::io, or Errc::corrupt if it is none of these formats.
Expected<int64_t> count_rows(const std::string& path);

/// A path whose leading ~ is $HOME.
std::string home_expanded(const std::string& path);

/// Rows of a published data set, recognised by the names its preparation scripts give:
/// ".../gsm8k/train.parquet" has 7473.
struct KnownRows {
  std::string dataset;
  int64_t rows = 0;
};
std::optional<KnownRows> known_rows(const std::string& path);

}  // namespace cohort::config
