#pragma once
/// The added tokens of a tokenizer.json, which are cut out of a text before anything else looks at
/// it. Thread-safe once made.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/nfc.hpp"
#include "runtime/text/token_vocabulary.hpp"

namespace cohort::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool is_special = false;
  bool is_normalized = false;   // searched in the normalised text
  bool is_single_word = false;  // only where no word character touches it
  bool strips_left = false;     // takes the white space before it
  bool strips_right = false;
};

class JsonFields;
/// Returns what a token's object says of it: content and flags. It may leave out the flags.
AddedToken read_added_token(JsonFields& fields);

/// Which added tokens a text may be cut at.
enum class AddedTokenUse : uint8_t {
  all,
  not_special,  // text cannot make a special id: transformers' split_special_tokens
  none,
};

/// A part of a text: a token, or what stands between two.
struct AddedPart {
  Span span;
  const AddedToken* token;  // null: text
};

/// Finds tokens in a text: the leftmost, of several there the longest. Time: bytes of the text
/// times the length of the longest token, at most k_content_bytes_max; one look a byte where no
/// token begins.
class AddedTokenSearch {
 public:
  static constexpr size_t k_content_bytes_max = 1024;

  /// Adds a token that is written `text`; of two written alike the first stays. `token` outlives
  /// this. REQUIRES: 0 < text.size() <= k_content_bytes_max.
  void add(std::string text, const AddedToken* token);
  /// Call it behind the last add() and before cut().
  void finish();
  bool is_empty() const { return entries_.empty(); }
  /// Appends the parts of `text`, in order; no text is empty. A special token where `is_plain` is
  /// true is none. REQUIRES: valid UTF-8.
  void cut(std::string_view text, AddedTokenUse use, std::vector<AddedPart>& parts,
           const std::function<bool(Span)>& is_plain = nullptr) const;

 private:
  struct Entry {
    std::string text;
    const AddedToken* token;
  };
  const Entry* longest_at(std::string_view text) const;
  std::vector<Entry> entries_;  // sorted by text, in bytes
  bool begins_[256] = {};       // by first byte
};

}  // namespace cohort::text
