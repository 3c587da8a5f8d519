#pragma once
/// Ends a stream of text at the first of some stop strings, and holds back what may become one.
/// One thread. Bound: the longest stop string.
#include <string>
#include <string_view>
#include <vector>

namespace cohort::text {

class StopStrings {
 public:
  /// Empty strings are left out: they would stop everything.
  explicit StopStrings(std::vector<std::string> stops);

  /// Takes more text and returns what is certain to come before any stop string. Of two that match
  /// the one that begins first ends the text; it is no part of it. Behind the end nothing is given.
  std::string next(std::string_view text);
  /// Returns what was held back: no more text comes.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace cohort::text
