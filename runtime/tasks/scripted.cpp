#include "runtime/tasks/scripted.hpp"

#include <array>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::tasks {
namespace {

Action random_action(Rng& rng) { return static_cast<Action>(rng.below(k_action_count)); }

Action straight_action(const FrozenLake& lake, Rng& rng) {
  const int size = lake.map().size;
  const int down = lake.map().goal / size - lake.player() / size;
  const int right = lake.map().goal % size - lake.player() % size;
  const Action vertical = down > 0 ? Action::down : Action::up;
  const Action horizontal = right > 0 ? Action::right : Action::left;
  if (down != 0 && right != 0) return rng.below(2) == 0 ? vertical : horizontal;
  return down != 0 ? vertical : horizontal;
}

Action shortest_action(const FrozenLake& lake) {
  const std::vector<int> distance = distances_to_goal(lake.map());
  const int here = distance[static_cast<size_t>(lake.player())];
  for (int i = 0; i < k_action_count; ++i) {
    int next = neighbour(lake.map(), lake.player(), static_cast<Action>(i));
    if (distance[static_cast<size_t>(next)] == here - 1 && !lake.map().is_hole(next))
      return static_cast<Action>(i);
  }
  return Action::left;  // unreachable on generated maps: the player stands on a cell with a path
}

}  // namespace

Action scripted_action(const PlayerOptions& options, const FrozenLake& lake, Rng& rng) {
  switch (options.player) {
    case Player::random_valid:
      return random_action(rng);
    case Player::walk_straight:
      return straight_action(lake, rng);
    case Player::shortest_path:
      return shortest_action(lake);
    case Player::mixed:
      return rng.uniform() < options.expert_fraction ? shortest_action(lake) : random_action(rng);
  }
  return Action::left;
}

Expected<std::string> FrozenLake::scripted_answer(double expert_fraction, Rng& rng) {
  return answer_text(scripted_action({Player::mixed, expert_fraction}, *this, rng));
}

Expected<std::string> Environment::scripted_answer(double, Rng&) {
  return Error{Errc::unsupported, "the environment has no scripted player: set warm_start.steps=0"};
}

double evaluate_scripted(const PlayerOptions& options, std::span<const uint64_t> seeds,
                         const FrozenLakeConfig& config, const Rng& rng) {
  auto lake = FrozenLake::create(config);
  COHORT_CHECK(lake.has_value(), "evaluate_scripted: the configuration is not valid");
  size_t successes = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    Rng episode_rng = rng.fork(i);
    (*lake)->reset(seeds[i]);
    while (!(*lake)->is_done()) {
      if ((*lake)->play(scripted_action(options, **lake, episode_rng)).is_success) ++successes;
    }
  }
  return seeds.empty() ? 0 : static_cast<double>(successes) / static_cast<double>(seeds.size());
}

}  // namespace cohort::tasks
