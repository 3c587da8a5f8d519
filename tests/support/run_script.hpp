#pragma once
/// A plan::run::Run under a test's hand: what it commands is kept as text, and what it asks for is
/// answered when the test says so.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/run/run.hpp"

namespace cohort::tests {

std::string_view name_of(plan::run::StepState state);
std::string_view name_of(plan::run::Stage stage);
/// Returns one line, e.g. "lease 3 to 1: train 2, groups 0 1, version 1".
std::string to_text(const plan::run::Command& command);
/// Returns e.g. "stepping, saving", "stepping, evaluating (generating)".
std::string state_of(const plan::run::Run& run);

using Lines = std::vector<std::string>;
/// A pattern is the line itself, or begins or ends with "*", which stands for anything.
testing::AssertionResult fits(const std::string& line, const std::string& pattern);
testing::AssertionResult are(const Lines& lines, const Lines& patterns);
testing::AssertionResult contains(const Lines& lines, const std::string& pattern);

class RunScript {
 public:
  /// Two replicas on cards 1 and 2, `steps` steps of two groups of two, each saved, none
  /// evaluated.
  static plan::run::RunOptions options(uint64_t steps = 2);

  explicit RunScript(plan::run::RunOptions options);

  /// Tells the machine, and keeps what it commands. Returns that as text, one line each.
  Lines tell(const plan::run::Event& event);
  /// Answers the oldest command that waits for an answer. Returns false if none does.
  bool answer();
  /// Answers until `is_reached`, or nothing waits.
  bool answer_until(const std::function<bool()>& is_reached);
  bool answer_until_state(const std::string& state);
  /// Takes the oldest waiting command of this type out of those that are answered.
  template <class T>
  T take();
  template <class T>
  bool waits() const;
  /// Returns what answers a command.
  static plan::run::Event answer_to(const plan::run::Command& command, uint32_t groups);

  plan::run::Run& run() { return run_; }
  const plan::run::RunOptions& run_options() const { return options_; }
  std::string state() const { return state_of(run_); }
  const Lines& lines() const { return lines_; }
  const plan::run::End* end() const { return has_ended_ ? &end_ : nullptr; }
  void pass(double seconds) { now_ += seconds; }
  double now() const { return now_; }
  uint32_t groups = 2;  // of a round
  std::vector<plan::run::Command> all;

 private:
  plan::run::RunOptions options_;
  plan::run::Run run_;
  std::deque<plan::run::Command> waiting_;
  Lines lines_;
  plan::run::End end_;
  bool has_ended_ = false;
  double now_ = 0;
};

template <class T>
bool RunScript::waits() const {
  for (const auto& command : waiting_)
    if (std::holds_alternative<T>(command)) return true;
  return false;
}

template <class T>
T RunScript::take() {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it)
    if (T* found = std::get_if<T>(&*it)) {
      T taken = std::move(*found);
      waiting_.erase(it);
      return taken;
    }
  COHORT_CHECK(false, "no such command waits");
}

}  // namespace cohort::tests
