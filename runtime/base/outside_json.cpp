#include "runtime/base/outside_json.hpp"

namespace cohort {

bool is_nested_deeper(std::string_view json, size_t depth) {
  size_t open = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      if (c == '"') is_in_string = false;
      continue;
    }
    if (c == '"') is_in_string = true;
    if ((c == '[' || c == '{') && ++open > depth) return true;
    if ((c == ']' || c == '}') && open > 0) --open;
  }
  return false;
}

}  // namespace cohort
