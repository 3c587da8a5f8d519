#pragma once
/// Roles on cards: refuses, before a card is touched, every mapping that could break PLACE-1 or
/// PLACE-2. Pure: same input, same plan, same error text.
///
/// In separate mode train-class and infer-class objects never share a card; in timeshare mode they
/// may, and take turns there (phases.hpp). A card of a timeshare plan that only one class uses is
/// treated as in separate mode. Bound: one entry per (card, phase) and per object in it.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/role.hpp"
#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

/// A role, its cards and what it puts on each of them (memory_model.hpp predicts the bytes).
struct RoleSpec {
  std::string role;  // "actor_train", "actor_infer", "reference", "critic", "teacher"
  std::vector<CardId> cards;
  std::map<Object, uint64_t> bytes_per_card;
  /// Master weights and moments stay on the host and are streamed through the card in update:
  /// bytes_per_card of optimizer (critic_optimizer) is then the streaming window.
  bool is_optimizer_swapped = false;
  /// Its ref_params are read from a folder in init; else the first publish fills them.
  bool has_own_weights = false;
  /// Set by lay_out: the cards of this role that both classes use, ascending.
  std::vector<CardId> shared_cards = {};
  bool has(Object object) const { return bytes_per_card.contains(object); }
  bool is_shared(CardId card) const;
};

/// One object of one role on the card in question.
struct HeldObject {
  std::string role;
  Object object = Object::train_params;
  uint64_t bytes = 0;
  bool operator==(const HeldObject&) const = default;
};

/// Returns the sum of the bytes, at most 2^64 - 1.
uint64_t total_of(const std::vector<HeldObject>& held);

/// The most that one card holds in one phase.
struct PhaseBytes {
  CardId card;
  PhaseKind phase = PhaseKind::init;
  uint64_t bytes = 0;
  std::vector<HeldObject> objects = {};  // what they are, in the order of the roles
};

struct PlacementPlan {
  PlacementMode mode = PlacementMode::separate;
  std::vector<CardSpec> cards;  // ascending ids
  std::vector<RoleSpec> roles;  // in the order given; cards ascending
  /// Per card, ascending: phases generate and update, on a shared card publish, generate, reference
  /// and update. No phase holds more on the card than the largest of them.
  std::vector<PhaseBytes> peak_bytes;
  CacheArrival cache = CacheArrival::late;
  /// Returns the role of that name, or nullptr.
  const RoleSpec* find(std::string_view role) const;
  const RoleSpec* find(Role role) const { return find(to_string(role)); }
  /// Returns the first role that holds `object`, or nullptr.
  const RoleSpec* owner_of(Object object) const;
};

/// A train-class and an infer-class role and the cards that both have, ascending.
struct SharedCards {
  std::string train_role, infer_role;
  std::vector<CardId> cards;
};
/// Returns every such pair, in the order of the roles; never one for a plan in separate mode.
std::vector<SharedCards> shared_cards_of(const std::vector<RoleSpec>& roles);

/// Returns the plan with its peaks, whether or not the cards can hold them. Returns Errc::placement
/// for an unknown, repeated or missing card, a repeated role, a role that holds both classes
/// itself, and in separate mode for train-class and infer-class roles on one card (names every such
/// pair, the cards and the remedy); Errc::capacity for a card whose reserve leaves nothing.
Expected<PlacementPlan> lay_out(PlacementMode mode, std::vector<CardSpec> cards,
                                std::vector<RoleSpec> roles,
                                CacheArrival cache = CacheArrival::late);

/// Cards, and the roles that have no part on them.
using RolesOfCards = std::set<std::pair<CardId, std::string>>;
/// Returns the plan without these, for as long as they are lost; a role may be left without any
/// card. The peaks stay as they are.
PlacementPlan without_roles(PlacementPlan plan, const RolesOfCards& gone);

/// Returns Errc::capacity for the first card that cannot hold a phase (names roles, card, bytes per
/// object, budget and remedy).
Expected<void> check_capacity(const PlacementPlan& plan);

/// lay_out, then check_capacity: what a run starts from.
Expected<PlacementPlan> plan_placement(PlacementMode mode, std::vector<CardSpec> cards,
                                       std::vector<RoleSpec> roles,
                                       CacheArrival cache = CacheArrival::late);

/// Returns what the plan asks of the engines and the host, a sentence each; none in separate mode
/// without optimizer swap.
std::vector<std::string> engine_notes(const PlacementPlan& plan, bool is_npu);

}  // namespace cohort::plan
