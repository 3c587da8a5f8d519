#include "tools/actor-node/evaluate/case_file.hpp"

#include <fstream>
#include <sstream>

namespace cohort::evaluate {
namespace {

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

}  // namespace

Expected<Json> read_cases(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Errc::io, path + ": cannot be opened"};
  std::stringstream text;
  text << file.rdbuf();
  Json root;
  try {
    root = Json::parse(with_quoted_words(text.str()));
  } catch (const Json::parse_error& e) {
    return Error{Errc::config, path + ": " + e.what()};
  }
  if (root.is_object() && root.contains("cases")) root = Json(root["cases"]);
  if (!root.is_array())
    return Error{Errc::config, path + ": no list of cases, and no object with a list 'cases'"};
  return root;
}

}  // namespace cohort::evaluate
