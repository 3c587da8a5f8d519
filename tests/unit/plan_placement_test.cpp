#include <gtest/gtest.h>

#include "runtime/plan/place/placement.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_placement_test {
namespace {

using test::make_cards;
using test::make_role;

std::string refusal(const std::vector<CardSpec>& cards, const std::vector<RoleSpec>& roles) {
  auto plan = plan_placement(PlacementMode::separate, cards, roles);
  return plan ? "accepted" : plan.error().to_string();
}

RoleSpec train_role(uint32_t first = 0, uint32_t count = 1) {
  return make_role("actor_train", first, count, test::k_train_objects, 100);
}
RoleSpec infer_role(uint32_t first = 1, uint32_t count = 1) {
  return make_role("actor_infer", first, count, test::k_infer_objects, 100);
}

TEST(Placement, AcceptsDisjointRolesAndGivesPeaks) {
  auto plan =
      plan_placement(PlacementMode::separate, make_cards(2, 300, 0), {train_role(), infer_role()});
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->peak_bytes.size(), 2u);
  EXPECT_EQ(plan->peak_bytes[0].phase, PhaseKind::update);
  EXPECT_EQ(plan->peak_bytes[0].bytes, 300u);
  EXPECT_EQ(plan->peak_bytes[1].phase, PhaseKind::generate);
  EXPECT_EQ(plan->peak_bytes[1].bytes, 200u);
  EXPECT_EQ(plan->owner_of(Object::kv_cache), plan->find("actor_infer"));
  EXPECT_EQ(plan->find("critic"), nullptr);
}

TEST(Placement, OverlapNamesBothRolesAndTheCards) {  // PLACE-1
  EXPECT_EQ(
      refusal(make_cards(4, 1000, 0), {train_role(0, 3), infer_role(1, 3)}),
      "placement: placement: separate mode: actor_train [0, 1, 2] and actor_infer [1, 2, 3] "
      "share cards [1, 2] (PLACE-1); move one role, or say placement.mode=timeshare to let them "
      "take turns");
}

TEST(Placement, OverBudgetShowsTheArithmeticAndTheRemedy) {  // PLACE-2
  RoleSpec train{
      "actor_train",
      {{0}},
      {{Object::train_params, 403712}, {Object::grads, 403712}, {Object::optimizer, 807424}}};
  EXPECT_EQ(
      refusal(make_cards(1, 1048576, 48576), {train}),
      "capacity: placement: card 0 cannot hold actor_train in phase update: train_params "
      "403,712 + grads 403,712 + optimizer 807,424 = 1,614,848 bytes > 1,000,000 (capacity "
      "1,048,576 - reserve 48,576); raise cards.memory_bytes to at least 1,663,424, or choose "
      "a smaller model");
}

TEST(Placement, ReferenceBesideTheCacheIsRefusedWithItsWaysOut) {  // PLACE-2
  EXPECT_EQ(
      refusal(make_cards(2, 250, 0),
              {infer_role(), make_role("reference", 1, 1, {Object::ref_params}, 100)}),
      "capacity: placement: card 1 cannot hold actor_infer + reference in phase generate: "
      "infer_params 100 + kv_cache 100 + ref_params 100 = 300 bytes > 250 (capacity 250 - "
      "reserve 0); raise cards.memory_bytes to at least 300, or lower actor_infer's kv_cache "
      "to at most 50 bytes, or give reference another card (or drop it: no KL, no reference)");
}

TEST(Placement, RefusesWhatCannotBeMeant) {
  auto cards = make_cards(2, 1000, 0);
  const std::pair<std::vector<RoleSpec>, const char*> k_cases[] = {
      {{train_role(5)}, "names card 5, but the cards are [0, 1]"},
      {{train_role(), train_role()}, "role actor_train is described twice"},
      {{{"actor_train", {}, {{Object::grads, 1}}}}, "has no cards; give it a device_mapping"},
      {{{"actor_train", {{1}, {1}}, {{Object::grads, 1}}}}, "names card 1 twice"},
      {{{"", {{1}}, {{Object::grads, 1}}}}, "a role has no name"},
      {{{"x", {{1}}, {{Object::grads, 1}, {Object::kv_cache, 1}}}}, "train-class and infer-class"},
  };
  for (const auto& [roles, text] : k_cases)
    EXPECT_NE(refusal(cards, roles).find(text), std::string::npos) << refusal(cards, roles);
  EXPECT_NE(refusal({}, {train_role()}).find("there are no cards"), std::string::npos);
  EXPECT_NE(refusal({{{0}, 9, 0}, {{0}, 9, 0}}, {}).find("described twice"), std::string::npos);
  EXPECT_NE(refusal({{{0}, 9, 9}}, {}).find("leaves nothing"), std::string::npos);
}

TEST(Placement, HugeBytesDoNotWrapAround) {
  EXPECT_NE(refusal(make_cards(1, 1000, 0),
                    {make_role("actor_train", 0, 1, test::k_train_objects, uint64_t{1} << 63)})
                .find("cannot hold"),
            std::string::npos);
}

TEST(Placement, EveryOverlappingPairIsNamed) {  // PLACE-1
  std::string text = refusal(
      make_cards(4, 1000, 0),
      {train_role(0, 3), infer_role(2, 2), make_role("reference", 0, 1, {Object::ref_params}, 1)});
  EXPECT_NE(text.find("actor_train [0, 1, 2] and actor_infer [2, 3] share card [2], actor_train "
                      "[0, 1, 2] and reference [0] share card [0] (PLACE-1)"),
            std::string::npos)
      << text;
}

TEST(Placement, TheRemedyOfAnOverlapWorks) {
  auto plan = plan_placement(PlacementMode::timeshare, make_cards(4, 300, 0),
                             {train_role(0, 3), infer_role(1, 3)});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->find("actor_infer")->shared_cards, (std::vector<CardId>{{1}, {2}}));
}

TEST(Placement, RolesWithoutCardObjectsNeedNoCards) {
  EXPECT_EQ(refusal(make_cards(1, 300, 0), {train_role(), {"rewards", {}, {}}}), "accepted");
}

}  // namespace
}  // namespace cohort::plan::plan_placement_test
