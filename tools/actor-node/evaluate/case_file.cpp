#include "tools/actor-node/evaluate/case_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/outside_json.hpp"
#include "runtime/observe/output_file.hpp"

namespace cohort::evaluate {
namespace {

/// Returns where a byte of a text is.
std::string place_of(const std::string& text, size_t at) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
  const auto lines = std::count(text.begin(), end, '\n');
  const size_t line_begin = lines == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return fmt::format("line {}, column {}", lines + 1, at - line_begin + 1);
}

/// JSON has no word for what is not finite; Python writes these three. Returns the text with each
/// of them, outside strings, in quotes.
std::string with_quoted_words(const std::string& text) {
  std::string out;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_string && text[i] == '\\' && i + 1 < text.size()) {
      out += text[i++];
    } else if (text[i] == '"') {
      is_string = !is_string;
    } else if (!is_string) {
      const char* found = nullptr;
      for (const char* word : {"NaN", "Infinity", "-Infinity"})
        if (text.compare(i, std::char_traits<char>::length(word), word) == 0) found = word;
      if (found != nullptr) {
        out.append("\"").append(found).append("\"");
        i += std::char_traits<char>::length(found) - 1;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

/// The parser quotes a number that no double holds in its message; this adds where the number is.
std::string range_problem(const std::string& text, const std::string& what) {
  const size_t end = what.rfind('\''), begin = what.find('\'');
  if (begin >= end || end == std::string::npos) return what;
  const size_t at = text.find(what.substr(begin + 1, end - begin - 1));
  return at == std::string::npos ? what : what + " at " + place_of(text, at);
}

}  // namespace

Expected<Json> read_cases(const std::string& path) {
  COHORT_ASSIGN(const std::string text, observe::read_file(path));
  if (is_nested_deeper(text, k_json_depth_max))
    return Error{Errc::config, fmt::format("{}: more than {} arrays and objects in each other",
                                           path, k_json_depth_max)};
  Json root;
  try {
    root = Json::parse(with_quoted_words(text));
  } catch (const Json::parse_error& e) {
    return Error{Errc::config, path + ": " + e.what()};
  } catch (const Json::exception& e) {
    return Error{Errc::config, path + ": " + range_problem(text, e.what())};
  }
  if (root.is_object() && root.contains("cases")) root = Json(root["cases"]);
  if (!root.is_array())
    return Error{Errc::config, path + ": no list of cases, and no object with a list 'cases'"};
  return root;
}

}  // namespace cohort::evaluate
