/// Exhaustive small plans and random large ones: PLACE-1, 2, 4 hold after every command, and
/// between a command and its acknowledgement.
#include <gtest/gtest.h>

#include <set>

#include "runtime/plan/place/phases.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_phases_test {
namespace {

using test::make_role;

/// Reads the head block's promise independently of the ledger: recomputes the card from its
/// entries.
void assert_card_rules(const PlacementPlan& plan, const Ledger& ledger) {
  ledger.assert_invariants();
  for (const CardSpec& card : plan.cards) {
    uint64_t bytes = 0;
    std::set<bool> classes;
    for (const RoleSpec& role : plan.roles)
      for (const auto& [object, size] : role.bytes_per_card)
        if (ledger.place_of(role.role, card.id, object) == Place::card) {
          bytes += size;
          classes.insert(is_train_class(object));
        }
    ASSERT_LE(bytes + card.reserve_bytes, card.capacity_bytes) << "PLACE-2";
    ASSERT_LE(classes.size(), 1u) << "PLACE-1";
  }
}

/// Executes a phase; every computing role must pass PLACE-4. Returns false if the phase is refused.
bool run_phase(const PlacementPlan& plan, Ledger& ledger, PhaseKind phase, OffloadPolicy policy) {
  auto commands = commands_for(plan, ledger, phase, policy);
  if (!commands) {
    EXPECT_EQ(commands.error().code, Errc::protocol) << commands.error().to_string();
    return false;
  }
  for (const Command& command : *commands) {
    if (auto move = transition_of(command)) {
      EXPECT_NE(ledger.place_of(move->role, move->card, move->object), move->to);
      auto begun = ledger.begin(*move);
      EXPECT_TRUE(begun) << begun.error().to_string();
      assert_card_rules(plan, ledger);
      EXPECT_TRUE(ledger.commit(*move, command.bytes));
    } else if (command.verb == Command::Verb::begin_phase) {
      EXPECT_TRUE(ledger.begin_phase(phase));
    }
    if (command.verb == Command::Verb::reshard ||
        (command.verb == Command::Verb::begin_phase && phase != PhaseKind::publish)) {
      auto ready = check_compute(plan, ledger, command.role, phase);
      EXPECT_TRUE(ready) << ready.error().to_string();
    }
    if (command.verb == Command::Verb::reshard) {
      EXPECT_TRUE(check_compute(plan, ledger, "actor_train", phase));
    }
    assert_card_rules(plan, ledger);
  }
  auto rest = commands_for(plan, ledger, phase, policy).value();
  for (const Command& again : rest)
    EXPECT_FALSE(transition_of(again)) << "not settled: " << to_text(again);
  return true;
}

std::vector<PlacementPlan> small_plans() {
  std::vector<PlacementPlan> plans;
  for (uint32_t train = 1; train <= 2; ++train)
    for (uint32_t infer = 1; infer <= 2; ++infer)
      // none, beside infer, own card, and both again with weights of its own
      for (int reference = 0; reference <= 4; ++reference)
        for (bool has_critic : {false, true}) {
          std::vector<RoleSpec> roles = {
              make_role("actor_train", 0, train, test::k_train_objects, 7),
              make_role("actor_infer", train, infer, test::k_infer_objects, 11)};
          if (reference > 0) {
            roles.push_back(make_role("reference", reference % 2 == 1 ? train : train + infer, 1,
                                      {Object::ref_params}, 13));
            roles.back().has_own_weights = reference > 2;
          }
          if (has_critic) roles.push_back(make_role("critic", 0, train, test::k_critic_objects, 3));
          std::vector<uint64_t> need(train + infer + 1, 1);
          for (const RoleSpec& role : roles)
            for (const auto& [object, bytes] : role.bytes_per_card)
              for (CardId card : role.cards) need[card.value] += bytes;
          std::vector<CardSpec> cards;  // exact budgets: nothing fits that is not planned
          for (uint32_t i = 0; i < need.size(); ++i) cards.push_back({{i}, need[i] + 4, 5});
          cards.back().capacity_bytes += 1;
          for (CardSpec& card : cards) card.capacity_bytes += 1;
          plans.push_back(plan_placement(PlacementMode::separate, cards, roles).value());
        }
  return plans;
}

uint64_t explore(const PlacementPlan& plan, const Ledger& ledger, OffloadPolicy policy, int depth) {
  if (depth == 0) return 1;
  uint64_t count = 0;
  for (PhaseKind phase : k_phases) {
    Ledger next = ledger;
    if (run_phase(plan, next, phase, policy)) count += explore(plan, next, policy, depth - 1);
    if (testing::Test::HasFailure()) return count;
  }
  return count;
}

TEST(PlacePhases, EveryPhaseSequenceOfSmallPlansKeepsTheRules) {  // PLACE-1, PLACE-2, PLACE-4
  uint64_t count = 0;
  for (const PlacementPlan& plan : small_plans())
    for (OffloadPolicy policy : {OffloadPolicy::never, OffloadPolicy::step})
      count += explore(plan, Ledger{plan.mode, plan.cards}, policy, 5);
  EXPECT_GT(count, 1000u);
}

TEST(PlacePhases, LongRandomRunsOfRandomPlansKeepTheRules) {  // PLACE-1, PLACE-2, PLACE-4
  Rng rng{test::property_seed(20261)};
  for (int round = 0; round < 100; ++round) {
    auto mapping = test::random_mapping(rng);
    auto plan = plan_placement(PlacementMode::separate, mapping.cards, mapping.roles);
    ASSERT_TRUE(plan) << plan.error().to_string();
    Ledger ledger{plan->mode, plan->cards};
    for (int step = 0; step < 30; ++step)
      run_phase(*plan, ledger, k_phases[rng.below(k_phases.size())],
                rng.below(2) ? OffloadPolicy::step : OffloadPolicy::never);
    for (const PhaseBytes& peak : plan->peak_bytes)
      EXPECT_LE(ledger.peak_bytes_on(peak.card), peak.bytes);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(PlacePhases, ComputeIsGrantedExactlyWhenEveryObjectIsOnItsCard) {  // PLACE-4, exhaustive
  auto cards = test::make_cards(2, 100, 0);
  auto plan = plan_placement(PlacementMode::separate, cards,
                             {make_role("actor_train", 0, 2, test::k_train_objects, 7)})
                  .value();
  for (uint32_t code = 0; code < 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    Ledger ledger{plan.mode, cards};
    uint32_t rest = code;
    bool is_ready = true;
    for (uint32_t card : {0u, 1u})
      for (Object object : test::k_train_objects) {
        auto place = static_cast<Place>(rest % 3);
        rest /= 3;
        Transition move{"actor_train", {card}, object, place, 7};
        ASSERT_TRUE(ledger.begin(move));
        ASSERT_TRUE(ledger.commit(move, place == Place::card ? 7 : 0));
        is_ready &= place == Place::card;
      }
    ASSERT_TRUE(ledger.begin_phase(PhaseKind::update));
    ASSERT_EQ(check_compute(plan, ledger, "actor_train", PhaseKind::update).has_value(), is_ready);
  }
}

TEST(PlacePhases, AnyObjectOnAnyCardIsAcceptedOrNamesTheRule) {  // PLACE-1 before start
  constexpr uint32_t k_card_count = 3;
  // Two roles, each any non-empty subset of three objects on any non-empty subset of three cards.
  const Object k_objects_tried[] = {Object::train_params, Object::infer_params, Object::kv_cache};
  uint64_t accepted = 0;
  for (uint32_t code = 0; code < 8 * 8 * 8 * 8; ++code) {
    std::vector<RoleSpec> roles = {{"a", {}, {}}, {"b", {}, {}}};
    uint32_t classes[k_card_count] = {};
    for (uint32_t r = 0; r < 2; ++r)
      for (uint32_t bit = 0; bit < 3; ++bit) {
        if (code >> (6 * r + bit) & 1) roles[r].cards.push_back({bit});
        if (code >> (6 * r + 3 + bit) & 1) roles[r].bytes_per_card[k_objects_tried[bit]] = 1;
      }
    bool is_possible = true;
    for (const RoleSpec& role : roles) {
      is_possible &= role.bytes_per_card.empty() || !role.cards.empty();
      for (CardId card : role.cards)
        for (const auto& [object, bytes] : role.bytes_per_card)
          classes[card.value] |= is_train_class(object) ? 1u : 2u;
    }
    for (uint32_t both : classes) is_possible &= both != 3;
    auto plan =
        plan_placement(PlacementMode::separate, test::make_cards(k_card_count, 9, 0), roles);
    ASSERT_EQ(plan.has_value(), is_possible) << code;
    EXPECT_EQ(plan ? Errc::placement : plan.error().code, Errc::placement);
    accepted += plan.has_value();
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace cohort::plan::plan_phases_test
