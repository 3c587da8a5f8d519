#pragma once
/// The policy's task, as text: an environment shows an observation, reads an answer, pays a reward.
/// No threads, no IO, no clock: thousands of environments live inside one actor. An object belongs
/// to one thread. TASK-1: the same (seed, answers) give the same observations, rewards and stop
/// reason, in any process. TASK-2: nothing may be asked of an environment after it answered
/// is_done, until the next reset.
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/tasks/dataset.hpp"

namespace cohort::tasks {

using EpisodeMetrics = std::vector<std::pair<std::string, double>>;

/// What the policy said, in a turn.
struct PolicyAnswer {
  PolicyAnswer() = default;
  template <std::convertible_to<std::string_view> Text>
  PolicyAnswer(const Text& said) : text(std::string_view(said)) {}  // NOLINT: a text is one

  std::string text;
  uint32_t prompt_tokens = 0;  // that the policy has read in front of it; 0: nobody counted
  uint32_t tokens = 0;
  bool is_cut = false;  // at a limit of tokens
};

/// The effect of one answer.
struct StepResult {
  std::string observation;    // the world after the answer
  float reward = 0;           // paid for this turn
  bool is_done = false;       // the episode has ended
  bool is_valid = false;      // an action was found in the answer
  bool is_effective = false;  // the action changed the world
  bool is_success = false;    // the goal is reached
  std::string stop_reason;    // "" while running, else "goal" | "hole" | "max_turns" | ...
  std::string event;          // "moved" | "blocked" | "invalid" | "goal" | "hole" | ...
  std::string action = {};    // that was found, as a word; empty: the whole answer is it
  /// What tools said to the answer, which was no action: these messages are appended as they are,
  /// and no template of the prompt shows the observation. Empty: the answer was the world's.
  std::vector<ChatMessage> messages = {};
  EpisodeMetrics metrics = {};  // of the episode so far, beside those that every world has
};

class Environment {
 public:
  Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  virtual ~Environment() = default;

  /// Starts the episode of `seed` and returns its first observation.
  virtual std::string reset(uint64_t seed) = 0;
  /// Reads the action out of the model's answer and plays it.
  virtual StepResult step(const PolicyAnswer& answer) = 0;
  /// Returns the rules, the legend of symbols and the list of actions, as the first user message
  /// shows them.
  virtual std::string instructions() const = 0;
  /// Returns the first turn's tokens, where it is tokenised already and no template shows it.
  virtual std::span<const int32_t> prompt_tokens() const { return {}; }
  /// Returns how many seeds there are: 0, 1, …; 0: every number is one.
  virtual uint64_t seed_count() const { return 0; }
  /// Returns glyphs and words that its observations may show beyond its instructions.
  virtual std::string shown() const { return ""; }
  /// Returns the event before the first answer, for templates that show {event}.
  virtual std::string_view initial_event() const { return ""; }
  /// Returns the number of answers the episode still accepts.
  virtual int actions_left() const = 0;
  /// Returns the metrics of the episode so far; names without the env/<tag>/ prefix.
  virtual EpisodeMetrics metrics() const = 0;
  /// Returns whether the episode has a scripted answer; asked where an environment has a player.
  virtual bool has_scripted_answer() const { return true; }
  /// Returns a scripted player's answer: the best it knows with probability expert_fraction, else
  /// any action. Errc::unsupported if the environment has no player.
  virtual Expected<std::string> scripted_answer(double expert_fraction, Rng& rng);
};

}  // namespace cohort::tasks
