#include "runtime/plan/run/round.hpp"

#include <algorithm>
#include <utility>

namespace cohort::plan::run {

Round::Round(RoundKey round_key, std::vector<GroupTask> round_tasks, uint32_t size,
             const DispatchOptions& dispatch, const StragglerOptions& stragglers)
    : key(round_key),
      tasks(std::move(round_tasks)),
      group_size(size),
      dispatcher(dispatch),
      suspects(static_cast<uint32_t>(tasks.size())),
      clock(stragglers) {}

void Round::add(uint32_t group) {
  auto added = dispatcher.add({group, tasks[group].seed, group_size, 0, 0});
  COHORT_CHECK(added.has_value(), "DISPATCH-1: " + added.error().detail);
}

void Round::drop(uint32_t group, uint64_t tokens) {
  for (uint32_t index = 0; index < group_size; ++index) dispatcher.end(group, index, 0, tokens);
}

uint32_t Round::attempt_of(uint32_t group) const {
  auto found = attempts.find(group);
  return found == attempts.end() ? 0 : found->second;
}

std::vector<uint32_t> Round::played_only_by(uint32_t replica,
                                            const std::vector<uint32_t>& open) const {
  std::vector<uint32_t> groups;
  for (const auto& [group, by] : played_by)
    if (by == replica && std::ranges::find(open, group) == open.end()) groups.push_back(group);
  return groups;
}

PhaseKind phase_of(TrajectoryKind kind) {
  switch (kind) {
    case TrajectoryKind::train:
      return PhaseKind::generate;
    case TrajectoryKind::warm_start:
      return PhaseKind::update;  // the scripted player needs no weights
    case TrajectoryKind::val:
    case TrajectoryKind::val_greedy:
      break;
  }
  return PhaseKind::evaluate;
}

namespace {

/// Returns at most how many bytes a group takes in a lease, with `indices` of its trajectories.
size_t lease_bytes(const GroupTask& task, size_t indices) {
  constexpr size_t k_group = sizeof(uint32_t), k_seed = sizeof(uint64_t), k_lengths = 16;
  return k_group + k_seed + k_lengths + task.tag.size() + indices * sizeof(uint32_t);
}

/// Cuts what no lease could hold.
std::vector<DispatchPart> cut_large(const Round& round, const std::vector<DispatchPart>& parts) {
  std::vector<DispatchPart> cut;
  for (const DispatchPart& part : parts) {
    const size_t rest = lease_bytes(round.tasks[part.group], 0);
    const size_t indices_max =
        rest < k_lease_bytes_max ? (k_lease_bytes_max - rest) / sizeof(uint32_t) : 1;
    for (size_t at = 0; at < part.indices.size(); at += indices_max) {
      const size_t end = std::min(at + indices_max, part.indices.size());
      cut.push_back({part.group,
                     part.replica,
                     {part.indices.begin() + static_cast<ptrdiff_t>(at),
                      part.indices.begin() + static_cast<ptrdiff_t>(end)}});
    }
  }
  return cut;
}

}  // namespace

std::vector<std::vector<DispatchPart>> pack_leases(const Round& round,
                                                   const std::vector<DispatchPart>& parts) {
  std::vector<std::vector<DispatchPart>> leases;
  size_t bytes = 0;
  for (DispatchPart& part : cut_large(round, parts)) {
    const auto group = static_cast<uint32_t>(part.group);
    const size_t more = lease_bytes(round.tasks[group], part.indices.size());
    const bool is_alike =
        !leases.empty() &&
        round.attempt_of(group) == round.attempt_of(static_cast<uint32_t>(leases.back()[0].group));
    if (!is_alike || bytes + more > k_lease_bytes_max) {
      leases.emplace_back();
      bytes = 0;
    }
    bytes += more;
    leases.back().push_back(std::move(part));
  }
  return leases;
}

}  // namespace cohort::plan::run
