#pragma once
/// The post-processor of a tokenizer.json: ByteLevel (changes no id), TemplateProcessing, or a
/// Sequence of them: ids that stand before and behind every text. Thread-safe.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;

  /// `json` may be null: nothing is added. Returns Errc::unsupported, naming the type, for others.
  static Expected<PostProcessor> read(const nlohmann::json& json);
};

}  // namespace cohort::text
