#include "runtime/text/json_fields.hpp"

#include <utility>

#include "runtime/text/unicode.hpp"

namespace cohort::text {

JsonFields::JsonFields(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) fail("", "must be an object");
}

std::string JsonFields::path(std::string_view key) const {
  if (key.empty()) return where_.empty() ? "the file" : where_;
  return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
}

void JsonFields::fail(std::string_view key, std::string_view what, Errc code) {
  if (!error_) error_ = Error{code, path(key) + " " + std::string(what)};
}

Expected<void> JsonFields::finish() const {
  if (error_) return *error_;
  return {};
}

const Json* JsonFields::find(std::string_view key) const {
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::text(std::string_view key, std::optional<std::string> otherwise) {
  const Json* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_string()) return fail(key, "must be a text"), "";
  return value->get<std::string>();
}

bool JsonFields::flag(std::string_view key, std::optional<bool> otherwise) {
  const Json* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_boolean()) return fail(key, "must be true or false"), false;
  return value->get<bool>();
}

int64_t JsonFields::number(std::string_view key, int64_t least, int64_t most) {
  const Json* value = find(key);
  const bool is_small =
      value != nullptr && value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  const int64_t number = is_small ? value->get<int64_t>() : least - 1;
  if (number < least || number > most) {
    fail(key,
         "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return least;
  }
  return number;
}

std::string JsonFields::character(std::string_view key) {
  std::string value = text(key);
  if (value.empty() || utf8_size(value[0]) != value.size()) fail(key, "must be one character");
  return value;
}

Pattern JsonFields::pattern(std::string_view key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_object() && value->size() == 1) {
    if (const auto found = value->find("String"); found != value->end() && found->is_string())
      return Pattern::of_string(found->get<std::string>());
    if (const auto found = value->find("Regex"); found != value->end() && found->is_string()) {
      auto pattern = Pattern::of_regex(found->get<std::string>());
      if (pattern) return *std::move(pattern);
      fail(key, ": " + pattern.error().detail, pattern.error().code);
      return Pattern::of_string("");
    }
  }
  fail(key, "must be {\"String\": text} or {\"Regex\": text}");
  return Pattern::of_string("");
}

const Json& JsonFields::array(std::string_view key) {
  static const Json empty = Json::array();
  const Json* value = find(key);
  if (value != nullptr && value->is_array()) return *value;
  fail(key, "must be an array");
  return empty;
}

Expected<std::string> type_of(const Json& json, std::string_view where) {
  if (json.is_object())
    if (const auto type = json.find("type"); type != json.end() && type->is_string())
      return type->get<std::string>();
  return Error{Errc::config, std::string(where) + " must be an object with a \"type\""};
}

}  // namespace cohort::text
