#include "runtime/tasks/json_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/suggest.hpp"

namespace cohort::tasks {
namespace {

using Json = nlohmann::json;

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
  Json json = Json::parse(*value, nullptr, false);
  std::vector<std::string> list;
  if (json.is_array())
    for (const Json& item : json)
      if (item.is_string()) list.push_back(item.get<std::string>());
  if (json.is_array() && list.size() == json.size()) return list;
  reject(key, fmt::format("{} is no list of texts", *value));
  return otherwise;
}

std::vector<int> Options::integers(std::string_view key, std::vector<int> otherwise) {
  const std::string* value = raw(key);
  if (value == nullptr) return otherwise;
  Json json = Json::parse(*value, nullptr, false);
  std::vector<int> list;
  if (json.is_array())
    for (const Json& item : json)
      if (item.is_number_integer()) list.push_back(item.get<int>());
  if (json.is_array() && list.size() == json.size()) return list;
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
    std::string near = nearest_name(key, known_);
    return Error{Errc::config,
                 fmt::format("{}: unknown option '{}'{}; it has: {}", owner_, key,
                             near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                             known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", ")))};
  }
  return {};
}

}  // namespace cohort::tasks
