#include "runtime/plan/place/placement.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "runtime/plan/place/phases_table.hpp"

namespace cohort::plan {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}

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
Expected<void> check_overlap(PlacementMode mode, const std::vector<RoleSpec>& roles) {
  for (const RoleSpec& role : roles)
    if (holds_class(role, true) && holds_class(role, false))
      return Error{Errc::placement,
                   "placement: " + role.role +
                       " holds train-class and infer-class objects itself; make it two roles"};
  if (mode == PlacementMode::timeshare) return {};
  std::string pairs;
  for (const SharedCards& x : shared_cards_of(roles)) {
    auto cards_of = [&](const std::string& name) {
      return name + " " + to_text(std::ranges::find(roles, name, &RoleSpec::role)->cards);
    };
    pairs += (pairs.empty() ? "" : ", ") + cards_of(x.train_role) + " and " +
             cards_of(x.infer_role) + " share card" + (x.cards.size() > 1 ? "s " : " ") +
             to_text(x.cards);
  }
  if (pairs.empty()) return {};
  return Error{Errc::placement, "placement: separate mode: " + pairs +
                                    " (PLACE-1); move one role, or say placement.mode=timeshare "
                                    "to let them take turns"};
}

/// Returns "; raise …, or …": what would make the objects fit.
std::string remedies(const PhaseBytes& peak, const CardSpec& card) {
  uint64_t budget = card.budget_bytes();
  std::string text = "; raise cards.memory_bytes to at least " +
                     with_thousands(saturating_add(peak.bytes, card.reserve_bytes));
  bool has_smaller_remedy = false;
  for (const HeldObject& x : peak.objects) {
    uint64_t others = peak.bytes - x.bytes;
    if (others >= budget) continue;
    if (x.object == Object::kv_cache) {
      text += ", or lower " + x.role + "'s kv_cache to at most " + with_thousands(budget - others) +
              " bytes";
      has_smaller_remedy = true;
    } else if (x.object == Object::ref_params && x.role != peak.objects.front().role) {
      text += ", or give " + x.role + " another card (or drop it: no KL, no reference)";
      has_smaller_remedy = true;
    }
  }
  return has_smaller_remedy ? text : text + ", or choose a smaller model";
}

Error over_budget(const PhaseBytes& peak, const CardSpec& card) {
  std::string roles, sum, previous;
  for (const HeldObject& x : peak.objects) {
    if (x.role != previous) roles += (roles.empty() ? "" : " + ") + x.role;
    previous = x.role;
    sum += (sum.empty() ? "" : " + ") + std::string(to_string(x.object)) + " " +
           with_thousands(x.bytes);
  }
  return Error{Errc::capacity,
               "placement: card " + std::to_string(card.id.value) + " cannot hold " + roles +
                   " in phase " + std::string(to_string(peak.phase)) + ": " + sum + " = " +
                   with_thousands(peak.bytes) + " bytes > " + with_thousands(card.budget_bytes()) +
                   " (capacity " + with_thousands(card.capacity_bytes) + " - reserve " +
                   with_thousands(card.reserve_bytes) + ")" + remedies(peak, card)};
}

}  // namespace

uint64_t total_of(const std::vector<HeldObject>& held) {
  uint64_t total = 0;
  for (const HeldObject& x : held) total = saturating_add(total, x.bytes);
  return total;
}

const RoleSpec* PlacementPlan::find(std::string_view name) const {
  auto found = std::ranges::find(roles, name, &RoleSpec::role);
  return found == roles.end() ? nullptr : &*found;
}

const RoleSpec* PlacementPlan::owner_of(Object object) const {
  auto found = std::ranges::find_if(roles, [&](const RoleSpec& x) { return x.has(object); });
  return found == roles.end() ? nullptr : &*found;
}

bool RoleSpec::is_shared(CardId card) const {
  return std::ranges::binary_search(shared_cards, card);
}

