#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/query/expression.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/table.hpp"
#include "tools/traj/traj_commands.hpp"

namespace cohort::traj {
namespace {

struct Ranked {
  double value = 0;
  proto::TrajectoryKey key;
  double score = 0;
  size_t tokens = 0;
  std::string stop_reason;
};

}  // namespace

Expected<void> top(const TopOptions& options) {
  COHORT_ASSIGN(query::Expression by, query::Expression::parse(options.by, query::Type::number));
  COHORT_ASSIGN(
      query::Expression where,
      query::Expression::parse(options.where.empty() ? "true" : options.where, query::Type::truth));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  // Equal values stay in key order, so that two calls print the same.
  const auto is_before = [&](const Ranked& a, const Ranked& b) {
    if (a.value != b.value) return options.is_bottom ? a.value < b.value : a.value > b.value;
    return a.key < b.key;
  };
  std::vector<Ranked> ranked;  // a heap of the best so far; its front is the worst of them
  uint64_t without = 0;
  auto result = for_each_trajectory(
      reader, {options.step, options.kind, 0},
      [&](const stream::RecordInfo&, const proto::Trajectory& x) {
        if (!where.holds(x)) return;
        const double value = by.number(x);
        if (std::isnan(value)) {
          ++without;
          return;
        }
        ranked.push_back({value, x.key, x.score, x.tokens.size(), x.stop_reason});
        std::ranges::push_heap(ranked, is_before);
        if (ranked.size() <= options.count) return;
        std::ranges::pop_heap(ranked, is_before);
        ranked.pop_back();
      });
  if (!result && result.error().code == Errc::not_found) return result;
  std::ranges::sort_heap(ranked, is_before);
  Table table({"VALUE", "KIND", "STEP/GROUP/INDEX", "SCORE", "TOKENS", "STOP"});
  for (const Ranked& each : ranked)
    table.add({fmt::format("{:.6g}", each.value), std::string(proto::to_string(each.key.kind)),
               fmt::format("{}/{}/{}", each.key.step, each.key.group, each.key.index),
               fmt::format("{:.3f}", each.score), fmt::to_string(each.tokens),
               printable(each.stop_reason)});
  fmt::print("{}", table.render());
  if (without > 0)
    fmt::print("{} trajectories have no value of '{}' and are left out\n", without, options.by);
  return result;
}

Expected<void> fields() {
  Table table({"FIELD", "TYPE", "WHAT"});
  for (const query::Field& field : query::fields())
    table.add({std::string(field.name), std::string(query::to_string(field.type)),
               std::string(field.what)});
  table.add({"reward.NAME", "number", "the reward part NAME before its weight"});
  table.add({"metric.NAME", "number", "the metric NAME of the trajectory"});
  fmt::print("{}", table.render());
  return {};
}

}  // namespace cohort::traj
