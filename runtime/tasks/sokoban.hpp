#pragma once
/// Sokoban as ROLL's agentic pipeline defines it: a room shown as text, one action word per turn
/// (docs/environments.md has rewards and ends). Pure; owned by one thread.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/tasks/action_parser.hpp"
#include "runtime/tasks/episode_book.hpp"
#include "runtime/tasks/sokoban_map.hpp"
#include "runtime/tasks/text_environment.hpp"
#include "runtime/tasks/worlds.hpp"

namespace cohort::tasks {

/// Numbers of the seven symbols: keys of grid_lookup.
enum class SokobanSymbol : uint8_t {
  wall = 0,
  floor = 1,
  target = 2,
  box_on_target = 3,
  box = 4,
  player = 5,
  player_on_target = 6
};
inline constexpr size_t k_sokoban_symbol_count = 7;

struct SokobanConfig {
  std::array<int, 2> dim_room{6, 6};  // [cells] rows, columns, with the border
  int num_boxes = 1;
  int search_depth = 300;
  int max_steps = 10;  // [turns] the game's own limit and the manager's cap
  float format_penalty = -0.15F;
  std::string action_pattern = "<answer>(.*?)</answer>";
  std::map<int, std::string> grid_lookup;  // symbol number -> text; others keep # _ O √ X P S
  std::map<std::string, std::string> grid_vocab;  // text -> meaning; empty: the built-in meanings
};

class Sokoban final : public Environment {
 public:
  /// Returns Errc::invalid_argument if a number is out of range, two symbols look the same, one has
  /// no meaning, or the pattern does not compile.
  static Expected<std::unique_ptr<Sokoban>> create(const SokobanConfig& config);

  std::string reset(uint64_t seed) override;
  StepResult step(const PolicyAnswer& answer) override;
  std::string instructions() const override;
  std::string shown() const override { return "#_O√XPS pushed solved"; }  // glyphs, and events
  int actions_left() const override { return config_.max_steps - book_.turns; }
  EpisodeMetrics metrics() const override { return book_.metrics(); }

  /// Plays a parsed action (nothing = an invalid answer); step() is parse + play.
  StepResult play(std::optional<SokobanMove> move);
  const SokobanRoom& room() const { return room_; }
  bool is_done() const { return book_.is_done; }

 private:
  using Symbols = std::array<std::string, k_sokoban_symbol_count>;
  static Expected<Symbols> symbols_of(const SokobanConfig& config);
  static Expected<Symbols> meanings_of(const SokobanConfig& config, const Symbols& symbols);
  Sokoban(const SokobanConfig& config, ActionParser parser, Symbols symbols, Symbols meanings);
  std::string render() const;
  SokobanSymbol symbol_at(int cell) const;
  int boxes_on_targets() const;

  SokobanConfig config_;
  ActionParser parser_;
  Symbols symbols_;
  Symbols meanings_;
  SokobanRoom room_;
  EpisodeBook book_;
};

}  // namespace cohort::tasks
