#include "runtime/text/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/text/json_fields.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = previous_begin(text, text.size());
  return is_word_character(next_character(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word_character(next_character(text, at));
}

size_t before_spaces(std::string_view text, size_t at, size_t least) {
  const UnicodeTable& table = UnicodeTable::get();
  while (at > least) {
    const size_t begin = previous_begin(text, at);
    size_t next = begin;
    if (!table.is_space(next_character(text, next))) break;
    at = begin;
  }
  return at;
}

size_t behind_spaces(std::string_view text, size_t at) {
  const UnicodeTable& table = UnicodeTable::get();
  for (size_t next = at; next < text.size(); at = next)
    if (!table.is_space(next_character(text, next))) break;
  return at;
}

}  // namespace

AddedToken read_added_token(JsonFields& fields) {
  AddedToken token;
  token.content = fields.text("content");
  token.is_special = fields.flag("special", false);
  token.is_normalized = fields.flag("normalized", !token.is_special);
  token.is_single_word = fields.flag("single_word", false);
  token.strips_left = fields.flag("lstrip", false);
  token.strips_right = fields.flag("rstrip", false);
  return token;
}

void AddedTokenSearch::add(std::string text, const AddedToken* token) {
  COHORT_CHECK(!text.empty() && text.size() <= k_content_bytes_max, "an added token's length");
  begins_[static_cast<uint8_t>(text[0])] = true;
  entries_.push_back({std::move(text), token});
}

void AddedTokenSearch::finish() {
  std::ranges::stable_sort(entries_, {}, &Entry::text);
  const auto is_same = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), is_same), entries_.end());
}

const AddedTokenSearch::Entry* AddedTokenSearch::longest_at(std::string_view text) const {
  // Of the sorted entries those that agree with the text so far are neighbours.
  auto first = entries_.begin(), last = entries_.end();
  const Entry* longest = nullptr;
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte = [&](const Entry& x) { return static_cast<uint8_t>(x.text[depth]); };
    const auto wanted = static_cast<uint8_t>(text[depth]);
    first = std::partition_point(first, last, [&](const Entry& x) { return byte(x) < wanted; });
    last = std::partition_point(first, last, [&](const Entry& x) { return byte(x) == wanted; });
    if (first == last) break;
    if (first->text.size() == depth + 1) {
      longest = &*first;
      if (++first == last) break;
    }
  }
  return longest;
}

void AddedTokenSearch::cut(std::string_view text, AddedTokenUse use, std::vector<AddedPart>& parts,
                           const std::function<bool(Span)>& is_plain) const {
  size_t done = 0;
  const bool is_used = use != AddedTokenUse::none && !entries_.empty();
  for (size_t at = 0; is_used && at < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Entry* entry = longest_at(text.substr(at));
    if (entry == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + entry->text.size();
    at = end;
    const AddedToken& token = *entry->token;
    // What is not wanted is skipped whole: no shorter token is looked for inside it.
    if (token.is_special &&
        (use == AddedTokenUse::not_special || (is_plain && is_plain({begin, end}))))
      continue;
    if (token.is_single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    // The spaces that the token before took are found again here: as in the reference, a token that
    // strips left begins behind them, any other where it stands, and the text goes on behind it.
    if (token.strips_left) begin = std::max(before_spaces(text, begin, 0), done);
    if (token.strips_right) end = behind_spaces(text, end);
    if (done < begin) parts.push_back({{done, begin}, nullptr});
    if (begin < end) parts.push_back({{begin, end}, &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, nullptr});
}

}  // namespace cohort::text
