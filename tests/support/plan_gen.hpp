#pragma once
/// Seeded generators for the planners' property tests. COHORT_SEED=N replays a run; the seed is
/// printed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/plan/place/placement.hpp"

namespace cohort::test {

/// Returns COHORT_SEED, or `fallback`, and prints it.
inline uint64_t property_seed(uint64_t fallback) {
  const char* text = std::getenv("COHORT_SEED");
  uint64_t seed = text ? std::strtoull(text, nullptr, 10) : fallback;
  std::printf("COHORT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// A role on cards [first, first + count) with `bytes` for each of `objects`.
inline plan::RoleSpec make_role(std::string name, uint32_t first, uint32_t count,
                                const std::vector<plan::Object>& objects, uint64_t bytes) {
  plan::RoleSpec role{std::move(name), {}, {}};
  for (uint32_t i = 0; i < count; ++i) role.cards.push_back({first + i});
  for (plan::Object object : objects) role.bytes_per_card[object] = bytes;
  return role;
}

inline std::vector<plan::CardSpec> make_cards(uint32_t count, uint64_t capacity, uint64_t reserve) {
  std::vector<plan::CardSpec> cards;
  for (uint32_t i = 0; i < count; ++i) cards.push_back({{i}, capacity, reserve});
  return cards;
}

inline const std::vector<plan::Object> k_train_objects = {
    plan::Object::train_params, plan::Object::grads, plan::Object::optimizer};
inline const std::vector<plan::Object> k_infer_objects = {plan::Object::infer_params,
                                                          plan::Object::kv_cache};
inline const std::vector<plan::Object> k_critic_objects = {
    plan::Object::critic_params, plan::Object::critic_grads, plan::Object::critic_optimizer};

/// Returns a mapping that separate mode accepts; budgets are exact for some cards, ample for
/// others.
struct RandomMapping {
  std::vector<plan::CardSpec> cards;
  std::vector<plan::RoleSpec> roles;
};
inline RandomMapping random_mapping(Rng& rng) {
  auto count = [&] { return static_cast<uint32_t>(1 + rng.below(4)); };
  uint32_t train = count(), infer = count();
  RandomMapping x;
  x.roles.push_back(make_role("actor_train", 0, train, k_train_objects, 0));
  x.roles.push_back(make_role("actor_infer", train, infer, k_infer_objects, 0));
  uint32_t total = train + infer;
  if (rng.below(2)) {
    bool has_own_card = rng.below(2);
    x.roles.push_back(
        make_role("reference", has_own_card ? total : train, 1, {plan::Object::ref_params}, 0));
    total += has_own_card;
  }
  if (rng.below(2)) x.roles.push_back(make_role("critic", 0, train, k_critic_objects, 0));
  std::vector<uint64_t> need(total, 0);
  for (plan::RoleSpec& role : x.roles)
    for (auto& [object, bytes] : role.bytes_per_card) {
      bytes = 1 + rng.below(1000);
      for (CardId card : role.cards) need[card.value] += bytes;
    }
  for (uint32_t i = 0; i < total; ++i) {
    uint64_t reserve = rng.below(100), slack = rng.below(2) ? 0 : rng.below(500);
    x.cards.push_back({{i}, need[i] + reserve + slack, reserve});
  }
  return x;
}

}  // namespace cohort::test
