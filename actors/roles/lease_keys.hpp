#pragma once
/// The trajectories of a lease, in the order in which its fields and its player count them.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/control/messages.hpp"

namespace cohort::actors {

/// Returns (position of the group, index) of every trajectory of the lease.
inline std::vector<std::pair<size_t, uint32_t>> keys_of(const control::Lease& lease) {
  std::vector<std::pair<size_t, uint32_t>> keys;
  for (size_t position = 0; position < lease.groups.size(); ++position) {
    if (!lease.indices.empty())
      for (uint32_t index : lease.indices[position]) keys.emplace_back(position, index);
    else
      for (uint32_t index = 0; index < lease.group_size; ++index)
        keys.emplace_back(position, index);
  }
  return keys;
}

}  // namespace cohort::actors
