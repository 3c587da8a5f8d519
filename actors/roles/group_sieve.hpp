#pragma once
/// Which groups of a step carry a signal, as the config asks: the scores of a group's trajectories
/// become a verdict (algorithms/group_filter.hpp). Masked ones (REWARD-3) have no score. No actor.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/group_filter.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

class GroupSieve {
 public:
  explicit GroupSieve(const config::RunConfig& config) : config_(config) {}

  struct Verdict {
    algorithms::GroupVerdict verdict = algorithms::GroupVerdict::kept;
    std::string reason = {};  // in words; empty: the group is kept
  };
  /// `group`: all trajectories of one group. A greedy one is not compared.
  Verdict judge(std::span<const proto::Trajectory* const> group) const;

 private:
  double value_of(const proto::Trajectory& t) const;

  config::RunConfig config_;
};

/// Returns the numbers of the step's row, out of the verdicts on its groups: filter/kept,
/// filter/all_0, ….
std::vector<std::pair<std::string, double>> filter_metrics(
    const std::map<uint32_t, algorithms::GroupVerdict>& verdicts);

}  // namespace cohort::actors
