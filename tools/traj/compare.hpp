#pragma once
/// Where two records of the same key first differ, in the order of causes: what was asked, what was
/// sampled, how it was scored, what was computed from it. Clocks (seconds), run ids and attempts
/// are no difference. Pure. Numbers are compared by their bits; NaN equals NaN.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/proto/trajectory.hpp"

namespace cohort::traj {

struct Difference {
  std::string what;               // column, field or metric, e.g. "tokens", "reward math/acc"
  std::optional<uint64_t> turn;   // from 0, if it is in an answer or before one
  std::optional<uint64_t> token;  // from 0, of the trajectory
  std::string a, b;               // the values; "absent" if there is none
};

/// Returns the first difference, or nothing.
std::optional<Difference> compare(const proto::Trajectory& a, const proto::Trajectory& b);

/// Returns every key of a step_result that differs: param_hash first, then by name. Keys that are
/// readings of a clock or of memory are left out (is_reading).
std::vector<Difference> compare_results(const nlohmann::json& a, const nlohmann::json& b);

/// Returns whether a metric is a reading of a clock, a queue or the machine's memory, which no two
/// runs share: time/…, compute/…, …_s (…_per_s too), …_seconds, …bytes…, orchestrator_share,
/// rollout/idle_ratio, staleness/queued.
bool is_reading(std::string_view metric);

}  // namespace cohort::traj
