#include "runtime/tasks/sokoban.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace cohort::tasks {
namespace {

constexpr float k_turn_reward = -0.1F;
constexpr float k_box_reward = 1.0F;  // onto a target; minus it when pushed off
constexpr float k_solved_reward = 10.0F;

constexpr std::array<const char*, k_sokoban_symbol_count> k_symbols{"#", "_", "O", "√",
                                                                    "X", "P", "S"};
constexpr std::array<const char*, k_sokoban_symbol_count> k_meanings{
    "wall", "floor", "target", "box on target", "box", "you", "you on target"};
constexpr const char* k_rules =
    "You are in a room with boxes and want every box to stand on a target.\n"
    "You push a box by walking against it. You cannot pull, and nothing moves into a wall or into "
    "a second box.";

SokobanRoomOptions room_options(const SokobanConfig& config) {
  return {config.dim_room[0], config.dim_room[1], config.num_boxes, config.search_depth};
}

Expected<void> validate(const SokobanConfig& config) {
  if (config.max_steps < 1)
    return Error{Errc::invalid_argument,
                 fmt::format("sokoban: max_steps is {}, must be at least 1", config.max_steps)};
  if (!std::isfinite(config.format_penalty))
    return Error{Errc::invalid_argument, "sokoban: format_penalty is not a finite number"};
  return check_room_options(room_options(config));
}

}  // namespace

WorldPtr make_sokoban(const WorldOptions& options, Options& own) {
  SokobanConfig room;
  const std::vector<int> cells = own.integers("dim_room", {room.dim_room[0], room.dim_room[1]});
  if (cells.size() == 2)
    room.dim_room = {cells[0], cells[1]};
  else
    own.reject("dim_room", "give rows and columns, e.g. [6, 6]");
  room.num_boxes = static_cast<int>(own.count("num_boxes", 1));
  room.search_depth = static_cast<int>(own.count("search_depth", 300));
  room.max_steps = options.max_steps;
  room.format_penalty = options.format_penalty;
  room.action_pattern = options.action_pattern;
  for (const auto& [number, glyph] : own.text_map("grid_lookup")) {
    if (number.size() == 1 && number[0] >= '0' && number[0] <= '6')
      room.grid_lookup[number[0] - '0'] = glyph;
    else
      own.reject("grid_lookup", fmt::format("'{}' is no cell; there are 0 to 6", number));
  }
  room.grid_vocab = own.text_map("grid_vocab");
  COHORT_TRY(own.finish());
  COHORT_ASSIGN(std::unique_ptr<Environment> world, Sokoban::create(room));
  return world;
}

Sokoban::Sokoban(const SokobanConfig& config, ActionParser parser, Symbols symbols,
                 Symbols meanings)
    : config_(config),
      parser_(std::move(parser)),
      symbols_(std::move(symbols)),
      meanings_(std::move(meanings)) {}

Expected<std::unique_ptr<Sokoban>> Sokoban::create(const SokobanConfig& config) {
  COHORT_TRY(validate(config));
  COHORT_ASSIGN(Symbols symbols, symbols_of(config));
  COHORT_ASSIGN(Symbols meanings, meanings_of(config, symbols));
  std::vector<std::string> names(k_sokoban_move_names.begin(), k_sokoban_move_names.end());
  COHORT_ASSIGN(ActionParser parser, ActionParser::create(config.action_pattern, std::move(names)));
  return std::unique_ptr<Sokoban>(
      new Sokoban(config, std::move(parser), std::move(symbols), std::move(meanings)));
}

Expected<Sokoban::Symbols> Sokoban::symbols_of(const SokobanConfig& config) {
  Symbols symbols;
  std::copy(k_symbols.begin(), k_symbols.end(), symbols.begin());
  for (const auto& [number, text] : config.grid_lookup) {
    if (number < 0 || number >= static_cast<int>(symbols.size()))
      return Error{Errc::invalid_argument,
                   fmt::format("sokoban: grid_lookup has key {}, keys are 0..{} (wall, floor, "
                               "target, box on target, box, player, player on target)",
                               number, symbols.size() - 1)};
    if (text.empty() || text.find('\n') != std::string::npos)
      return Error{Errc::invalid_argument,
                   fmt::format("sokoban: grid_lookup.{} is empty or holds a line break", number)};
    symbols[static_cast<size_t>(number)] = text;
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (symbols[i] == symbols[j])
        return Error{Errc::invalid_argument,
                     fmt::format("sokoban: grid_lookup shows {} ({}) and {} ({}) both as '{}'", j,
                                 k_meanings[j], i, k_meanings[i], symbols[i])};
    }
  }
  return symbols;
}

