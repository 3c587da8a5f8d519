#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/traj/open_run.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

std::string short_kind(proto::TrajectoryKind kind) { return std::string(proto::to_string(kind)); }

nlohmann::ordered_json to_json(const stream::RecordInfo& info, const proto::Trajectory& x) {
  return {{"kind", proto::to_string(x.key.kind)},
          {"step", x.key.step},
          {"group", x.key.group},
          {"index", x.key.index},
          {"attempt", x.attempt},
          {"tag", printable(x.tag)},
          {"seed", x.seed},
          {"score", x.score},
          {"turns", x.turns.size()},
          {"tokens", x.tokens.size()},
          {"weight_version_min", x.weight_version_min},
          {"weight_version_max", x.weight_version_max},
          {"stop_reason", printable(x.stop_reason)},
          {"fate", fate_of(x)},
          {"record", info.number},
          {"bytes", info.size_bytes()}};
}

}  // namespace

Expected<void> ls(const LsOptions& options) {
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  Table table(
      {"KIND", "STEP/GROUP/INDEX", "TRY", "SCORE", "TURNS", "TOKENS", "WEIGHTS", "STOP", "FATE"});
  auto json = nlohmann::ordered_json::array();
  auto result = for_each_trajectory(
      reader, {options.step, options.kind, options.limit},
      [&](const stream::RecordInfo& info, const proto::Trajectory& x) {
        if (options.is_json)
          json.push_back(to_json(info, x));
        else
          table.add({short_kind(x.key.kind),
                     fmt::format("{}/{}/{}", x.key.step, x.key.group, x.key.index),
                     fmt::to_string(x.attempt), fmt::format("{:.3f}", x.score),
                     fmt::to_string(x.turns.size()), fmt::to_string(x.tokens.size()),
                     x.weight_version_min == x.weight_version_max
                         ? fmt::to_string(x.weight_version_max)
                         : fmt::format("{}-{}", x.weight_version_min, x.weight_version_max),
                     printable(x.stop_reason), std::string(fate_of(x))});
      });
  if (!result && result.error().code == Errc::not_found) return result;
  if (options.is_json)
    fmt::print("{}\n", json.dump());
  else
    fmt::print("{}", table.render());
  return result;
}

}  // namespace cohort::traj
