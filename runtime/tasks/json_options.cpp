#include "runtime/tasks/json_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/suggest.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::json;

/// Returns the list, nothing if it is none or one of its items is of another kind.
template <class T>
std::optional<std::vector<T>> list_of(const std::string& text, bool (Json::*is_right)() const) {
  Json json = Json::parse(text, nullptr, false);
  auto is_item = [&](const Json& item) { return (item.*is_right)(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_item)) return std::nullopt;
  return json.get<std::vector<T>>();
}

}  // namespace

Expected<Options> Options::parse(std::string_view owner, std::string_view json) {
  Options options;
  options.owner_ = owner;
  if (json.empty()) return options;
  Json root = Json::parse(json, nullptr, false);
  if (root.is_null()) return options;
  if (!root.is_object())
    return Error{Errc::config, fmt::format("{}: its config is no JSON object: {}", owner, json)};
  for (const auto& [key, value] : root.items())
    options.values_[key] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return options;
}

const std::string* Options::raw(std::string_view key) {
  known_.emplace_back(key);
  auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

void Options::reject(std::string_view key, std::string_view what) {
  if (complaint_.empty()) complaint_ = fmt::format("{}: {}: {}", owner_, key, what);
}

double Options::number(std::string_view key, double otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return otherwise;
  Json json = Json::parse(*value, nullptr, false);
  if (json.is_number() && std::isfinite(json.get<double>())) return json.get<double>();
  reject(key, fmt::format("{} is no number", *value));
  return otherwise;
}

uint32_t Options::count(std::string_view key, uint32_t otherwise, uint32_t least) {
  double value = number(key, otherwise);
  if (value >= least && value <= 4e9 && value == std::floor(value))
    return static_cast<uint32_t>(value);
  reject(key, fmt::format("{} is no whole number of at least {}", value, least));
  return otherwise;
}

bool Options::flag(std::string_view key, bool otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return otherwise;
  if (*value == "true" || *value == "false") return *value == "true";
  reject(key, fmt::format("{} is neither true nor false", *value));
  return otherwise;
}

std::string Options::text(std::string_view key, std::string_view otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return std::string(otherwise);
  Json json = Json::parse(*value, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  reject(key, fmt::format("{} is no text", *value));
  return std::string(otherwise);
}

std::vector<std::string> Options::texts(std::string_view key, std::vector<std::string> otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return otherwise;
  if (auto list = list_of<std::string>(*value, &Json::is_string)) return std::move(*list);
  reject(key, fmt::format("{} is no list of texts", *value));
  return otherwise;
}

std::vector<int> Options::integers(std::string_view key, std::vector<int> otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return otherwise;
  if (auto list = list_of<int>(*value, &Json::is_number_integer)) return std::move(*list);
  reject(key, fmt::format("{} is no list of whole numbers", *value));
  return otherwise;
}

std::map<std::string, std::string> Options::text_map(std::string_view key) {
  std::map<std::string, std::string> texts;
  const std::string* value = raw(key);
  if (value == nullptr) return texts;
  Json json = Json::parse(*value, nullptr, false);
  if (!json.is_object()) reject(key, fmt::format("{} is no map of texts", *value));
  for (const auto& [name, text] : json.items()) {
    if (text.is_string())
      texts[name] = text.get<std::string>();
    else
      reject(key, fmt::format("{} of {} is no text", text.dump(), name));
  }
  return texts;
}

std::string Options::choice(std::string_view key, std::vector<std::string_view> names) {
  std::string value = text(key, names.front());
  if (std::find(names.begin(), names.end(), value) == names.end()) {
    reject(key, fmt::format("'{}' is none of {}", value, fmt::join(names, ", ")));
    value = names.front();
  }
  return value;
}

Expected<void> Options::finish() const {
  if (!complaint_.empty()) return Error{Errc::config, complaint_};
  for (const auto& [key, value] : values_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    return Error{
        Errc::config,
        fmt::format("{}: unknown option '{}'{}; it has: {}", owner_, key, did_you_mean(key, known_),
                    known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", ")))};
  }
  return {};
}

}  // namespace cohort::tasks
