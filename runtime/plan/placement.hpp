#pragma once
/// Roles on cards: refuses, before a card is touched, every mapping that could break PLACE-1 or
/// PLACE-2. Pure: same input, same plan, same error text.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/residency.hpp"

namespace cohort::plan {

/// A role, its cards and what it puts on each of them (memory_model.hpp predicts the bytes).
struct RoleSpec {
  std::string role;  // "actor_train", "actor_infer", "reference", "critic"
  std::vector<CardId> cards;
  std::map<Object, uint64_t> bytes_per_card;
  bool has(Object object) const { return bytes_per_card.contains(object); }
};

/// The most that one card holds in one phase.
struct PhaseBytes {
  CardId card;
  PhaseKind phase = PhaseKind::init;
  uint64_t bytes = 0;
};

struct PlacementPlan {
  PlacementMode mode = PlacementMode::separate;
  std::vector<CardSpec> cards;         // ascending ids
  std::vector<RoleSpec> roles;         // in the order given; cards ascending
  std::vector<PhaseBytes> peak_bytes;  // phases generate and update, per card, ascending
  /// Returns the role of that name, or nullptr.
  const RoleSpec* find(std::string_view role) const;
  /// Returns the first role that holds `object`, or nullptr.
  const RoleSpec* owner_of(Object object) const;
};

/// Returns Errc::placement for an unknown, repeated or missing card, a repeated role, and in
/// separate mode for train-class and infer-class objects on one card (names both roles and the
/// cards); Errc::capacity when a card cannot hold what its phases need (names roles, card, bytes
/// per object, budget and remedy). Timeshare mode is Errc::placement in this version: no phase
/// table for it exists yet.
Expected<PlacementPlan> plan_placement(PlacementMode mode, std::vector<CardSpec> cards,
                                       std::vector<RoleSpec> roles);

}  // namespace cohort::plan
