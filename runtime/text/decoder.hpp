#pragma once
/// The decoder of a tokenizer.json: ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, or a
/// Sequence of them; tokens in, text out, at once or token by token. Thread-safe; a DecoderState is
/// its owner's.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/text_pattern.hpp"

namespace cohort::text {

/// What a Decoder keeps between two tokens of one text. Bound: the text that it holds back.
class DecoderState {
 private:
  friend class Decoder;
  std::string bytes_;           // of a character that is not whole yet: at most 3
  bool is_run_broken_ = false;  // the run of <0xHH> is no UTF-8: U+FFFD for each further byte
  bool is_first_ = true;        // no token has come
  bool is_first_run_ = true;    // none but <0xHH> has come
  size_t stripped_ = 0;         // characters that Strip behind Fuse has looked at
  std::string held_;
  std::vector<std::string> tokens_;  // of a chain that cannot stream
};

class Decoder {
 public:
  /// `json` may be null: tokens are joined by spaces, as in the reference. Returns
  /// Errc::unsupported, naming the type, for others.
  static Expected<Decoder> read(const nlohmann::json& json);

  /// Returns the text of whole `tokens`, as tokenizer.json spells them.
  std::string decode(std::vector<std::string> tokens) const;

  /// Takes one more token and returns the text that is certain now. Nothing is given out while the
  /// text ends in U+FFFD, as a later byte may make a character of it. What was given out stays, so
  /// that a run of <0xHH> that turns out to be no UTF-8 has U+FFFD only for what is not out yet.
  std::string next(std::string_view token, DecoderState& state) const;
  /// Returns what was held back: the text ends.
  std::string finish(DecoderState& state) const;

  /// True for ByteLevel alone: the text is the bytes that the tokens stand for.
  bool is_byte_level() const { return is_byte_level_ && steps_.size() == 1; }

 private:
  struct Step {
    enum class Kind : uint8_t { byte_level, replace, byte_fallback, fuse, strip, metaspace };
    Kind kind = Kind::fuse;
    Pattern pattern;             // replace
    std::string content;         // replace: new text; strip, metaspace: the character
    size_t start = 0, stop = 0;  // strip [characters]
    bool drops_first = false;    // metaspace
  };
  Expected<void> add(const nlohmann::json& json, const std::string& where, int depth);
  Expected<Step> read_step(const nlohmann::json& json, const std::string& type,
                           const std::string& where) const;
  bool find_stream_steps();
  static void run(const Step& step, std::vector<std::string>& tokens);
  static std::string of_token(const Step& step, std::string token, bool is_first);
  std::string next_of_run(std::string_view token, DecoderState& state) const;
  std::string hold(std::string text, DecoderState& state) const;

  std::vector<Step> steps_;
  bool joins_by_spaces_ = true;
  bool can_stream_ = true;
  size_t token_steps_ = 0;      // the first steps, which look at one token alone
  bool is_byte_level_ = false;  // the step behind them is ByteLevel
  bool has_byte_fallback_ = false;
  size_t metaspace_ = SIZE_MAX;  // the step behind ByteFallback
  size_t strip_ = SIZE_MAX;      // the step that strips the whole text
};

}  // namespace cohort::text
