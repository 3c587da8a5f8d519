#pragma once
/// Distinct id types, so that two of them cannot be swapped in a call.
#include <compare>
#include <cstdint>
#include <functional>

namespace cohort {

/// Global card id = node * cards_per_node + local index.
struct CardId {
  uint32_t value = 0;
  auto operator<=>(const CardId&) const = default;
};

struct NodeId {
  uint32_t value = 0;
  auto operator<=>(const NodeId&) const = default;
};

/// Version of the policy weights: 0 after initialisation or warm start, +1 per published update.
struct PolicyVersion {
  uint64_t value = 0;
  auto operator<=>(const PolicyVersion&) const = default;
};

}  // namespace cohort

template <>
struct std::hash<cohort::CardId> {
  size_t operator()(cohort::CardId id) const noexcept { return std::hash<uint32_t>{}(id.value); }
};
