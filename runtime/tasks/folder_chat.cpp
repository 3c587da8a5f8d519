// The chat template of a folder as a ChatFormat.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/dialogue_text.hpp"
#include "runtime/tasks/folder_tokenizer.hpp"
#include "runtime/tasks/row_json.hpp"
#include "runtime/text/added_tokens.hpp"
#include "runtime/text/template/chat_template.hpp"

namespace cohort::tasks {
namespace {

// Characters of the private use area, of which one that a dialogue does not have marks places in
// it.
constexpr uint32_t k_mark_first = 0xE000, k_mark_last = 0xF8FF;

std::string private_character(uint32_t code) {
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// A text of the template, and where in it messages look like special tokens.
struct Rendered {
  std::string text;
  std::vector<size_t> plain_at;
};

class FolderChat final : public ChatFormat {
 public:
  FolderChat(std::shared_ptr<const FolderTokenizer> tokenizer, text::ChatTemplate chat)
      : tokenizer_(std::move(tokenizer)), template_(std::move(chat)) {}

  Expected<void> open(const FolderChatOptions& options);
  Expected<std::string> text(std::span<const ChatMessage> dialogue) const override {
    COHORT_ASSIGN(Rendered rendered, render(dialogue));
    return std::move(rendered.text);
  }
  Expected<std::vector<int32_t>> opening(std::span<const ChatMessage> dialogue) const override {
    COHORT_ASSIGN(const Rendered rendered, render(dialogue));
    return encode(rendered);
  }
  Expected<std::vector<int32_t>> opening(const WrittenDialogue& dialogue) const override;
  using ChatFormat::following;
  Expected<std::vector<int32_t>> following(std::span<const ChatMessage> messages,
                                           std::string_view answer) const override;
  std::span<const int32_t> answer_ends() const override { return ends_; }

 private:
  Expected<Rendered> render(std::span<const ChatMessage> dialogue) const;
  Expected<Rendered> render(const text::ChatTemplate& chat, RowJson messages, RowJson tools) const;
  Expected<Rendered> render_following(std::span<const ChatMessage> messages) const;
  Expected<void> check_shows_tools();
  Expected<std::vector<int32_t>> encode(const Rendered& rendered) const;
  std::string marked(std::string_view content, std::string_view mark) const;

  std::shared_ptr<const FolderTokenizer> tokenizer_;
  text::ChatTemplate template_;
  std::optional<text::ChatTemplate> tool_template_;  // of the folder, where it has one of its own
  text::ChatInput variables_;
  text::AddedTokenSearch special_;
  std::vector<int32_t> ends_;
};

/// Returns the content with `mark` behind the first character of what looks like a special token.
std::string FolderChat::marked(std::string_view content, std::string_view mark) const {
  std::vector<text::AddedPart> parts;
  special_.cut(content, text::AddedTokenUse::all, parts);
  std::string out;
  for (const text::AddedPart& part : parts) {
    // A token's text may be given with white space that it strips.
    const std::string_view all = content.substr(part.span.begin, part.span.end - part.span.begin);
    size_t into = 0;
    if (part.token != nullptr) {
      into = all.find(part.token->content) + 1;
      while (into < all.size() && (static_cast<uint8_t>(all[into]) & 0xC0) == 0x80) ++into;
    }
    out += all.substr(0, into);
    if (into > 0) out += mark;
    out += all.substr(into);
  }
  return out;
}

Expected<Rendered> FolderChat::render(std::span<const ChatMessage> dialogue) const {
  RowJson messages = RowJson::array();
  for (const ChatMessage& message : dialogue)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  return render(template_, std::move(messages), variables_.tools);
}

Expected<std::vector<int32_t>> FolderChat::opening(const WrittenDialogue& dialogue) const {
  const bool has_own = !dialogue.tools.is_null() && tool_template_;
  COHORT_ASSIGN(const Rendered rendered,
                render(has_own ? *tool_template_ : template_, dialogue.messages, dialogue.tools));
  return encode(rendered);
}

Expected<Rendered> FolderChat::render(const text::ChatTemplate& chat_template, RowJson messages,
                                      RowJson tools) const {
  const auto is_anywhere = [&](const std::string& mark) {
    return std::ranges::any_of(messages, [&](const RowJson& x) {
      return x["content"].get_ref<const std::string&>().find(mark) != std::string::npos;
    });
  };
  uint32_t code = k_mark_first;
  while (code < k_mark_last && is_anywhere(private_character(code))) ++code;
  const std::string mark = private_character(code);
  text::ChatInput input = variables_;
  for (RowJson& message : messages)
    message["content"] = marked(message["content"].get_ref<const std::string&>(), mark);
  input.messages = std::move(messages);
  input.tools = std::move(tools);
  COHORT_ASSIGN(const text::RenderedChat chat, chat_template.render(input));
  Rendered out;
  for (size_t at = 0;;) {
    const size_t next = chat.text.find(mark, at);
    out.text += chat.text.substr(at, next - at);
    if (next == std::string::npos) return out;
    out.plain_at.push_back(out.text.size());
    at = next + mark.size();
  }
}

// What a template writes behind an answer does not depend on the answer, so that one is rendered
// that can be found again. (What it writes before may: some drop the thoughts of earlier turns.)
Expected<Rendered> FolderChat::render_following(std::span<const ChatMessage> messages) const {
  constexpr std::string_view k_answer = "An answer that can be found again.";
  std::vector<ChatMessage> dialogue = {{"user", "A question."},
                                       {"assistant", std::string(k_answer)}};
  dialogue.insert(dialogue.end(), messages.begin(), messages.end());
  COHORT_ASSIGN(Rendered rendered, render(dialogue));
  const size_t found = rendered.text.find(k_answer);
  if (found == std::string::npos || rendered.text.find(k_answer, found + 1) != std::string::npos)
    return Error{Errc::invalid_argument,
                 "the chat template does not write an earlier answer as it is"};
  const size_t begin = found + k_answer.size();
  rendered.text.erase(0, begin);
  std::erase_if(rendered.plain_at, [&](size_t at) { return at < begin; });
  for (size_t& at : rendered.plain_at) at -= begin;
  return rendered;
}

Expected<std::vector<int32_t>> FolderChat::encode(const Rendered& rendered) const {
  COHORT_ASSIGN(text::Encoding encoding,
                tokenizer_->folder().tokenizer.encode(
                    rendered.text, {.adds_special_tokens = false, .plain_at = rendered.plain_at}));
  return std::move(encoding.ids);
}

Expected<std::vector<int32_t>> FolderChat::following(std::span<const ChatMessage> messages,
                                                     std::string_view answer) const {
  COHORT_ASSIGN(const Rendered rendered, render_following(messages));
  COHORT_ASSIGN(std::vector<int32_t> ids, encode(rendered));
  const std::string_view end = end_of(answer);
  if (ids.empty() || end.empty()) return ids;
  const bool is_call = messages.front().role == "tool";
  const bool is_any_end = is_call && std::ranges::find(ends_, ids.front()) != ends_.end();
  if (is_any_end || tokenizer_->decode({ids.data(), 1}) == end) ids.erase(ids.begin());
  return ids;
}

Expected<void> FolderChat::check_shows_tools() {
  const ChatMessage question[] = {{"user", "A question."}};
  COHORT_ASSIGN(const Rendered with, render(question));
  RowJson tools = std::exchange(variables_.tools, nullptr);
  COHORT_ASSIGN(const Rendered without, render(question));
  variables_.tools = std::move(tools);
  if (with.text != without.text) return {};
  return Error{Errc::config,
               "it shows no tools; give the folder one that does, or set "
               "multi_turn.shows_tools: false"};
}

Expected<void> FolderChat::open(const FolderChatOptions& options) {
  const text::TokenizerFolder& folder = tokenizer_->folder();
  for (const text::AddedToken& token : folder.tokenizer.added_tokens())
    if (token.is_special) special_.add(token.content, &token);
  special_.finish();
  if (const auto source = folder.chat_template(true))
    if (auto compiled = text::ChatTemplate::compile(*source)) tool_template_ = std::move(*compiled);
  variables_.special_tokens = folder.special_tokens;
  variables_.adds_generation_prompt = true;
  variables_.local_time = options.date;
  if (!options.kwargs.empty()) {
    variables_.kwargs = RowJson::parse(options.kwargs, nullptr, false);
    if (!variables_.kwargs.is_object())
      return Error{Errc::config, "chat_template_kwargs: not a map: " + options.kwargs};
  }
  if (!options.tools.empty()) {
    variables_.tools = RowJson::parse(options.tools, nullptr, false);
    const ChatMessage said[] = {{"tool", "A result."}, {"tool", "Another."}};
    if (auto answered = render_following(said); !answered)
      return answered.error().with_context("a message of role tool");
    COHORT_TRY(check_shows_tools());
  }
  const ChatMessage question[] = {{"user", "Another question."}};
  COHORT_ASSIGN(const Rendered behind, render_following(question));
  COHORT_ASSIGN(const std::vector<int32_t> ids, encode(behind));
  // The template's own end first: a base model's eos may be another token.
  if (!ids.empty() && folder.tokenizer.is_special(ids.front())) ends_.push_back(ids.front());
  for (const int32_t id : folder.eos_ids)
    if (std::ranges::find(ends_, id) == ends_.end()) ends_.push_back(id);
  if (ends_.empty())
    return Error{Errc::config,
                 "nothing says how an answer ends: no eos_token_id, and the chat template writes "
                 "no special token behind one"};
  for (const int32_t id : ends_) end_texts_.push_back(tokenizer_->decode({&id, 1}));
  return {};
}

}  // namespace

Expected<std::shared_ptr<const ChatFormat>> make_folder_chat(
    std::shared_ptr<const FolderTokenizer> tokenizer, const FolderChatOptions& options) {
  const std::string path = tokenizer->path();
  auto made = [&]() -> Expected<std::shared_ptr<const ChatFormat>> {
    const auto source = tokenizer->folder().chat_template(!options.tools.empty());
    if (!source)
      return Error{Errc::config,
                   "none (chat_template.jinja, or chat_template in tokenizer_config.json); give "
                   "the folder one, or set the key template to chatml"};
    COHORT_ASSIGN(text::ChatTemplate chat, text::ChatTemplate::compile(*source));
    auto format = std::make_shared<FolderChat>(std::move(tokenizer), std::move(chat));
    COHORT_TRY(format->open(options));
    return std::shared_ptr<const ChatFormat>(std::move(format));
  }();
  if (!made)
    return Error{Errc::config, fmt::format("{}: chat template: {}", path, made.error().detail)};
  return made;
}

std::string template_variables(std::string_view template_name, const std::string& kwargs) {
  RowJson variables = RowJson::parse(kwargs);
  if (template_name == "qwen3" && !variables.contains("enable_thinking"))
    variables["enable_thinking"] = true;
  return variables.dump();
}

}  // namespace cohort::tasks
