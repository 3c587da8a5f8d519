#pragma once
/// Scripted FrozenLake players: the teachers of the warm start and the reference lines of the
/// report.
///   random_valid   a uniform action word
///   walk_straight  towards the goal as if there were no holes (a uniform one of the one or two
///                  directions)
///   shortest_path  a way around the holes that is as short as any (the first such action in the
///                  order of Action)
///   mixed          shortest_path with probability expert_fraction, else random_valid
/// Pure but for the Rng argument. Not for slippery lakes: shortest_path ignores slips.
#include <cstdint>
#include <span>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/frozen_lake.hpp"

namespace cohort::tasks {

enum class Player : uint8_t { random_valid, walk_straight, shortest_path, mixed };

struct PlayerOptions {
  Player player = Player::mixed;
  double expert_fraction = 0.5;  // of `mixed`
};

/// Returns the player's action in the current state of `lake`, which is not done.
Action scripted_action(const PlayerOptions& options, const FrozenLake& lake, Rng& rng);
/// Returns the share of `seeds` on which the player reaches the goal; episode i draws from
/// rng.fork(i). `config` is valid (COHORT_CHECK): it has been through FrozenLake::create before.
double evaluate_scripted(const PlayerOptions& options, std::span<const uint64_t> seeds,
                         const FrozenLakeConfig& config, const Rng& rng);

}  // namespace cohort::tasks
