#pragma once
/// Every small plan up to symmetry: cards differ only in which roles they carry, so a plan is a
/// multiset of card kinds, a kind being a non-empty set of the four roles. Budgets are exact: one
/// byte less and some phase would not fit.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/plan/place/placement.hpp"

namespace cohort::test {

inline constexpr uint64_t k_reserve = 3;

/// The four roles with bytes chosen so that no two sums that matter are equal.
inline std::vector<plan::RoleSpec> four_roles() {
  using plan::Object;
  return {
      {"actor_train", {}, {{Object::train_params, 4}, {Object::grads, 4}, {Object::optimizer, 8}}},
      {"actor_infer", {}, {{Object::infer_params, 7}, {Object::kv_cache, 9}}},
      {"reference", {}, {{Object::ref_params, 6}}},
      {"critic",
       {},
       {{Object::critic_params, 2}, {Object::critic_grads, 2}, {Object::critic_optimizer, 4}}}};
}

enum class Budget : uint8_t { least = 0, roomy = 1 };  // roomy: the optimizer fits in publish too

/// Returns the bytes that a card of these roles needs, by the rules of docs/cards.md alone.
inline uint64_t bytes_needed(const std::vector<plan::RoleSpec>& roles, uint32_t kind,
                             Budget budget) {
  using plan::Object;
  auto sum = [&](std::initializer_list<Object> objects) {
    uint64_t total = 0;
    for (size_t role = 0; role < roles.size(); ++role)
      for (const auto& [object, bytes] : roles[role].bytes_per_card)
        if (kind >> role & 1 && std::ranges::count(objects, object)) total += bytes;
    return total;
  };
  constexpr uint32_t k_train = 1 | 8, k_infer = 2 | 4;
  uint64_t update = sum({Object::train_params, Object::grads, Object::optimizer,
                         Object::critic_params, Object::critic_grads, Object::critic_optimizer});
  uint64_t generate = sum({Object::infer_params, Object::kv_cache});
  uint64_t reference = sum({Object::ref_params});
  if (!(kind & k_train) || !(kind & k_infer)) return update + generate + reference;
  uint64_t publish = sum({Object::train_params}) + std::max(sum({Object::infer_params}), reference);
  if (budget == Budget::roomy)
    publish += sum({Object::optimizer, Object::critic_params, Object::critic_optimizer});
  return std::max({update, generate, reference, publish});
}

/// A plan's input: kinds of cards, ascending; `shortage` bytes less on every card.
struct SmallMapping {
  std::vector<plan::CardSpec> cards;
  std::vector<plan::RoleSpec> roles;
};
inline SmallMapping make_mapping(const std::vector<uint32_t>& kinds, Budget budget,
                                 uint64_t shortage = 0) {
  SmallMapping x{{}, four_roles()};
  for (uint32_t card = 0; card < kinds.size(); ++card) {
    uint64_t bytes = bytes_needed(x.roles, kinds[card], budget) - shortage;
    x.cards.push_back({{card}, bytes + k_reserve, k_reserve});
    for (uint32_t role = 0; role < 4; ++role)
      if (kinds[card] >> role & 1) x.roles[role].cards.push_back({card});
  }
  std::erase_if(x.roles, [](const plan::RoleSpec& role) { return role.cards.empty(); });
  return x;
}

/// Calls `visit(kinds)` for each multiset of `count` kinds out of `allowed`.
template <class Visit>
void for_each_kinds(const std::vector<uint32_t>& allowed, size_t count, Visit visit,
                    std::vector<uint32_t> kinds = {}, size_t first = 0) {
  if (kinds.size() == count) return visit(kinds);
  for (size_t i = first; i < allowed.size(); ++i) {
    kinds.push_back(allowed[i]);
    for_each_kinds(allowed, count, visit, kinds, i);
    kinds.pop_back();
  }
}

}  // namespace cohort::test
