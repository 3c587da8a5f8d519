#pragma once
/// The pre-tokenizer of a tokenizer.json: Split, Digits, ByteLevel, Metaspace, or a Sequence of
/// them. ByteLevel is the last one: pieces behind it are bytes, not characters. Thread-safe.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/text_piece.hpp"

namespace cohort::text {

class PreTokenizer {
 public:
  /// `json` may be null: the identity. Returns Errc::unsupported, naming the type, for others.
  static Expected<PreTokenizer> read(const nlohmann::json& json);

  /// True if the model's alphabet is the 256 bytes.
  bool is_byte_level() const { return is_byte_level_; }
  /// Cuts the one piece in `pieces` into as many as it takes, none of them empty; `spare` is a
  /// buffer of the caller. Returns Errc::capacity as Pattern::find does.
  Expected<void> apply(std::vector<TextPiece>& pieces, std::vector<TextPiece>& spare,
                       TextBuffers& buffers, StepBudget& budget) const;

 private:
  struct Step {
    enum class Kind : uint8_t { split, prepend_space, metaspace } kind = Kind::split;
    enum class Prepend : uint8_t { never, first, always } prepend = Prepend::never;
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool is_inverted = false;
    bool splits = true;       // metaspace: cuts before each replacement
    std::string replacement;  // metaspace
  };
  Expected<void> add(const nlohmann::json& json, const std::string& where, int depth);
  Expected<Step> read_split(const nlohmann::json& json, const std::string& where) const;
  Expected<Step> read_metaspace(const nlohmann::json& json, const std::string& where) const;
  Expected<void> change(const Step& step, TextPiece& piece, TextBuffers& buffers,
                        StepBudget& budget) const;
  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace cohort::text
