#include "runtime/text/template/chat_template.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/json_value.hpp"
#include "runtime/text/template/parser.hpp"
#include "runtime/text/template/resolver.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr size_t k_max_source_bytes = size_t{4} << 20;
// transformers' mark behind an open message: the blank shows whether the template trims.
constexpr std::string_view k_open_mark = "CONTINUE_FINAL_MESSAGE_TAG ";

Error error_of(const jinja::Failure& failure) {
  const Errc code = failure.kind == "LimitError" ? Errc::capacity : Errc::invalid_argument;
  const std::string line = failure.line > 0 ? fmt::format(" line {}", failure.line) : "";
  return {code, fmt::format("chat template{}: {}: {}", line, failure.kind, failure.what)};
}

jinja::Limits limits_of(const TemplateLimits& limits) {
  jinja::Limits x;
  x.steps = limits.steps;
  x.live_bytes = limits.live_bytes;
  x.output_bytes = limits.output_bytes;
  return x;
}

/// Ranges of characters as ranges of bytes; what lies behind the text is cut off.
std::vector<ByteRange> byte_ranges(std::string_view text,
                                   const std::vector<jinja::TextRange>& ranges) {
  std::vector<ByteRange> result;
  std::vector<size_t*> places;  // all begins and ends, to be turned from characters to bytes
  result.reserve(ranges.size());
  for (const auto& range : ranges) {
    ByteRange& places_of = result.emplace_back(ByteRange{range.begin, range.end});
    places.push_back(&places_of.begin);
    places.push_back(&places_of.end);
  }
  std::ranges::sort(places, {}, [](const size_t* place) { return *place; });
  size_t characters = 0, bytes = 0;
  for (size_t* place : places) {
    bytes += jinja::byte_of(text.substr(bytes), *place - characters);
    characters = *place;
    *place = bytes;
  }
  return result;
}

Expected<RenderedChat> rendered(jinja::Interpreter& interpreter) {
  RenderedChat chat;
  chat.text = interpreter.render();
  chat.generated = byte_ranges(chat.text, interpreter.generation_ranges());
  return chat;
}

Error bad_input(std::string what) { return {Errc::invalid_argument, std::move(what)}; }

/// Puts the mark behind the last message's text. Returns that text.
Expected<std::string> open_final_message(nlohmann::ordered_json& messages) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object() ||
      !messages.back().contains("content"))
    return bad_input("continue_final_message: the last message has no content");
  auto* content = &messages.back()["content"];
  if (content->is_array()) {
    const auto last = std::find_if(content->rbegin(), content->rend(), [](const auto& part) {
      return part.is_object() && part.contains("text");
    });
    if (last == content->rend())
      return bad_input("continue_final_message: the last message has no text to continue");
    content = &(*last)["text"];
  }
  if (!content->is_string())
    return bad_input("continue_final_message: the last message's content is no text");
  const std::string text = content->get<std::string>();
  *content = text + std::string(k_open_mark);
  return text;
}

/// Cuts the text at the mark, and the blanks before it if the template trimmed the message.
Expected<void> cut_at_mark(RenderedChat& chat, const std::string& content) {
  const std::string_view mark = k_open_mark.substr(0, k_open_mark.size() - 1);
  const auto wanted = jinja::strip_blanks(content, true, true);
  const size_t at = chat.text.rfind(mark);
  if (at == std::string::npos || chat.text.find(wanted) == std::string::npos)
    return bad_input("continue_final_message: the template does not print the last message whole");
  const bool keeps_blanks = chat.text.compare(at, k_open_mark.size(), k_open_mark) == 0;
  chat.text.resize(at);
  if (!keeps_blanks) chat.text.resize(jinja::strip_blanks(chat.text, false, true).size());
  for (auto& range : chat.generated)
    range = {std::min(range.begin, chat.text.size()), std::min(range.end, chat.text.size())};
  return {};
}

void set_variables(jinja::Interpreter& interpreter, const ChatInput& input,
                   const nlohmann::ordered_json& messages) {
  const auto set = [&](std::string name, const nlohmann::ordered_json& value) {
    interpreter.set_variable(std::move(name), jinja::value_of(interpreter.budget, value));
  };
  for (const auto& [name, text] : input.special_tokens) set(name, text);
  set("messages", messages);
  set("tools", input.tools);
  set("documents", input.documents);
  set("add_generation_prompt", input.adds_generation_prompt);
  if (!input.kwargs.is_object()) return;
  for (const auto& [name, value] : input.kwargs.items()) set(name, value);
}

}  // namespace

