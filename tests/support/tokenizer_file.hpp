#pragma once
/// A tokenizer.json of the byte-level kind, small. Header only.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace cohort::tests {

struct TokenizerFile {
  nlohmann::ordered_json vocabulary = {};  // token, as the file spells it, to id
  std::vector<std::pair<std::string, std::string>> merges = {};
  int32_t first_special = 0;  // id of the first of
  std::vector<std::string> specials = {};
  bool splits_words = true;  // as GPT-2 does, before the merges
};

inline nlohmann::ordered_json tokenizer_json(const TokenizerFile& file) {
  using Json = nlohmann::ordered_json;
  Json added = Json::array(), merges = Json::array();
  int32_t id = file.first_special;
  for (const std::string& content : file.specials)
    added.push_back({{"id", id++},
                     {"content", content},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  for (const auto& [left, right] : file.merges) merges.push_back(Json::array({left, right}));
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", file.splits_words}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", file.vocabulary}, {"merges", merges}}}};
}

}  // namespace cohort::tests
