#include "runtime/text/dialogue.hpp"

#include <algorithm>
#include <utility>

#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

using ChatJson = nlohmann::ordered_json;

ChatJson message_of(const char* role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

std::string_view without_blanks(std::string_view text, bool at_begin, bool at_end) {
  constexpr std::string_view k_blanks = " \t\r\n\v\f";
  const size_t first = at_begin ? text.find_first_not_of(k_blanks) : 0;
  if (first >= text.size()) return {};
  const size_t last = at_end ? text.find_last_not_of(k_blanks) : text.size() - 1;
  return last == std::string_view::npos ? std::string_view() : text.substr(first, last + 1 - first);
}

}  // namespace

Dialogue::Dialogue(Options options, ChatTemplate compiled)
    : options_(std::move(options)), template_(std::move(compiled)) {
  reset();
}

Expected<Dialogue> Dialogue::begin(Options options) {
  COHORT_ASSIGN(const std::string_view source, options.folder->chat_template(false));
  COHORT_ASSIGN(ChatTemplate compiled, ChatTemplate::compile(source));
  return Dialogue(std::move(options), std::move(compiled));
}

void Dialogue::reset() {
  messages_ = ChatJson::array();
  if (!options_.system.empty()) messages_.push_back(message_of("system", options_.system));
  pieces_.clear();
}

Expected<std::string> Dialogue::render(const ChatJson& messages) const {
  ChatInput input;
  input.messages = messages;
  input.kwargs = options_.kwargs;
  input.special_tokens = options_.folder->special_tokens;
  input.adds_generation_prompt = true;
  input.local_time = options_.local_time;
  COHORT_ASSIGN(RenderedChat chat, template_.render(input));
  return std::move(chat.text);
}

Expected<void> Dialogue::ask(std::string_view text) {
  if (!is_valid_utf8(text)) return Error{Errc::invalid_argument, "the line is not UTF-8"};
  ChatJson messages = messages_;
  messages.push_back(message_of("user", text));
  COHORT_ASSIGN(const std::string rendered, render(messages));
  // Pieces that stand in the text as they did keep their ids. Some templates trim answers.
  size_t at = 0, kept = 0;
  const auto stands = [&](const Piece& piece, bool at_begin, bool at_end) {
    const std::string_view content = without_blanks(piece.text, at_begin, at_end);
    if (!std::string_view(rendered).substr(at).starts_with(content)) return false;
    at += content.size();
    return true;
  };
  for (; kept < pieces_.size(); ++kept) {
    const Piece& piece = pieces_[kept];
    if (stands(piece, false, false)) continue;
    if (!piece.is_sampled) break;
    if (!stands(piece, true, false) && !stands(piece, false, true) && !stands(piece, true, true))
      break;
  }
  // The template has written bos itself.
  COHORT_ASSIGN(Encoding rest,
                options_.folder->tokenizer.encode(std::string_view(rendered).substr(at),
                                                  {.adds_special_tokens = false}));
  has_changed_text_ |= kept < pieces_.size();
  pieces_.resize(kept);
  pieces_.push_back({rendered.substr(at), std::move(rest.ids), false});
  messages_ = std::move(messages);
  return {};
}

void Dialogue::answer(std::span<const TokenId> ids) {
  // The template writes the end of the turn: it comes with the next one.
  const std::vector<TokenId>& ends = options_.folder->eos_ids;
  if (!ids.empty() && std::ranges::find(ends, ids.back()) != ends.end())
    ids = ids.first(ids.size() - 1);
  std::string text = options_.folder->tokenizer.decode(ids);
  messages_.push_back(message_of("assistant", text));
  pieces_.push_back({std::move(text), {ids.begin(), ids.end()}, true});
}

std::vector<TokenId> Dialogue::ids() const {
  std::vector<TokenId> all;
  for (const Piece& piece : pieces_) all.insert(all.end(), piece.ids.begin(), piece.ids.end());
  return all;
}

}  // namespace cohort::text