struct ChatTemplate::Compiled {
  jinja::Tree tree;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Compiled> compiled)
    : compiled_(std::move(compiled)) {}

Expected<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  if (source.size() > k_max_source_bytes)
    return bad_input(
        fmt::format("chat template: {} bytes; at most {}", source.size(), k_max_source_bytes));
  if (!is_valid_utf8(source)) return bad_input("chat template: the text is not UTF-8");
  try {
    auto compiled = std::make_shared<Compiled>();
    compiled->tree = jinja::parse_template(source);
    jinja::resolve_names(compiled->tree);
    return ChatTemplate(std::move(compiled));
  } catch (const jinja::Failure& failure) {
    return error_of(failure);
  }
}

Expected<RenderedChat> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                            const TemplateLimits& limits) const {
  try {
    jinja::Interpreter interpreter(compiled_->tree, limits_of(limits), std::nullopt);
    for (const auto& [name, value] : variables.items())
      interpreter.set_variable(name, jinja::value_of(interpreter.budget, value));
    return rendered(interpreter);
  } catch (const jinja::Failure& failure) {
    return error_of(failure);
  }
}

Expected<RenderedChat> ChatTemplate::render(const ChatInput& input,
                                            const TemplateLimits& limits) const {
  if (input.continues_final_message && input.adds_generation_prompt)
    return bad_input("continue_final_message and add_generation_prompt exclude each other");
  try {
    nlohmann::ordered_json opened;
    std::string content;
    if (input.continues_final_message) {
      opened = input.messages;
      COHORT_ASSIGN(content, open_final_message(opened));
    }
    jinja::Interpreter interpreter(compiled_->tree, limits_of(limits), input.local_time);
    set_variables(interpreter, input, input.continues_final_message ? opened : input.messages);
    COHORT_ASSIGN(RenderedChat chat, rendered(interpreter));
    if (input.continues_final_message) COHORT_TRY(cut_at_mark(chat, content));
    return chat;
  } catch (const jinja::Failure& failure) {
    return error_of(failure);
  }
}

Expected<nlohmann::ordered_json> with_parsed_arguments(nlohmann::ordered_json messages) {
  if (!messages.is_array()) return messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object() || !messages[i].contains("tool_calls") ||
        !messages[i]["tool_calls"].is_array())
      continue;
    for (auto& call : messages[i]["tool_calls"]) {
      auto& owner = call.is_object() && call.contains("function") ? call["function"] : call;
      if (!owner.is_object() || !owner.contains("arguments") || !owner["arguments"].is_string())
        continue;
      auto parsed =
          nlohmann::ordered_json::parse(owner["arguments"].get<std::string>(), nullptr, false);
      if (parsed.is_discarded())
        return bad_input(fmt::format(
            "messages[{}].tool_calls: the arguments of a call are a text that is no JSON", i));
      owner["arguments"] = std::move(parsed);
    }
  }
  return messages;
}

std::vector<bool> token_mask(std::span<const ByteRange> offsets,
                             std::span<const ByteRange> ranges) {
  std::vector<ByteRange> apart;  // the ranges, ascending, those that overlap as one
  for (const auto& range : ranges)
    if (range.begin < range.end) apart.push_back(range);
  std::ranges::sort(apart, {}, &ByteRange::begin);
  size_t count = 0;
  for (const ByteRange& range : apart) {
    if (count > 0 && range.begin < apart[count - 1].end)
      apart[count - 1].end = std::max(apart[count - 1].end, range.end);
    else
      apart[count++] = range;
  }
  apart.resize(count);
  std::vector<bool> mask(offsets.size(), false);
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto after = std::ranges::lower_bound(apart, offsets[i].end, {}, &ByteRange::begin);
    mask[i] = after != apart.begin() && (after - 1)->end > offsets[i].begin;
  }
  return mask;
}

std::vector<ByteRange> character_ranges(std::string_view text, std::span<const ByteRange> ranges) {
  std::vector<ByteRange> result;
  for (const auto& range : ranges) {
    const size_t begin = jinja::character_count(text.substr(0, range.begin));
    result.push_back(
        {begin, begin + jinja::character_count(text.substr(range.begin, range.end - range.begin))});
  }
  return result;
}

}  // namespace cohort::text
