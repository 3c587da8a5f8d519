#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/traj/open_run.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

struct StepStats {
  uint64_t trajectories = 0, successes = 0, turns = 0, tokens = 0, sampled_tokens = 0, bytes = 0;
  double score = 0;
  uint64_t version_min = UINT64_MAX, version_max = 0;

  void add(const stream::RecordInfo& info, const proto::Trajectory& x) {
    ++trajectories;
    successes += is_success(x) ? 1 : 0;
    turns += x.turns.size();
    tokens += x.tokens.size();
    sampled_tokens += static_cast<uint64_t>(
        std::count(x.response_mask.begin(), x.response_mask.end(), uint8_t{1}));
    bytes += info.size_bytes();
    score += x.score;
    version_min = std::min(version_min, x.weight_version_min);
    version_max = std::max(version_max, x.weight_version_max);
  }
  double mean(double sum) const { return sum / static_cast<double>(trajectories); }
};

using StatsKey = std::pair<proto::TrajectoryKind, uint64_t>;

nlohmann::ordered_json to_json(const StatsKey& key, const StepStats& x) {
  return {{"kind", proto::to_string(key.first)},
          {"step", key.second},
          {"trajectories", x.trajectories},
          {"reward_mean", x.mean(x.score)},
          {"success_rate", x.mean(static_cast<double>(x.successes))},
          {"turns_mean", x.mean(static_cast<double>(x.turns))},
          {"length_mean", x.mean(static_cast<double>(x.tokens))},
          {"tokens", x.tokens},
          {"sampled_tokens", x.sampled_tokens},
          {"weight_version_min", x.version_min},
          {"weight_version_max", x.version_max},
          {"bytes", x.bytes}};
}

std::string to_table(const std::map<StatsKey, StepStats>& steps) {
  Table table(
      {"KIND", "STEP", "TRAJ", "REWARD", "SUCCESS", "LENGTH", "TOKENS", "WEIGHTS", "BYTES"});
  for (const auto& [key, x] : steps)
    table.add({std::string(proto::to_string(key.first)), fmt::to_string(key.second),
               fmt::to_string(x.trajectories), fmt::format("{:.4f}", x.mean(x.score)),
               fmt::format("{:.4f}", x.mean(static_cast<double>(x.successes))),
               fmt::format("{:.1f}", x.mean(static_cast<double>(x.tokens))),
               fmt::to_string(x.tokens), fmt::format("{}-{}", x.version_min, x.version_max),
               format_bytes(static_cast<double>(x.bytes))});
  return table.render();
}

}  // namespace

Expected<void> stats(const StatsOptions& options) {
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  std::map<StatsKey, StepStats> steps;
  auto result =
      for_each_trajectory(reader, {options.step, options.kind, 0},
                          [&](const stream::RecordInfo& info, const proto::Trajectory& x) {
                            steps[{x.key.kind, x.key.step}].add(info, x);
                          });
  if (!result && result.error().code == Errc::not_found) return result;
  if (options.is_json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& [key, x] : steps) json.push_back(to_json(key, x));
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}", to_table(steps));
  }
  return result;
}

}  // namespace cohort::traj