std::vector<SharedCards> shared_cards_of(const std::vector<RoleSpec>& roles) {
  std::vector<SharedCards> pairs;
  for (const RoleSpec& train : roles) {
    if (!holds_class(train, true)) continue;
    for (const RoleSpec& infer : roles) {
      if (!holds_class(infer, false)) continue;
      SharedCards pair{train.role, infer.role, {}};
      std::ranges::set_intersection(train.cards, infer.cards, std::back_inserter(pair.cards));
      if (!pair.cards.empty()) pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

Expected<PlacementPlan> lay_out(PlacementMode mode, std::vector<CardSpec> cards,
                                std::vector<RoleSpec> roles, CacheArrival cache) {
  std::ranges::sort(cards, {}, &CardSpec::id);
  COHORT_TRY(check_cards(cards));
  std::set<std::string> names;
  for (RoleSpec& role : roles) {
    std::ranges::sort(role.cards);
    COHORT_TRY(check_role(role, cards));
    if (!names.insert(role.role).second)
      return Error{Errc::placement, "placement: role " + role.role + " is described twice"};
  }
  COHORT_TRY(check_overlap(mode, roles));
  std::set<CardId> shared;
  for (const SharedCards& pair : shared_cards_of(roles))
    shared.insert(pair.cards.begin(), pair.cards.end());
  for (RoleSpec& role : roles) {
    role.shared_cards.clear();
    std::ranges::set_intersection(role.cards, shared, std::back_inserter(role.shared_cards));
  }
  PlacementPlan plan{mode, std::move(cards), std::move(roles), {}, cache};
  for (const CardSpec& card : plan.cards)
    for (PhaseKind phase :
         {PhaseKind::publish, PhaseKind::generate, PhaseKind::reference, PhaseKind::update}) {
      PhaseBytes peak{card.id, phase, 0, held_in(plan, card.id, phase)};
      if (peak.objects.empty()) continue;
      // A card of one class has its peak in update or in generate (phases_table.hpp).
      bool is_train = is_train_class(peak.objects.front().object);
      if (!shared.contains(card.id) &&
          phase != (is_train ? PhaseKind::update : PhaseKind::generate))
        continue;
      peak.bytes = total_of(peak.objects);
      plan.peak_bytes.push_back(std::move(peak));
    }
  return plan;
}

PlacementPlan without_roles(PlacementPlan plan, const RolesOfCards& gone) {
  for (RoleSpec& role : plan.roles) {
    auto is_gone = [&](CardId card) { return gone.contains({card, role.role}); };
    std::erase_if(role.cards, is_gone);
    std::erase_if(role.shared_cards, is_gone);
  }
  return plan;
}

Expected<void> check_capacity(const PlacementPlan& plan) {
  for (const PhaseBytes& peak : plan.peak_bytes) {
    const CardSpec& card = *std::ranges::find(plan.cards, peak.card, &CardSpec::id);
    if (peak.bytes > card.budget_bytes()) return over_budget(peak, card);
  }
  return {};
}

Expected<PlacementPlan> plan_placement(PlacementMode mode, std::vector<CardSpec> cards,
                                       std::vector<RoleSpec> roles, CacheArrival cache) {
  COHORT_ASSIGN(PlacementPlan plan, lay_out(mode, std::move(cards), std::move(roles), cache));
  COHORT_TRY(check_capacity(plan));
  return plan;
}

std::vector<std::string> engine_notes(const PlacementPlan& plan, bool is_npu) {
  std::vector<std::string> notes;
  auto pairs = shared_cards_of(plan.roles);
  for (const SharedCards& x : pairs)
    notes.push_back(x.train_role + " and " + x.infer_role + " take turns on cards " +
                    to_text(x.cards));
  if (!pairs.empty()) {
    notes.emplace_back(
        "generation engine: infer_params outside the engine's own memory pool, because a pool that "
        "owns them cannot give their bytes back when they are offloaded");
    notes.emplace_back(
        plan.cache == CacheArrival::late
            ? "generation engine: kv_cache is initialised after train_params and the optimizer "
              "have left (init_cache late), not when the engine starts"
            : "generation engine: kv_cache is initialised while train_params are still there "
              "(placement.init_cache early): late would lower the peak of these cards");
  }
  if (!pairs.empty() && is_npu) {
    notes.emplace_back(
        "generation engine on npu: sleep mode off; over several nodes it does not return card "
        "memory, so offload and free_cache take its place");
    notes.emplace_back(
        "npu: two processes use one card: set HCCL_NPU_SOCKET_PORT_RANGE=auto, or both bind "
        "device port 16666");
  }
  for (const RoleSpec& role : plan.roles) {
    if (!role.is_optimizer_swapped) continue;
    for (const auto& [object, bytes] : role.bytes_per_card)
      if (object == Object::optimizer || object == Object::critic_optimizer)
        notes.push_back(role.role +
                        ": master weights and moments stay on the host, streamed through " +
                        with_thousands(bytes) + " bytes per card in update");
  }
  return notes;
}

}  // namespace cohort::plan
