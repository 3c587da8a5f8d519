#include "runtime/text/chat_encoder.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace cohort::text {
namespace {

using DialogueJson = nlohmann::ordered_json;

constexpr std::string_view k_assistant = "assistant";
constexpr std::array<std::string_view, 6> k_roles = {"system",    "developer", "user",
                                                     "assistant", "tool",      "ipython"};

std::string role_of(const DialogueJson& message) { return message.at("role").get<std::string>(); }

Error about(size_t turn, const std::string& what) {
  return {Errc::invalid_argument, "messages[" + std::to_string(turn) + "]" + what};
}

Expected<void> check_roles(const DialogueJson& messages) {
  if (!messages.is_array() || messages.empty())
    return Error{Errc::invalid_argument, "messages: a list of at least one message is expected"};
  bool has_assistant = false;
  for (size_t turn = 0; turn < messages.size(); ++turn) {
    const DialogueJson& message = messages[turn];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return about(turn, ": an object with a role is expected");
    const std::string role = role_of(message);
    if (std::ranges::find(k_roles, role) == k_roles.end())
      return about(turn, ".role is \"" + role + "\": system, user, assistant or tool is expected");
    has_assistant = has_assistant || role == k_assistant;
  }
  if (has_assistant) return {};
  return Error{Errc::invalid_argument,
               "no message of the assistant: there is nothing to imitate; give one, or take the "
               "row out"};
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// The part that two texts begin with, without the tag that they tell apart: "<think>" and
/// "<tool_call>" share a "<t" that is neither's.
size_t common_beginning(std::string_view a, std::string_view b) {
  const auto end = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const size_t tag = a.substr(0, end).find_last_of("<>");
  return tag != std::string_view::npos && a[tag] == '<' ? tag : end;
}

}  // namespace

/// A dialogue, rendered turn by turn with the turns before as prefix.
class ChatEncoder::Turns {
 public:
  Turns(const ChatTemplate& made, const ChatInput& input, bool ignores_mismatch)
      : template_(made), input_(input), ignores_mismatch_(ignores_mismatch) {}

  Expected<RenderedChat> render() {
    for (size_t turn = 0; turn < input_.messages.size(); ++turn)
      if (role_of(input_.messages[turn]) == k_assistant) COHORT_TRY(add(turn));
    if (last_ < input_.messages.size()) COHORT_TRY(add_rest());
    return std::move(chat_);
  }

 private:
  /// The turns since the last one of the assistant, and this one.
  Expected<void> add(size_t turn) {
    COHORT_ASSIGN(const std::string asked, text_of(0, turn, true));
    COHORT_ASSIGN(const std::string answered, text_of(0, turn + 1, false));
    size_t header = asked.size();
    if (!answered.starts_with(asked)) {
      if (!ignores_mismatch_)
        return about(turn,
                     ": behind the template's generation prompt it does not write this "
                     "answer; take a template with {% generation %} blocks, or set "
                     "ignore_input_ids_mismatch");
      header = common_beginning(asked, answered);
      COHORT_ASSIGN(const std::string before, text_of(0, turn, false));
      if (header < before.size())
        return about(turn,
                     ": the template moves earlier turns once it is answered; take a "
                     "template with {% generation %} blocks");
    }
    COHORT_TRY(append(asked, turn, true));
    const size_t begin = chat_.text.size();
    chat_.text += std::string_view(answered).substr(header);
    chat_.generated.push_back({begin, chat_.text.size()});
    last_ = turn + 1;
    return {};
  }
  Expected<void> add_rest() {
    const size_t count = input_.messages.size();
    COHORT_ASSIGN(const std::string whole, text_of(0, count, false));
    return append(whole, count, false);
  }
  /// `text`: the turns before `end`. Appends what is new in it.
  Expected<void> append(const std::string& text, size_t end, bool is_asking) {
    if (text.starts_with(chat_.text)) {
      chat_.text = text;
      return {};
    }
    if (!ignores_mismatch_)
      return about(last_ - 1,
                   ": the template writes this turn differently once later ones come, "
                   "so no text is what the model would see; take a template with "
                   "{% generation %} blocks, or set ignore_input_ids_mismatch");
    COHORT_ASSIGN(const size_t preamble, preamble_size());
    COHORT_ASSIGN(const std::string alone, text_of(last_, end, is_asking));
    chat_.text += std::string_view(alone).substr(std::min(preamble, alone.size()));
    return {};
  }
  /// What the template puts in front of a dialogue that has no system message.
  Expected<size_t> preamble_size() const {
    const DialogueJson user = {{"role", "user"}, {"content", ""}};
    COHORT_ASSIGN(const std::string one, render_messages(DialogueJson::array({user}), false));
    const auto two = render_messages(DialogueJson::array({user, user}), false);
    if (!two) return 0;  // the template wants turns to alternate: it has no way to tell
    return 2 * one.size() - std::min(2 * one.size(), two->size());
  }
  Expected<std::string> text_of(size_t begin, size_t end, bool is_asking) const {
    const auto first = input_.messages.begin();
    DialogueJson some = DialogueJson::array();
    for (size_t turn = begin; turn < end; ++turn)
      some.push_back(*(first + static_cast<ptrdiff_t>(turn)));
    return render_messages(std::move(some), is_asking);
  }
  Expected<std::string> render_messages(DialogueJson messages, bool is_asking) const {
    ChatInput input = input_;
    input.messages = std::move(messages);
    input.adds_generation_prompt = is_asking;
    COHORT_ASSIGN(RenderedChat chat, template_.render(input));
    return std::move(chat.text);
  }

