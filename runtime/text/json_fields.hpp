#pragma once
/// Reads the fields of a JSON object of tokenizer.json. The first failure stays, with the path of
/// the field, and every later read gives its default; finish() tells it. One thread.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/text/text_pattern.hpp"

namespace cohort::text {

using Json = nlohmann::json;

class JsonFields {
 public:
  /// `where` is the object's path, e.g. "pre_tokenizer.pretokenizers[1]".
  JsonFields(const Json& json, std::string where);

  /// Returns the value, or null if there is none or it is null.
  const Json* find(std::string_view key) const;
  std::string text(std::string_view key, std::optional<std::string> otherwise = std::nullopt);
  bool flag(std::string_view key, std::optional<bool> otherwise = std::nullopt);
  int64_t number(std::string_view key, int64_t least, int64_t most);
  /// One character.
  std::string character(std::string_view key);
  /// {"String": text} or {"Regex": text}.
  Pattern pattern(std::string_view key);
  /// An array, or an empty one after a failure.
  const Json& array(std::string_view key);

  void fail(std::string_view key, std::string_view what, Errc code = Errc::config);
  std::string path(std::string_view key) const;
  const std::string& where() const { return where_; }
  Expected<void> finish() const;

 private:
  const Json& json_;
  std::string where_;
  std::optional<Error> error_;
};

/// Returns `json`'s "type". Errc::config if it is no object with one.
Expected<std::string> type_of(const Json& json, std::string_view where);

}  // namespace cohort::text