Expected<Sokoban::Symbols> Sokoban::meanings_of(const SokobanConfig& config,
                                                const Symbols& symbols) {
  Symbols meanings;
  for (size_t i = 0; i < symbols.size(); ++i) {
    auto found = config.grid_vocab.find(symbols[i]);
    if (found == config.grid_vocab.end() && !config.grid_vocab.empty())
      return Error{Errc::invalid_argument,
                   fmt::format("sokoban: grid_vocab says nothing of '{}' ({}), which grid_lookup "
                               "shows",
                               symbols[i], k_meanings[i])};
    meanings[i] = config.grid_vocab.empty() ? k_meanings[i] : found->second;
  }
  return meanings;
}

std::string Sokoban::reset(uint64_t seed) {
  room_ = generate_room(seed, room_options(config_));
  book_.begin();
  return render();
}

std::string Sokoban::instructions() const {
  std::string text = fmt::format("{}\nSymbols:", k_rules);
  for (size_t i = 0; i < symbols_.size(); ++i)
    text += fmt::format("{} {} {}", i > 0 ? "," : "", symbols_[i], meanings_[i]);
  return text + ".\nActions: Up, Down, Left, Right. One action a turn.";
}

StepResult Sokoban::step(const PolicyAnswer& answer) {
  std::optional<size_t> index = parser_.parse(answer.text);
  return play(index ? std::optional(static_cast<SokobanMove>(*index)) : std::nullopt);
}

StepResult Sokoban::play(std::optional<SokobanMove> move) {
  COHORT_CHECK(!book_.is_done,
               "TASK-2: a sokoban room was asked to go on after the end of its episode");
  StepResult result;
  ++book_.turns;
  result.reward = k_turn_reward;
  result.event = "invalid";
  if (move) {
    const int placed = boxes_on_targets();
    const SokobanEvent event = move_player(room_, *move);
    result.is_valid = true;
    result.action = parser_.names()[static_cast<size_t>(*move)];
    result.is_effective = event != SokobanEvent::blocked;
    result.event = event == SokobanEvent::pushed  ? "pushed"
                   : event == SokobanEvent::moved ? "moved"
                                                  : "blocked";
    result.reward += k_box_reward * static_cast<float>(boxes_on_targets() - placed);
    book_.count_valid(result.is_effective);
    if (room_.is_solved()) {
      book_.is_success = true;
      result.event = "solved";
      result.stop_reason = "goal";
      result.reward += k_solved_reward;
    }
  } else {
    result.reward += config_.format_penalty;
    book_.penalties += static_cast<double>(config_.format_penalty);
  }
  book_.close(result, config_.max_steps);
  result.observation = render();
  return result;
}

int Sokoban::boxes_on_targets() const {
  return static_cast<int>(std::count_if(room_.boxes.begin(), room_.boxes.end(),
                                        [&](int box) { return room_.is_target(box); }));
}

SokobanSymbol Sokoban::symbol_at(int cell) const {
  const bool is_target = room_.is_target(cell);
  if (room_.is_wall(cell)) return SokobanSymbol::wall;
  if (room_.has_box(cell)) return is_target ? SokobanSymbol::box_on_target : SokobanSymbol::box;
  if (cell == room_.player)
    return is_target ? SokobanSymbol::player_on_target : SokobanSymbol::player;
  return is_target ? SokobanSymbol::target : SokobanSymbol::floor;
}

std::string Sokoban::render() const {
  std::string text;
  for (int cell = 0; cell < static_cast<int>(room_.cells.size()); ++cell) {
    if (cell > 0 && cell % room_.columns == 0) text += '\n';
    text += symbols_[static_cast<size_t>(symbol_at(cell))];
  }
  return text;
}

}  // namespace cohort::tasks
