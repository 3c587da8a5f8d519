#include "runtime/plan/placement.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace cohort::plan {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}

/// One object of one role on the card in question.
struct Demand {
  const RoleSpec* role;
  Object object;
  uint64_t bytes;
};

bool holds_class(const RoleSpec& role, bool train_class) {
  return std::ranges::any_of(role.bytes_per_card,
                             [&](const auto& x) { return is_train_class(x.first) == train_class; });
}

Expected<void> check_cards(const std::vector<CardSpec>& cards) {
  if (cards.empty()) return Error{Errc::placement, "placement: there are no cards"};
  for (size_t i = 1; i < cards.size(); ++i)
    if (cards[i - 1].id == cards[i].id)
      return Error{Errc::placement,
                   "placement: card " + std::to_string(cards[i].id.value) + " is described twice"};
  for (const CardSpec& card : cards)
    if (card.budget_bytes() == 0)
      return Error{Errc::capacity, "placement: card " + std::to_string(card.id.value) +
                                       ": reserve " + with_thousands(card.reserve_bytes) +
                                       " leaves nothing of capacity " +
                                       with_thousands(card.capacity_bytes)};
  return {};
}

std::string known_cards(const std::vector<CardSpec>& cards) {
  std::vector<CardId> ids;
  ids.reserve(cards.size());
  for (const CardSpec& card : cards) ids.push_back(card.id);
  return to_text(ids);
}

Expected<void> check_role(const RoleSpec& role, const std::vector<CardSpec>& cards) {
  if (role.role.empty()) return Error{Errc::placement, "placement: a role has no name"};
  if (role.bytes_per_card.empty()) return {};
  if (role.cards.empty())
    return Error{Errc::placement, "placement: " + role.role +
                                      " holds objects but has no cards; give it a device_mapping"};
  for (size_t i = 0; i < role.cards.size(); ++i) {
    CardId id = role.cards[i];
    if (i > 0 && role.cards[i - 1] == id)
      return Error{Errc::placement, "placement: " + role.role + " names card " +
                                        std::to_string(id.value) + " twice"};
    if (std::ranges::none_of(cards, [&](const CardSpec& x) { return x.id == id; }))
      return Error{Errc::placement, "placement: " + role.role + " names card " +
                                        std::to_string(id.value) + ", but the cards are " +
                                        known_cards(cards)};
  }
  return {};
}

/// PLACE-1, before anything runs.
Expected<void> check_overlap(const std::vector<RoleSpec>& roles) {
  for (const RoleSpec& train : roles) {
    if (!holds_class(train, true)) continue;
    for (const RoleSpec& infer : roles) {
      if (!holds_class(infer, false)) continue;
      if (&train == &infer)
        return Error{Errc::placement, "placement: separate mode: " + train.role +
                                          " holds train-class and infer-class objects itself "
                                          "(PLACE-1)"};
      std::vector<CardId> shared;
      std::ranges::set_intersection(train.cards, infer.cards, std::back_inserter(shared));
      if (!shared.empty())
        return Error{Errc::placement, "placement: separate mode: " + train.role + " " +
                                          to_text(train.cards) + " and " + infer.role + " " +
                                          to_text(infer.cards) + " share card" +
                                          (shared.size() > 1 ? "s " : " ") + to_text(shared) +
                                          " (PLACE-1); give them disjoint device_mapping lists"};
    }
  }
  return {};
}

std::vector<Demand> demands_on(const std::vector<RoleSpec>& roles, CardId card, bool train_class) {
  std::vector<Demand> demands;
  for (const RoleSpec& role : roles) {
    if (!std::ranges::binary_search(role.cards, card)) continue;
    for (const auto& [object, bytes] : role.bytes_per_card)
      if (is_train_class(object) == train_class) demands.push_back({&role, object, bytes});
  }
  return demands;
}

uint64_t total_of(const std::vector<Demand>& demands) {
  uint64_t total = 0;
  for (const Demand& x : demands) total = saturating_add(total, x.bytes);
  return total;
}

