#pragma once
/// JSON from outside: the files of a folder, the lines of a user. nlohmann's parser reads any
/// depth, and what then copies or prints the value recurses, so that brackets alone would overflow
/// the stack: the depth is checked before. Pure functions.
#include <cstddef>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort {

inline constexpr size_t k_json_depth_max = 64;  // the files of models and adapters have 4

/// Returns whether more than `depth` brackets are open at once, outside of strings.
bool is_nested_deeper(std::string_view json, size_t depth);

/// Parses an object with `Json`, one of nlohmann's types. Returns Errc::corrupt, in words that go
/// behind the name of a file, for what is nested more than k_json_depth_max deep or is no object.
template <class Json>
Expected<Json> parse_outside_object(std::string_view text) {
  if (is_nested_deeper(text, k_json_depth_max))
    return Error{Errc::corrupt, "is nested too deeply: 64 objects and lists in each other at most"};
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Errc::corrupt, "is not a JSON object"};
  return json;
}

}  // namespace cohort
