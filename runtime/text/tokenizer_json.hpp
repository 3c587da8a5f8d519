#pragma once
/// The JSON of a tokenizer.json, read in one pass: model.vocab and model.merges, which are nearly
/// all of it, go straight to tables, and the rest becomes a tree. Pure, thread-safe.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

struct TokenizerJson {
  static constexpr size_t k_file_bytes_max = size_t{256} << 20;
  static constexpr int k_depth_max = 32;

  nlohmann::json tree;  // without model.vocab and model.merges
  Vocabulary vocabulary;
  bool has_vocabulary = false;
  bool has_merges = false;
  std::string merge_bytes;
  struct MergeEnd {
    uint32_t left, right;  // ends in merge_bytes of both tokens, which stand behind each other
  };
  std::vector<MergeEnd> merge_ends;

  /// Returns Errc::config for what is no JSON, is nested deeper than k_depth_max, larger than
  /// k_file_bytes_max, or holds an id or a merge that is none; the message says where.
  static Expected<TokenizerJson> parse(std::string_view text);
};

}  // namespace cohort::text
