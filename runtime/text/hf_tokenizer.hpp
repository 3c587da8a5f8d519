#pragma once
/// A tokenizer as Hugging Face's tokenizer.json describes it: text to ids and back, equal to the
/// tokenizers package of that company for the parts that are built (docs/tokenizer.md). Sampled ids
/// are never made from text again: encode(decode(ids)) may differ from ids.
/// Thread-safe: calls share nothing but a pool of buffers. Bound: the tables of the file, and 2 MiB
/// and the longest text so far for each thread that encodes at a time.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/added_tokens.hpp"
#include "runtime/text/decoder.hpp"
#include "runtime/text/nfc.hpp"
#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

struct EncodeOptions {
  /// The post-processor's tokens, e.g. <s> in front. Text of a chat template has them already.
  bool adds_special_tokens = true;
  AddedTokenUse added_tokens = AddedTokenUse::all;
  bool wants_offsets = false;
  /// Ascending offsets of the text that no special token may span: where a text of others, in a
  /// text of a template, looks like one. Needs valid UTF-8.
  std::span<const size_t> plain_at = {};
};

/// For text of others, e.g. what an environment says: no id in it is special.
inline constexpr EncodeOptions k_plain_text{.adds_special_tokens = false,
                                            .added_tokens = AddedTokenUse::not_special};

struct Encoding {
  std::vector<TokenId> ids;
  /// With wants_offsets: the bytes of the text that each id stands for, whole characters; empty for
  /// the post-processor's.
  std::vector<Span> offsets;
};

struct DecodeOptions {
  bool skips_special_tokens = false;
};

class Tokenizer {
 public:
  /// Reads the text of a tokenizer.json; `name` is for messages. Returns Errc::config (broken) or
  /// Errc::unsupported (not built), with the name, the path in the file and what may stand there.
  /// Tokens of `more` that the file lacks are added to its added_tokens.
  static Expected<Tokenizer> from_json(std::string_view json, std::string_view name,
                                       std::span<const AddedToken> more = {});
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Bytes that are not UTF-8 are taken as U+FFFD; offsets are then of that text. Returns
  /// Errc::capacity if a regular expression of the file takes too long on this text.
  Expected<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Ids that no token has give nothing.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// Returns the id of a token's text, added or of the vocabulary.
  std::optional<TokenId> id_of(std::string_view token) const;
  /// Returns a token as tokenizer.json spells it, or nothing.
  std::optional<std::string_view> token(TokenId id) const;
  bool is_special(TokenId id) const;
  /// Largest id + 1: a model has at least as many rows.
  TokenId id_end() const;
  const std::vector<AddedToken>& added_tokens() const;
  const Decoder& decoder() const;

 private:
  class Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Text of ids that come one by one: what is certain is given out at once, and U+FFFD is held back
/// while a later byte may make a character of it. One thread. `tokenizer` outlives it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(&tokenizer), options_(options) {}
  /// Returns the text that `id` adds.
  std::string next(TokenId id);
  /// Returns what is held back, and begins anew.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  DecoderState state_;
};

}  // namespace cohort::text
