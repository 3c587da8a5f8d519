#pragma once
/// The options of a reward or an environment, out of its JSON object. Reads note the first thing
/// that is wrong and go on with the default; finish() tells it, and which key nobody asked for.
/// Owner: the factory of one object; one thread.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

class Options {
 public:
  /// `owner` is for messages: "reward gsm8k". Returns Errc::config if `json` is no JSON object.
  static Expected<Options> parse(std::string_view owner, std::string_view json);

  double number(std::string_view key, double otherwise);
  /// A whole number, least or more.
  uint32_t count(std::string_view key, uint32_t otherwise, uint32_t least = 0);
  bool flag(std::string_view key, bool otherwise);
  std::string text(std::string_view key, std::string_view otherwise);
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> otherwise);
  std::vector<int> integers(std::string_view key, std::vector<int> otherwise);
  std::map<std::string, std::string> text_map(std::string_view key);
  /// A text that must be one of `names`.
  std::string choice(std::string_view key, std::vector<std::string_view> names);
  bool has(std::string_view key) const { return values_.contains(std::string(key)); }
  /// Notes `what` as wrong with `key`.
  void reject(std::string_view key, std::string_view what);

  /// Returns the first complaint, or Errc::config for a key that was never read.
  Expected<void> finish() const;

 private:
  const std::string* raw(std::string_view key);

  std::string owner_;
  std::map<std::string, std::string> values_;  // key -> its value as JSON
  std::vector<std::string> known_;
  std::string complaint_;
};

}  // namespace cohort::tasks
