#pragma once
/// What an advantage estimator is: two pure functions behind one name of the catalogue. The first
/// makes one reward per trajectory of the scores and their groups, the second one advantage per
/// token of the token rewards; clamps, the KL in the reward, whitening and clipping are common to
/// all (advantage.hpp). Each built row of runtime/catalog/advantage_estimators.def has its function
/// <id>_estimator() in algorithms/estimators/<id>.cpp.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/advantage.hpp"
#include "algorithms/reward_norm.hpp"
#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

/// One entry per trajectory.
struct TrajectoryScores {
  std::span<const double> scores;
  std::span<const uint32_t> group_of;
  RewardNormOptions asked;  // by reward_normalization, or rlvr's norm_mean_type and norm_std_type
  bool is_rlvr = false;     // ROLL's: grpo compares groups whatever is asked
};

struct Estimator {
  std::vector<double> (*rewards)(const TrajectoryScores& in);
  TokenAdvantages advantages = discounted_returns;
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

}  // namespace cohort::algorithms
