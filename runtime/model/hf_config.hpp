#pragma once
/// Hugging Face's config.json, as text. The one reader and the one writer; pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/shape.hpp"

namespace cohort::model {

/// What a config.json says.
struct HfConfig {
  enum class Head : uint8_t {
    language,
    sequence_score,  // …ForSequenceClassification: score.weight [labels, hidden]
    token_score,     // …ForTokenClassification: score.weight and score.bias
  };
  ModelShape shape;
  Head head = Head::language;
  int64_t labels = 0;                 // rows of a score head
  std::string dtype = {};             // "bfloat16", …; empty: not said
  std::vector<int64_t> eos_ids = {};  // any of them ends a sequence; generation_config.json wins
  std::optional<int64_t> bos_id = {}, pad_id = {};
  std::string name_or_path = {};  // _name_or_path: what it was made from; empty: not said
  std::vector<std::string> unknown_keys = {};  // keys that may change the computation in a way that
      // nobody here knows: a planner may go on, an engine not
  std::vector<std::string> notices = {};  // one sentence each, for the user
};

/// Reads both spellings, transformers 4's and 5's. What config.json leaves out is the family's
/// (families.hpp); null is a value of its own only for sliding_window. Returns Errc::config, naming
/// `name` and the key, for text that is not JSON, a missing or mistyped key, a model_type that is
/// no family, or layers that no family has.
Expected<HfConfig> read_hf_config(std::string_view json_text, std::string_view name);

/// Returns the text in transformers 4's spelling, which 5 reads to the same bits; 4 reads 5's to
/// other positions.
std::string write_hf_config(const HfConfig& config);

}  // namespace cohort::model
