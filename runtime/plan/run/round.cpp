#include "runtime/plan/run/round.hpp"

#include <algorithm>

namespace cohort::plan::run {

void Round::add(uint32_t group) {
  auto added = dispatcher.add({group, tasks.at(group).seed, group_size, 0, 0});
  COHORT_CHECK(added.has_value(), "DISPATCH-1: " + added.error().detail);
}

PhaseKind phase_of(TrajectoryKind kind, const RunOptions& options) {
  // The scripted player of the warm start needs no weights.
  if (kind == TrajectoryKind::warm_start) return PhaseKind::update;
  if (options.plays_in_reference) return PhaseKind::reference;
  return kind == TrajectoryKind::train || options.is_flowing ? PhaseKind::generate
                                                             : PhaseKind::evaluate;
}

std::vector<std::vector<DispatchPart>> pack_leases(Round& round,
                                                   const std::vector<DispatchPart>& parts,
                                                   size_t trajectory_bytes) {
  const size_t index_bytes = sizeof(uint32_t) + trajectory_bytes;
  std::vector<std::vector<DispatchPart>> leases;
  size_t room = 0;
  uint32_t attempt = 0;
  for (const DispatchPart& part : parts) {
    const auto group = static_cast<uint32_t>(part.group);
    // A group's number, seed, tag and two lengths; then its indices.
    const size_t head = sizeof(uint32_t) + sizeof(uint64_t) + 16 + round.tasks.at(group).tag.size();
    for (auto from = part.indices.begin(); from != part.indices.end();) {
      const size_t rest = static_cast<size_t>(part.indices.end() - from);
      const size_t wanted = head + rest * index_bytes;
      if (leases.empty() || round.attempts[group] != attempt ||
          room < std::min(wanted, k_lease_bytes_max)) {
        leases.emplace_back();
        room = k_lease_bytes_max;
        attempt = round.attempts[group];
      }
      const size_t fits = room > head ? (room - head) / index_bytes : 0;
      const auto to = from + static_cast<ptrdiff_t>(std::clamp<size_t>(fits, 1, rest));
      leases.back().push_back({part.group, part.replica, {from, to}});
      room -= std::min(room, wanted);
      from = to;
    }
  }
  return leases;
}

}  // namespace cohort::plan::run
