/// PLACE-1..5 in every reachable state of every small plan: up to 4 cards and 4 roles, both modes,
/// both offload policies, with messages lost, repeated and reordered (place_explorer.hpp).
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/place_explorer.hpp"
#include "tests/support/place_plans.hpp"

namespace cohort::test {
namespace {

using plan::OffloadPolicy;
using plan::PlacementMode;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_is_sanitized = true;
#else
constexpr bool k_is_sanitized = false;
#endif

// Roles of a card kind: 1 actor_train, 2 actor_infer, 4 reference, 8 critic.
const std::vector<uint32_t> k_separate_kinds = {1, 8, 9, 2, 4, 6};
const std::vector<uint32_t> k_all_kinds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct Totals {
  uint64_t plans = 0, runs = 0, states = 0, transitions = 0;  // a run: a plan and a policy
};

std::string name_of(const std::vector<uint32_t>& kinds) {
  std::string text = "cards of kinds";
  for (uint32_t kind : kinds) text += " " + std::to_string(kind);
  return text;
}

bool is_shared(const plan::PlacementPlan& plan) {
  return !plan::shared_cards_of(plan.roles).empty();
}

/// Explores one plan under the policies that it allows.
void explore_plan(PlacementMode mode, const std::vector<uint32_t>& kinds, Budget budget,
                  Totals& totals) {
  auto mapping = make_mapping(kinds, budget);
  if (budget == Budget::roomy && mapping.cards == make_mapping(kinds, Budget::least).cards) return;
  auto plan = plan::plan_placement(mode, mapping.cards, mapping.roles);
  ASSERT_TRUE(plan) << name_of(kinds) << ": " << plan.error().to_string();
  ++totals.plans;
  for (OffloadPolicy policy : {OffloadPolicy::step, OffloadPolicy::never}) {
    if (policy == OffloadPolicy::never && is_shared(*plan)) {
      ASSERT_EQ(plan::check_policy(*plan, policy).error().code, Errc::placement);
      continue;
    }
    ExploreResult result = explore(*plan, policy, {});
    ASSERT_EQ(result.violation, "") << name_of(kinds) << ", policy " << to_string(policy);
    ++totals.runs;
    totals.states += result.states;
    totals.transitions += result.transitions;
  }
}

void explore_all(const char* what, PlacementMode mode, const std::vector<uint32_t>& allowed,
                 size_t cards, Budget budget) {
  Totals totals;
  for_each_kinds(allowed, cards, [&](const std::vector<uint32_t>& kinds) {
    if (!testing::Test::HasFatalFailure()) explore_plan(mode, kinds, budget, totals);
  });
  std::printf(
      "%s, %zu cards, %s budgets: %llu plans, %llu with policies, %llu states, %llu events\n", what,
      cards, budget == Budget::least ? "least" : "roomy",
      static_cast<unsigned long long>(totals.plans), static_cast<unsigned long long>(totals.runs),
      static_cast<unsigned long long>(totals.states),
      static_cast<unsigned long long>(totals.transitions));
}

TEST(PlaceExplore, EverySeparatePlan) {  // PLACE-1, 2, 4, 5
  for (size_t cards = 1; cards <= 4; ++cards)
    explore_all("separate", PlacementMode::separate, k_separate_kinds, cards, Budget::least);
}

TEST(PlaceExplore, EveryTimesharePlanUpToThreeCards) {  // PLACE-2, 3, 4, 5
  for (size_t cards = 1; cards <= 3; ++cards)
    for (Budget budget : {Budget::least, Budget::roomy})
      explore_all("timeshare", PlacementMode::timeshare, k_all_kinds, cards, budget);
}

TEST(PlaceExplore, EveryTimesharePlanOfFourCards) {  // PLACE-2, 3, 4, 5
  if (k_is_sanitized) GTEST_SKIP() << "74 million states: too many for a sanitized build";
  explore_all("timeshare", PlacementMode::timeshare, k_all_kinds, 4, Budget::least);
}

TEST(PlaceExplore, BudgetsAreExact) {  // PLACE-2: one byte less is refused before start
  for (size_t cards = 1; cards <= 2; ++cards)
    for_each_kinds(k_all_kinds, cards, [](const std::vector<uint32_t>& kinds) {
      auto mapping = make_mapping(kinds, Budget::least, 1);
      auto plan = plan::plan_placement(PlacementMode::timeshare, mapping.cards, mapping.roles);
      ASSERT_FALSE(plan) << name_of(kinds);
      EXPECT_EQ(plan.error().code, Errc::capacity);
    });
}

TEST(PlaceExplore, LateMessagesOfEarlierCommandsChangeNothing) {
  // The reduction that the large plans need: with two old messages kept on their way for any time
  // the same true states are reached as with none.
  Totals with, without;
  for (size_t cards = 1; cards <= 2; ++cards)
    for_each_kinds(k_all_kinds, cards, [&](const std::vector<uint32_t>& kinds) {
      if (testing::Test::HasFatalFailure()) return;
      auto mapping = make_mapping(kinds, Budget::least);
      auto plan = plan::plan_placement(PlacementMode::timeshare, mapping.cards, mapping.roles);
      ASSERT_TRUE(plan);
      size_t agents = 0;
      for (const plan::RoleSpec& role : plan->roles) agents += role.cards.size();
      if (agents > 4) return;
      ExploreOptions options;
      options.wants_truth = true;
      ExploreResult reduced = explore(*plan, OffloadPolicy::step, options);
      options.max_dead = cards == 1 ? 2 : 1;
      ExploreResult full = explore(*plan, OffloadPolicy::step, options);
      ASSERT_EQ(full.violation, "") << name_of(kinds);
      ASSERT_EQ(full.truth, reduced.truth) << name_of(kinds);
      with.states += full.states;
      without.states += reduced.states;
    });
  std::printf("%llu states with late messages, %llu without\n",
              static_cast<unsigned long long>(with.states),
              static_cast<unsigned long long>(without.states));
  EXPECT_GT(with.states, 3 * without.states);
}

// -- the same explorer with a rule broken on purpose --------------------------------------------

struct BrokenRule {
  const char* name;
  Defects defects;
  PlacementMode mode;
  std::vector<uint32_t> kinds;
  const char* only;  // how the violation begins: the rule that is to see it
};

/// A plan that was not asked whether it may be: what plan_placement refuses.
plan::PlacementPlan unchecked_plan(PlacementMode mode, const std::vector<uint32_t>& kinds) {
  auto mapping = make_mapping(kinds, Budget::least);
  auto plan = plan::lay_out(PlacementMode::timeshare, mapping.cards, mapping.roles).value();
  plan.mode = mode;
  return plan;
}

constexpr auto k_separate = PlacementMode::separate;
constexpr auto k_timeshare = PlacementMode::timeshare;

const BrokenRule k_broken_rules[] = {
    {"cache before offload, seen by the ledger",
     {.cache_before_offload = true},
     k_timeshare,
     {3},
     "refused: capacity: PLACE-2: actor_infer.kv_cache"},
    {"cache before offload",
     {.cache_before_offload = true, .is_ledger_blind = true},
     k_timeshare,
     {3},
     "PLACE-2: "},
    {"begin before the moves, seen by the checks",
     {.begins_first = true},
     k_separate,
     {1, 2},
     "refused: placement: PLACE-4: actor_train"},
    {"begin before the moves",
     {.begins_first = true, .is_ledger_blind = true},
     k_separate,
     {1, 2},
     "PLACE-4: "},
    {"train_params stay, seen by the ledger",
     {.keeps_train_params = true},
     k_timeshare,
     {11},
     "refused: placement: PLACE-3: "},
    {"train_params stay",
     {.keeps_train_params = true, .is_ledger_blind = true},
     k_timeshare,
     {11},
     "PLACE-3: "},
    {"train_params stay on a tight card",
     {.keeps_train_params = true, .is_ledger_blind = true},
     k_timeshare,
     {3, 11},
     "PLACE-2: "},
    {"overlap in separate mode, seen by the ledger",
     {},
     k_separate,
     {3},
     "refused: placement: PLACE-1: "},
    {"overlap in separate mode", {.is_ledger_blind = true}, k_separate, {3}, "PLACE-1: "},
    {"served after the first shard",
     {.serves_early = true},
     k_separate,
     {1, 2, 2},
     "PLACE-5: a version is served"},
    {"served after the first shard",
     {.serves_early = true},
     k_timeshare,
     {3, 3},
     "PLACE-5: a version is served"},
    {"answer before freeing", {.acks_before_freeing = true}, k_timeshare, {3}, "PLACE-2: "},
    {"answer before freeing", {.acks_before_freeing = true}, k_timeshare, {11}, "PLACE-3: "},
    {"answer before freeing", {.acks_before_freeing = true}, k_separate, {1, 2}, "PLACE-4: "},
    {"agents execute old commands", {.ignores_ids = true}, k_timeshare, {3}, "PLACE-2: "},
    {"agents execute old commands", {.ignores_ids = true}, k_timeshare, {11}, "PLACE-3: "},
    {"agents execute old commands", {.ignores_ids = true}, k_separate, {1, 6}, "PLACE-4: "},
    {"agents execute old commands", {.ignores_ids = true}, k_separate, {1, 2}, "PLACE-5: "},
    {"placement takes old answers", {.accepts_any_ack = true}, k_timeshare, {3}, "PLACE-2: "},
    {"placement takes old answers", {.accepts_any_ack = true}, k_separate, {1, 2}, "PLACE-4: "},
    {"placement never asks again", {.never_retries = true}, k_separate, {1, 2}, "stuck: "},
};

TEST(PlaceExplore, EveryBrokenRuleIsFound) {
  for (const BrokenRule& rule : k_broken_rules) {
    ExploreOptions options;
    options.max_dead = 2;
    options.defects = rule.defects;
    options.only = rule.only;
    auto plan = unchecked_plan(rule.mode, rule.kinds);
    ExploreResult result = explore(plan, OffloadPolicy::step, options);
    EXPECT_TRUE(result.violation.starts_with(rule.only))
        << rule.name << ": '" << result.violation << "' after " << result.states << " states";
    std::printf("%-45s %8llu states: %s\n", rule.name,
                static_cast<unsigned long long>(result.states), result.violation.c_str());
  }
}

TEST(PlaceExplore, SameMappingsWithoutTheDefectAreFine) {
  for (const BrokenRule& rule : k_broken_rules) {
    auto mode = rule.kinds == std::vector<uint32_t>{3} ? PlacementMode::timeshare : rule.mode;
    ExploreOptions options;
    options.max_dead = 1;
    EXPECT_EQ(explore(unchecked_plan(mode, rule.kinds), OffloadPolicy::step, options).violation, "")
        << rule.name;
  }
}

}  // namespace
}  // namespace cohort::test
