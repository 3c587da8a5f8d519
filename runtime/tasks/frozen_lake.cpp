#include "runtime/tasks/frozen_lake.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace cohort::tasks {
namespace {

constexpr double k_slip_share =
    1.0 / 3.0;                  // gymnasium: the action and its two neighbours, one third each
constexpr int k_size_max = 64;  // [cells]: an observation stays below 64 KiB

Expected<void> validate(const FrozenLakeConfig& config) {
  if (config.size < 2 || config.size > k_size_max)
    return Error{Errc::invalid_argument,
                 fmt::format("frozen lake: size is {}, must be 2..{}", config.size, k_size_max)};
  if (!(config.p > 0 && config.p <= 1))
    return Error{Errc::invalid_argument,
                 fmt::format("frozen lake: p is {}, must be above 0 and at most 1", config.p)};
  if (config.max_steps < 1)
    return Error{Errc::invalid_argument,
                 fmt::format("frozen lake: max_steps is {}, must be at least 1", config.max_steps)};
  if (!std::isfinite(config.format_penalty))
    return Error{Errc::invalid_argument, "frozen lake: format_penalty is not a finite number"};
  return {};
}

}  // namespace

std::string answer_text(Action action) {
  return fmt::format("<answer>{}</answer>", k_action_names[static_cast<size_t>(action)]);
}

FrozenLakeConfig lake_of(const WorldOptions& options, Options& own) {
  FrozenLakeConfig lake;
  lake.size = static_cast<int>(own.count("size", 4));
  lake.p = own.number("p", lake.p);
  lake.is_slippery = own.flag("is_slippery", false);
  lake.format_penalty = options.format_penalty;
  lake.max_steps = options.max_steps;
  lake.action_pattern = options.action_pattern;
  return lake;
}

WorldPtr make_frozen_lake(const WorldOptions& options, Options& own) {
  COHORT_ASSIGN(std::unique_ptr<Environment> world, FrozenLake::create(lake_of(options, own)));
  return world;
}

FrozenLake::FrozenLake(const FrozenLakeConfig& config, ActionParser parser)
    : config_(config), parser_(std::move(parser)) {}

Expected<std::unique_ptr<FrozenLake>> FrozenLake::create(const FrozenLakeConfig& config) {
  COHORT_TRY(validate(config));
  std::vector<std::string> names(k_action_names.begin(), k_action_names.end());
  COHORT_ASSIGN(ActionParser parser, ActionParser::create(config.action_pattern, std::move(names)));
  return std::unique_ptr<FrozenLake>(new FrozenLake(config, std::move(parser)));
}

std::string FrozenLake::reset(uint64_t seed) {
  map_ = generate_map(seed, config_.size, config_.p);
  slip_rng_ = Pcg64(seed);
  slip_rng_.random();  // gymnasium draws the start state here, though there is only one
  player_ = map_.start;
  book_.begin();
  return render();
}

std::string FrozenLake::instructions() const {
  return "You walk on a frozen lake and want to reach the goal without falling into a hole.\n"
         "Symbols: P you, _ ice, O hole, G goal, X you in a hole, √ you on the goal.\n"
         "Actions: Left, Down, Right, Up. One action a turn; the border blocks a move" +
         std::string(config_.is_slippery ? "; the ice may turn a move to either side." : ".");
}

StepResult FrozenLake::step(const PolicyAnswer& answer) {
  std::optional<size_t> index = parser_.parse(answer.text);
  return play(index ? std::optional(static_cast<Action>(*index)) : std::nullopt);
}

StepResult FrozenLake::play(std::optional<Action> action) {
  COHORT_CHECK(!book_.is_done,
               "TASK-2: a frozen lake was asked to go on after the end of its episode");
  StepResult result;
  ++book_.turns;
  if (action) {
    int next = neighbour(map_, player_, config_.is_slippery ? slip(*action) : *action);
    result.is_valid = true;
    result.action = k_action_names[static_cast<size_t>(*action)];
    result.is_effective = next != player_;
    result.event = result.is_effective ? "moved" : "blocked";
    player_ = next;
    book_.count_valid(result.is_effective);
    if (player_ == map_.goal || map_.is_hole(player_)) {
      book_.is_success = player_ == map_.goal;
      result.event = book_.is_success ? "goal" : "hole";
      result.stop_reason = result.event;
      result.reward = book_.is_success ? 1.0F : 0.0F;
    }
  } else {
    result.event = "invalid";
    result.reward = config_.format_penalty;
    book_.penalties += static_cast<double>(config_.format_penalty);
  }
  book_.close(result, config_.max_steps);
  result.observation = render();
  return result;
}

Action FrozenLake::slip(Action action) {
  double draw = slip_rng_.random();
  int turn = draw < k_slip_share ? -1 : draw < k_slip_share + k_slip_share ? 0 : 1;
  return static_cast<Action>((static_cast<int>(action) + turn + k_action_count) % k_action_count);
}

std::string FrozenLake::render() const {
  std::string text;
  text.reserve(map_.cells.size() + static_cast<size_t>(map_.size) + 2);
  for (int cell = 0; cell < static_cast<int>(map_.cells.size()); ++cell) {
    if (cell > 0 && cell % map_.size == 0) text += '\n';
    bool is_player = cell == player_;
    if (map_.is_hole(cell))
      text += is_player ? "X" : "O";
    else if (cell == map_.goal)
      text += is_player ? "√" : "G";
    else
      text += is_player ? "P" : "_";
  }
  return text;
}

}  // namespace cohort::tasks
