#include "tools/traj/recompute/logprob_rows.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/read_file.hpp"

namespace cohort::traj {
namespace {

using Json = nlohmann::json;

/// Where a fault is.
struct Place {
  const std::string& path;
  uint64_t line;
  Error fault(const std::string& what) const {
    return {Errc::config, fmt::format("{}:{}: {}", path, line, what)};
  }
};

Expected<std::vector<float>> read_column(const Json& row, const char* key,
                                         const proto::Trajectory& t, const Place& place) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_array())
    return place.fault(fmt::format("'{}' is no list", key));
  const size_t count = t.tokens.size();
  if (found->size() != count && found->size() + 1 != count)
    return place.fault(fmt::format("'{}' has {} entries; {} has {} tokens, so {} or {} are wanted",
                                   key, found->size(), proto::to_string(t.key), count, count - 1,
                                   count));
  std::vector<float> column(count - found->size(), 0.0f);
  for (const Json& value : *found) {
    const size_t at = column.size();
    const bool is_live = t.response_mask[at] != 0;
    if (is_live && !(value.is_number() && std::isfinite(value.get<double>())))
      return place.fault(
          fmt::format("'{}': token {} was sampled, and has {}", key, at, value.dump()));
    column.push_back(is_live ? value.get<float>() : 0.0f);
  }
  return column;
}

}  // namespace

Expected<LogprobRows> read_logprobs(const std::string& path,
                                    const std::vector<proto::Trajectory>& trajectories) {
  LogprobRows rows;
  size_t next = 0;
  const auto take = [&](std::string_view text, uint64_t line) -> Expected<void> {
    const Place place{path, line};
    const Json row = Json::parse(text, nullptr, false);
    if (!row.is_object()) return place.fault("not a JSON object");
    if (next == trajectories.size())
      return place.fault(fmt::format("one row too many: the step has {} trajectories", next));
    const proto::Trajectory& t = trajectories[next++];
    COHORT_ASSIGN(rows.logp[t.key], read_column(row, "logprobs", t, place));
    if (!row.contains("entropy")) return {};
    COHORT_ASSIGN(rows.entropy[t.key], read_column(row, "entropy", t, place));
    return {};
  };
  COHORT_TRY(for_each_line(path, take));
  if (next != trajectories.size())
    return Error{Errc::config, fmt::format("{}: {} rows; the step has {} trajectories", path, next,
                                           trajectories.size())};
  if (!rows.entropy.empty() && rows.entropy.size() != rows.logp.size())
    return Error{Errc::config, path + ": some rows have no 'entropy'"};
  return rows;
}

}  // namespace cohort::traj
