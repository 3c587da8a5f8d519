#pragma once
/// How good a reshard plan is: numbers that tests and benches judge plans by, from its transfers.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::test {

inline uint64_t bytes_of(const plan::ReshardPlan& plan, const plan::ReshardTransfer& x) {
  const plan::ReshardPiece& piece = plan.pieces[x.piece];
  return (elements_before(piece, x.end_unit) - elements_before(piece, x.first_unit)) *
         plan.model.tensors[piece.family].element_bytes;
}

/// Sum over rounds of the most that one card sends or receives.
inline uint64_t critical_bytes(const plan::ReshardPlan& plan) {
  std::map<uint32_t, std::map<std::pair<bool, uint32_t>, uint64_t>> rounds;
  for (const plan::ReshardTransfer& x : plan.transfers) {
    if (x.from == x.to) continue;
    rounds[x.round][{false, x.from}] += bytes_of(plan, x);
    rounds[x.round][{true, x.to}] += bytes_of(plan, x);
  }
  uint64_t sum = 0;
  for (const auto& [round, bytes] : rounds)
    sum += std::ranges::max_element(bytes, {}, [](const auto& x) { return x.second; })->second;
  return sum;
}

/// Distinct (sender, receiver) of expert traffic, by index of the plan's cards.
inline std::set<std::pair<uint32_t, uint32_t>> expert_pairs(const plan::ReshardPlan& plan) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const plan::ReshardTransfer& x : plan.transfers)
    if (x.from != x.to && plan.model.tensors[plan.pieces[x.piece].family].experts > 0)
      pairs.emplace(x.from, x.to);
  return pairs;
}

inline bool is_expert_traffic_in_pp_groups(const plan::ReshardPlan& plan) {
  const plan::Shards shards(plan.model, plan.from);
  const auto& ranks = plan.from.ranks;
  return std::ranges::all_of(expert_pairs(plan), [&](const auto& pair) {
    const auto a = std::ranges::find(ranks, plan.cards[pair.first]);
    const auto b = std::ranges::find(ranks, plan.cards[pair.second]);
    if (a == ranks.end() || b == ranks.end()) return false;
    const auto at_a = shards.place(static_cast<uint32_t>(a - ranks.begin()));
    const auto at_b = shards.place(static_cast<uint32_t>(b - ranks.begin()));
    return at_a.tp == at_b.tp && at_a.dp == at_b.dp;
  });
}

/// No choice of senders makes the busiest of a p2p plan send less. What only some cards hold and
/// others need, over their number, is a bound. Tried are the k busiest cards for each k (of level
/// loads the best choice, but for rounding), and the groups.
inline uint64_t send_bound(const plan::ReshardPlan& plan) {
  using plan::CardGroup;
  const plan::Shards from(plan.model, plan.from), to(plan.model, plan.to);
  plan::ReshardPlan scratch;
  scratch.model = plan.model;
  const plan::ReshardBuilder builder(scratch, from, to, plan.options);
  const plan::Needs needs = find_needs(builder).value();
  std::vector<uint32_t> order(plan.ranks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater<>{}, [&](uint32_t i) { return plan.ranks[i].send; });
  std::vector<size_t> rank(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  std::vector<uint64_t> only(order.size(), 0);  // held by none behind this rank
  std::map<CardGroup, uint64_t> by_group;
  for (const plan::Need& need : needs.needs) {
    const plan::ReshardPiece& piece = needs.pieces[need.piece];
    const CardGroup &holders = needs.groups[need.holders], &all = needs.groups[need.receivers];
    const uint64_t wanting = static_cast<uint64_t>(std::ranges::count_if(
        all, [&](uint32_t card) { return !std::ranges::binary_search(holders, card); }));
    if (wanting == 0) continue;
    const uint64_t bytes = wanting * elements_before(piece, piece.units()) *
                           plan.model.tensors[piece.family].element_bytes;
    size_t last = 0;
    for (uint32_t card : holders) last = std::max(last, rank[card]);
    only[last] += bytes;
    by_group[holders] += bytes;
  }
  uint64_t sum = 0, bound = 0;
  for (size_t i = 0; i < only.size(); ++i) {
    sum += only[i];
    bound = std::max(bound, (sum + i) / (i + 1));
  }
  constexpr size_t k_compared = 4096;  // groups; beyond that a group is only compared to itself
  for (const auto& [group, own] : by_group) {
    uint64_t within = by_group.size() > k_compared ? own : 0;
    if (by_group.size() <= k_compared)
      for (const auto& [other, more] : by_group)
        within += std::ranges::includes(group, other) ? more : 0;
    bound = std::max(bound, (within + group.size() - 1) / group.size());
  }
  return bound;
}

}  // namespace cohort::test