/// Returns "; raise …, or …": what would make the demands fit.
std::string remedies(const std::vector<Demand>& demands, const CardSpec& card) {
  uint64_t total = total_of(demands), budget = card.budget_bytes();
  std::string text = "; raise cards.memory_bytes to at least " +
                     with_thousands(saturating_add(total, card.reserve_bytes));
  bool has_smaller_remedy = false;
  for (const Demand& x : demands) {
    uint64_t others = total - x.bytes;
    if (others >= budget) continue;
    if (x.object == Object::kv_cache) {
      text += ", or lower " + x.role->role + "'s kv_cache to at most " +
              with_thousands(budget - others) + " bytes";
      has_smaller_remedy = true;
    } else if (x.object == Object::ref_params && x.role != demands.front().role) {
      text += ", or give " + x.role->role + " another card (or drop it: no KL, no reference)";
      has_smaller_remedy = true;
    }
  }
  return has_smaller_remedy ? text : text + ", or choose a smaller model";
}

Error over_budget(const std::vector<Demand>& demands, const CardSpec& card, PhaseKind phase) {
  std::string roles, sum;
  const RoleSpec* previous = nullptr;
  for (const Demand& x : demands) {
    if (x.role != previous) roles += (roles.empty() ? "" : " + ") + x.role->role;
    previous = x.role;
    sum += (sum.empty() ? "" : " + ") + std::string(to_string(x.object)) + " " +
           with_thousands(x.bytes);
  }
  return Error{Errc::capacity,
               "placement: card " + std::to_string(card.id.value) + " cannot hold " + roles +
                   " in phase " + std::string(to_string(phase)) + ": " + sum + " = " +
                   with_thousands(total_of(demands)) + " bytes > " +
                   with_thousands(card.budget_bytes()) + " (capacity " +
                   with_thousands(card.capacity_bytes) + " - reserve " +
                   with_thousands(card.reserve_bytes) + ")" + remedies(demands, card)};
}

}  // namespace

const RoleSpec* PlacementPlan::find(std::string_view name) const {
  auto found = std::ranges::find(roles, name, &RoleSpec::role);
  return found == roles.end() ? nullptr : &*found;
}

const RoleSpec* PlacementPlan::owner_of(Object object) const {
  auto found = std::ranges::find_if(roles, [&](const RoleSpec& x) { return x.has(object); });
  return found == roles.end() ? nullptr : &*found;
}

Expected<PlacementPlan> plan_placement(PlacementMode mode, std::vector<CardSpec> cards,
                                       std::vector<RoleSpec> roles) {
  if (mode != PlacementMode::separate)
    return Error{Errc::placement,
                 "placement: mode timeshare has no phase table in this version; "
                 "use placement.mode: separate with disjoint device_mapping lists"};
  std::ranges::sort(cards, {}, &CardSpec::id);
  COHORT_TRY(check_cards(cards));
  std::set<std::string> names;
  for (RoleSpec& role : roles) {
    std::ranges::sort(role.cards);
    COHORT_TRY(check_role(role, cards));
    if (!names.insert(role.role).second)
      return Error{Errc::placement, "placement: role " + role.role + " is described twice"};
  }
  COHORT_TRY(check_overlap(roles));
  PlacementPlan plan{mode, std::move(cards), std::move(roles), {}};
  for (const CardSpec& card : plan.cards) {
    // In separate mode a card's peak is in one of these two: publish and evaluate need a subset of
    // generate's objects, the first publish a subset of update's on a train card (phases.hpp).
    for (PhaseKind phase : {PhaseKind::generate, PhaseKind::update}) {
      auto demands = demands_on(plan.roles, card.id, phase == PhaseKind::update);
      if (demands.empty()) continue;
      uint64_t total = total_of(demands);
      if (total > card.budget_bytes()) return over_budget(demands, card, phase);
      plan.peak_bytes.push_back({card.id, phase, total});
    }
  }
  return plan;
}

}  // namespace cohort::plan