  const ChatTemplate& template_;
  const ChatInput& input_;
  bool ignores_mismatch_;
  RenderedChat chat_;
  size_t last_ = 0;  // turns that are in it
};

Expected<ChatTemplate> ChatEncoder::template_for(bool has_tools) {
  std::string source;
  if (options_.source) {
    source = *options_.source;
  } else {
    COHORT_ASSIGN(source, options_.folder->chat_template(has_tools));
  }
  const auto known = compiled_.find(source);
  if (known != compiled_.end()) return known->second;
  COHORT_ASSIGN(const ChatTemplate made, ChatTemplate::compile(source));
  compiled_.emplace(std::move(source), made);
  return made;
}

/// `is_whole_tokens`: a token that begins before a range and reaches into it is not the range's.
Expected<EncodedChat> ChatEncoder::tokens_of(RenderedChat chat, bool is_whole_tokens) const {
  EncodedChat out{std::move(chat.text), std::move(chat.generated), {}, {}};
  if (options_.folder == nullptr) return out;
  COHORT_ASSIGN(Encoding encoding,
                options_.folder->tokenizer.encode(
                    out.text, {.adds_special_tokens = false, .wants_offsets = true}));
  std::vector<ByteRange> offsets;
  for (const auto& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  out.mask = token_mask(offsets, out.generated);
  for (size_t i = 0; is_whole_tokens && i < offsets.size(); ++i)
    for (const ByteRange& range : out.generated)
      if (offsets[i].begin < range.begin && offsets[i].end > range.begin) out.mask[i] = false;
  out.ids = std::move(encoding.ids);
  return out;
}

void ChatEncoder::fill(ChatInput& input) const {
  if (options_.folder != nullptr) input.special_tokens = options_.folder->special_tokens;
  if (options_.bos) input.special_tokens["bos_token"] = *options_.bos;
  if (options_.eos) input.special_tokens["eos_token"] = *options_.eos;
  input.local_time = options_.local_time;
}

Expected<EncodedChat> ChatEncoder::encode(ChatInput input) {
  fill(input);
  COHORT_ASSIGN(const ChatTemplate made, template_for(!input.tools.is_null()));
  COHORT_ASSIGN(RenderedChat chat, made.render(input));
  return tokens_of(std::move(chat), false);
}

Expected<EncodedChat> ChatEncoder::imitate(ChatInput input, bool ignores_mismatch) {
  fill(input);
  COHORT_TRY(check_roles(input.messages));
  COHORT_ASSIGN(const ChatTemplate made, template_for(!input.tools.is_null()));
  COHORT_ASSIGN(RenderedChat whole, made.render(input));
  if (!whole.generated.empty()) return tokens_of(std::move(whole), false);
  Turns turns(made, input, ignores_mismatch);
  COHORT_ASSIGN(RenderedChat chat, turns.render());
  COHORT_ASSIGN(EncodedChat out, tokens_of(std::move(chat), true));
  drop_tails(out);
  return out;
}

/// A template goes on to a new line behind the token that ends a turn; generation never gets there.
void ChatEncoder::drop_tails(EncodedChat& chat) const {
  if (options_.folder == nullptr) return;
  const Tokenizer& tokenizer = options_.folder->tokenizer;
  size_t begin = 0;
  while (begin < chat.ids.size()) {
    if (!chat.mask[begin]) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < chat.ids.size() && chat.mask[end]) ++end;
    size_t tail = end;
    while (tail > begin && !tokenizer.is_special(chat.ids[tail - 1])) --tail;
    const std::span<const TokenId> behind(chat.ids.data() + tail, end - tail);
    if (tail > begin && is_blank(tokenizer.decode(behind)))
      std::fill(chat.mask.begin() + static_cast<ptrdiff_t>(tail),
                chat.mask.begin() + static_cast<ptrdiff_t>(end), false);
    begin = end;
  }
}

}  // namespace cohort::text
