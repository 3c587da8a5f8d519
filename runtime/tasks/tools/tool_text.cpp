#include "runtime/tasks/tools/tool_text.hpp"

#include <utility>
#include <vector>

#include "runtime/text/unicode.hpp"

namespace cohort::tasks {
namespace {

constexpr std::string_view k_cut_end = "...(truncated)", k_cut_begin = "(truncated)...",
                           k_cut_middle = "...(truncated)...";

/// `head` and `tail` of a text of which a part between them goes.
std::string joined(CutSide side, std::string_view head, std::string_view tail) {
  switch (side) {
    case CutSide::left:
      return std::string(head).append(k_cut_end);
    case CutSide::right:
      return std::string(k_cut_begin).append(tail);
    case CutSide::middle:
      break;
  }
  return std::string(head).append(k_cut_middle).append(tail);
}

/// How many units of `length` stay at the beginning, and at the end.
std::pair<size_t, size_t> parts_of(size_t length, CutSide side) {
  if (side == CutSide::middle) return {length / 2, length / 2};
  return side == CutSide::left ? std::pair{length, size_t{0}} : std::pair{size_t{0}, length};
}

}  // namespace

std::string cut_text(std::string_view text, size_t length, CutSide side) {
  size_t count = 0;
  for (const char byte : text) count += text::is_continuation(byte) ? 0 : 1;
  if (count <= length) return std::string(text);
  const auto [first, last] = parts_of(length, side);
  size_t head = 0;
  for (size_t i = 0; i < first; ++i) head += text::utf8_size(text[head]);
  size_t tail = text.size();
  for (size_t i = 0; i < last; ++i) tail = text::previous_begin(text, tail);
  return joined(side, text.substr(0, head), text.substr(tail));
}

std::string ToolText::encodable(std::string text) const {
  if (tokenizer_->encode(text)) return text;
  const bool has_mark = tokenizer_->encode("?").has_value();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = std::string_view(text).substr(at, text::utf8_size(text[at]));
    at += character.size();
    if (tokenizer_->encode(character))
      out += character;
    else if (has_mark)
      out += '?';
  }
  return out;
}

std::string ToolText::cut_tokens(std::string text) const {
  auto ids = tokenizer_->encode(text);
  if (limits_.tokens_max == 0 || !ids || ids->size() <= limits_.tokens_max) return text;
  const auto [first, last] = parts_of(limits_.tokens_max, limits_.side);
  // A cut inside a character leaves bytes that are none.
  const std::span<const int32_t> all(*ids);
  return joined(limits_.side, text::to_valid_utf8(tokenizer_->decode(all.first(first))),
                text::to_valid_utf8(tokenizer_->decode(all.last(last))));
}

std::string ToolText::shown(std::string_view output) const {
  std::string text = text::to_valid_utf8(output);
  if (limits_.characters_max > 0) text = cut_text(text, limits_.characters_max, limits_.side);
  return encodable(cut_tokens(encodable(std::move(text))));
}

}  // namespace cohort::tasks
