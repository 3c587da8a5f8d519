#pragma once
/// FrozenLake as ROLL's agentic pipeline defines it: a square lake shown as text, one action word
/// per turn. Glyphs: P player, _ ice (the start looks like ice), O hole, G goal, X player in a
/// hole, √ player on the goal. Pays 1 for reaching the goal, 0 for any other valid move (a hole
/// ends the episode with 0), format_penalty for an answer without a valid action, which leaves the
/// world as it was. Every answer costs one of max_steps turns. Slippery lakes turn an action by -1,
/// 0 or +1 with one third each, drawn as gymnasium draws them: a fresh Generator of the episode
/// seed, one random() at reset, one per move. Pure; owned by one thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/tasks/action_parser.hpp"
#include "runtime/tasks/episode_book.hpp"
#include "runtime/tasks/frozen_lake_map.hpp"
#include "runtime/tasks/pcg64.hpp"
#include "runtime/tasks/text_environment.hpp"
#include "runtime/tasks/worlds.hpp"

namespace cohort::tasks {

struct FrozenLakeConfig {
  int size = 4;    // [cells] a side
  double p = 0.8;  // probability that a cell is ice
  bool is_slippery = false;
  float format_penalty = -0.01F;
  int max_steps = 10;  // [turns] an episode lasts at most
  std::string action_pattern = "<answer>(.*?)</answer>";
};

class FrozenLake final : public Environment {
 public:
  /// Returns Errc::invalid_argument if a number is out of range or the pattern does not compile.
  static Expected<std::unique_ptr<FrozenLake>> create(const FrozenLakeConfig& config);

  std::string reset(uint64_t seed) override;
  StepResult step(const PolicyAnswer& answer) override;
  std::string instructions() const override;
  int actions_left() const override { return config_.max_steps - book_.turns; }
  EpisodeMetrics metrics() const override { return book_.metrics(); }
  Expected<std::string> scripted_answer(double expert_fraction, Rng& rng) override;

  /// Plays a parsed action (nothing = an invalid answer); step() is parse + play.
  StepResult play(std::optional<Action> action);
  const FrozenLakeMap& map() const { return map_; }
  int player() const { return player_; }
  bool is_done() const { return book_.is_done; }

 private:
  FrozenLake(const FrozenLakeConfig& config, ActionParser parser);
  std::string render() const;
  Action slip(Action action);

  FrozenLakeConfig config_;
  ActionParser parser_;
  FrozenLakeMap map_;
  Pcg64 slip_rng_{0};
  int player_ = 0;
  EpisodeBook book_;
};

/// Returns the lake that make_world() plays: its maps can be held out.
FrozenLakeConfig lake_of(const WorldOptions& options, Options& own);

/// Returns "<answer>Right</answer>" for Action::right: how scripted players and tests answer.
std::string answer_text(Action action);

}  // namespace cohort::tasks
