#pragma once
/// What an advantage estimator is: two pure functions behind one name of the catalogue. The first
/// makes one reward per trajectory of the scores and their groups, the second one advantage per
/// token of the token rewards; clamps, the KL in the reward, whitening and clipping are common to
///
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/advantage.hpp"
#include "algorithms/reward_norm.hpp"
#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

/// One of several rewards of each trajectory.
struct ScorePart {
  std::vector<double> scores;  // [S]
  double weight = 1;
};

/// One entry per trajectory [S].
struct TrajectoryScores {
  std::span<const double> scores;
  std::span<const uint32_t> group_of;
  RewardNormOptions asked;  // by reward_normalization, or rlvr's norm_mean_type and norm_std_type
  bool is_rlvr = false;     // ROLL's: grpo compares groups whatever is asked
  std::span<const uint32_t> lengths = {};  // [S] tokens that the policy sampled; opo
  std::span<const double> baselines = {};  // [S] need::greedy: the greedy answer's score
  std::span<const ScorePart> parts = {};   // [K] need::parts: what the score is made of
};

/// One entry per turn [K], trajectory after trajectory, in order of the turns.
struct TurnScores {
  TrajectoryScores trajectories;
  std::span<const double> rewards;          // of the environment
  std::span<const uint32_t> trajectory_of;  // index of a trajectory
  std::span<const uint32_t> state_of;       // any id that turns of one observation share
  double gamma = 0.95;                      // per turn
  double episode_weight = 1, turn_weight = 1;
};

struct Estimator {
  std::vector<double> (*rewards)(const TrajectoryScores& in) = nullptr;
  TokenAdvantages advantages = discounted_returns;
  bool whitens = false;  // over the valid tokens of the batch; whiten_advantages is not read
  /// In the place of `rewards`, for estimators that credit turns: one reward per turn [K].
  std::vector<double> (*turn_rewards)(const TurnScores& in) = nullptr;
};

#define COHORT_BUILT(id, ...) Estimator id##_estimator();
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/advantage_estimators.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED

/// Returns the functions of a row; none: this version does not run it (config names those).
std::optional<Estimator> estimator_of(catalog::AdvEstimator x);

/// As the config asks: the rewards of estimators without a baseline of their own.
std::vector<double> rewards_as_asked(const TrajectoryScores& in);
/// r - mean of the group.
std::vector<double> centred_in_group(const TrajectoryScores& in);
/// The discounted return from each turn to the end of its trajectory [K].
std::vector<double> returns_of_turns(const TurnScores& in);

}  // namespace cohort::algorithms
