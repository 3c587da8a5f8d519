#include "runtime/tasks/tools/tool_calls.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/error.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view k_open = "<tool_call>", k_close = "</tool_call>";
constexpr std::string_view k_python_tag = "<|python_tag|>";
constexpr std::string_view k_blank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(k_blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(k_blank) - begin + 1);
}

/// Where the brackets of a text that begins with one are all closed.
struct Extent {
  size_t end = std::string_view::npos;  // behind the last bracket; npos: it is not closed
  size_t depth = 0;                     // most brackets in brackets
};

Extent extent_of(std::string_view text) {
  Extent found;
  size_t open = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        is_string = false;
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      found.depth = std::max(found.depth, ++open);
    } else if ((c == '}' || c == ']') && --open == 0) {
      found.end = i + 1;
      return found;
    }
  }
  return found;
}

/// Returns the object that `text` is. The error is for the policy: what is wrong and where.
Expected<Json> object_of(std::string_view text) {
  if (text.empty() || text.front() != '{')
    return Error{Errc::invalid_argument, "is no JSON object: it does not begin with {"};
  if (extent_of(text).depth > k_tool_depth_max)
    return Error{Errc::invalid_argument,
                 fmt::format("is nested more than {} deep", k_tool_depth_max)};
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& fault) {
    return Error{Errc::invalid_argument,
                 fmt::format("is no JSON: wrong at character {}", fault.byte)};
  }
}

ToolCall broken(std::string why) {
  ToolCall call;
  call.error = std::move(why);
  return call;
}

const Json* arguments_of(const Json& call) {
  for (const char* key : {"arguments", "parameters"})
    if (auto found = call.find(key); found != call.end()) return &*found;
  return nullptr;
}

ToolCall call_of(const Json& object) {
  ToolCall call;
  if (auto name = object.find("name"); name != object.end() && name->is_string())
    call.name = name->get<std::string>();
  if (call.name.empty()) return broken("the tool call has no \"name\"");
  const Json* arguments = arguments_of(object);
  if (arguments == nullptr || arguments->is_null()) return call;
  Json own;
  if (arguments->is_string()) {
    auto parsed = object_of(trimmed(arguments->get_ref<const std::string&>()));
    if (!parsed) {
      call.error = "the text of \"arguments\" " + parsed.error().detail;
      return call;
    }
    own = std::move(*parsed);
    arguments = &own;
  }
  if (!arguments->is_object()) {
    call.error = "\"arguments\" is no JSON object";
    return call;
  }
  call.arguments = arguments->dump(-1, ' ', false, Json::error_handler_t::replace);
  return call;
}

ToolCall call_of(std::string_view text) {
  auto object = object_of(text);
  return object ? call_of(*object) : broken("the tool call " + object.error().detail);
}

std::vector<ToolCall> read_hermes(std::string_view answer, bool is_ended) {
  std::vector<ToolCall> calls;
  for (size_t at = 0; (at = answer.find(k_open, at)) != std::string_view::npos;) {
    const size_t begin = at + k_open.size();
    const size_t end = answer.find(k_close, begin);
    if (end == std::string_view::npos) {
      if (is_ended) calls.push_back(broken("a <tool_call> has no </tool_call>"));
      break;
    }
    calls.push_back(call_of(trimmed(answer.substr(begin, end - begin))));
    at = end + k_close.size();
  }
  return calls;
}

std::string_view without_separator(std::string_view text) {
  const size_t next = text.find_first_not_of(" \t\r\n;,");
  return next == std::string_view::npos ? std::string_view() : text.substr(next);
}

/// The objects that `text` begins with; what follows the last is no call.
std::vector<ToolCall> read_objects(std::string_view text, bool is_ended) {
  std::vector<ToolCall> calls;
  while (!text.empty() && text.front() == '{') {
    const size_t end = extent_of(text).end;
    if (end == std::string_view::npos) {
      if (is_ended) calls.push_back(call_of(text));
      break;
    }
    calls.push_back(call_of(text.substr(0, end)));
    text = without_separator(text.substr(end));
  }
  return calls;
}

/// Whether an answer that is an object is meant as a call: a policy may answer in JSON too.
bool is_meant_as_call(std::string_view text) {
  const size_t end = extent_of(text).end;
  auto object = object_of(text.substr(0, end));
  if (object) return object->contains("name") && arguments_of(*object) != nullptr;
  return text.find("\"name\"") != std::string_view::npos &&
         (text.find("\"parameters\"") != std::string_view::npos ||
          text.find("\"arguments\"") != std::string_view::npos);
}

std::vector<ToolCall> read_llama3(std::string_view answer, bool is_ended) {
  const size_t tag = answer.find(k_python_tag);
  if (tag == std::string_view::npos) {
    const std::string_view text = trimmed(answer);
    if (text.empty() || text.front() != '{' || !is_meant_as_call(text)) return {};
    return read_objects(text, is_ended);
  }
  const std::string_view text = trimmed(answer.substr(tag + k_python_tag.size()));
  std::vector<ToolCall> calls = read_objects(text, is_ended);
  if (calls.empty() && is_ended) calls.push_back(call_of(text));
  return calls;
}

}  // namespace

std::vector<ToolCall> read_tool_calls(std::string_view answer, ToolFormat format, bool is_ended) {
  return format == ToolFormat::hermes ? read_hermes(answer, is_ended)
                                      : read_llama3(answer, is_ended);
}

}  // namespace cohort::tasks
