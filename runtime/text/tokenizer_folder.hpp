#pragma once
/// What a folder from Hugging Face says about text: tokenizer.json, tokenizer_config.json,
/// special_tokens_map.json, generation_config.json, config.json, chat_template.jinja. Thread-safe
/// once read.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/hf_tokenizer.hpp"

namespace cohort::text {

struct TokenizerFolder {
  explicit TokenizerFolder(Tokenizer x) : tokenizer(std::move(x)) {}

  Tokenizer tokenizer;
  /// bos_token, eos_token, … and their texts: the variables of a chat template.
  std::map<std::string, std::string> special_tokens;
  std::optional<TokenId> bos_id, pad_id;
  /// Each ends an answer: those of generation_config.json, else of config.json, and eos_token's.
  /// Ascending; may be empty.
  std::vector<TokenId> eos_ids;
  /// By name; the usual one is "default". chat_template.jinja wins over tokenizer_config.json.
  std::map<std::string, std::string> chat_templates;
  /// Most ids of a text, if the folder sets a limit.
  std::optional<uint64_t> model_max_length;

  /// Returns the template for a dialogue: "tool_use", if there is one, with tools, else "default".
  /// Returns Errc::not_found, with the names, if the folder has none of that name.
  Expected<std::string_view> chat_template(bool has_tools) const;

  /// Reads a folder. Returns Errc::not_found if it has no tokenizer.json, and Errc::config,
  /// Errc::unsupported or Errc::io otherwise, with file and key.
  static Expected<TokenizerFolder> read(const std::string& folder);
};

}  // namespace cohort::text
