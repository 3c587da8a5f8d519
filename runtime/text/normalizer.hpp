#pragma once
/// The normalizer of a tokenizer.json: NFC, Prepend, Replace, or a Sequence of them. Thread-safe.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/text_piece.hpp"

namespace cohort::text {

class Normalizer {
 public:
  /// `json` may be null: the identity. Returns Errc::unsupported, naming the type, for others.
  static Expected<Normalizer> read(const nlohmann::json& json);

  bool is_identity() const { return steps_.empty(); }
  /// Returns Errc::capacity as Pattern::find does.
  Expected<void> apply(TextPiece& piece, TextBuffers& buffers, StepBudget& budget) const;

 private:
  struct Step {
    enum class Kind : uint8_t { nfc, prepend, replace } kind;
    Pattern pattern;
    std::string content;
  };
  Expected<void> add(const nlohmann::json& json, const std::string& where, int depth);
  std::vector<Step> steps_;
};

}  // namespace cohort::text
