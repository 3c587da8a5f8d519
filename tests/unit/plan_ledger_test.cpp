#include <gtest/gtest.h>

#include "runtime/plan/place/ledger.hpp"
#include "runtime/plan/place/version_table.hpp"

namespace cohort::plan::plan_ledger_test {
namespace {

const std::vector<CardSpec> k_cards = {{{0}, 1000, 100}, {{1}, 1000, 0}};

Transition onload(const char* role, uint32_t card, Object object, uint64_t bytes) {
  return {role, {card}, object, Place::card, bytes};
}
Transition offload(const char* role, uint32_t card, Object object) {
  return {role, {card}, object, Place::host, 0};
}

void move(Ledger& ledger, const Transition& x) {
  ASSERT_TRUE(ledger.begin(x)) << ledger.begin(x).error().to_string();
  ASSERT_TRUE(ledger.commit(x, x.to == Place::card ? x.bytes : 0));
  ledger.assert_invariants();
}

TEST(Ledger, SeparateModeRefusesBothClassesOnOneCard) {  // PLACE-1
  Ledger ledger{PlacementMode::separate, k_cards};
  move(ledger, onload("actor_train", 0, Object::optimizer, 10));
  auto refused = ledger.begin(onload("reference", 0, Object::ref_params, 10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::placement);
  EXPECT_EQ(refused.error().detail,
            "PLACE-1: reference.ref_params on card 0 would join actor_train.optimizer: in separate "
            "mode train-class and infer-class objects never share a card");
  EXPECT_TRUE(ledger.begin(onload("reference", 1, Object::ref_params, 10)));
}

TEST(Ledger, LeavingObjectBlocksTheOtherClassUntilAcknowledged) {  // PLACE-1
  Ledger ledger{PlacementMode::separate, k_cards};
  move(ledger, onload("actor_train", 0, Object::grads, 10));
  Transition leaving = offload("actor_train", 0, Object::grads);
  ASSERT_TRUE(ledger.begin(leaving));
  EXPECT_FALSE(ledger.plan_transition(onload("reference", 0, Object::ref_params, 10)));
  ASSERT_TRUE(ledger.commit(leaving, 0));
  EXPECT_TRUE(ledger.plan_transition(onload("reference", 0, Object::ref_params, 10)));
}

TEST(Ledger, RefusesBytesOverTheBudgetReserveIncluded) {  // PLACE-2
  Ledger ledger{PlacementMode::separate, k_cards};
  move(ledger, onload("actor_train", 0, Object::train_params, 500));
  EXPECT_TRUE(ledger.plan_transition(onload("actor_train", 0, Object::grads, 400)));
  auto refused = ledger.plan_transition(onload("actor_train", 0, Object::grads, 401));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::capacity);
  EXPECT_EQ(refused.error().detail,
            "PLACE-2: actor_train.grads on card 0: 401 bytes + 500 already there > 900 (capacity "
            "1,000 - reserve 100)");
}

TEST(Ledger, BytesInFlightCountBeforeAndAfter) {  // PLACE-2
  Ledger ledger{PlacementMode::separate, k_cards};
  ASSERT_TRUE(ledger.begin(onload("actor_train", 0, Object::train_params, 600)));
  EXPECT_EQ(ledger.bytes_on({0}), 600u);
  EXPECT_FALSE(ledger.begin(onload("actor_train", 0, Object::optimizer, 600)));
  ASSERT_TRUE(ledger.commit(onload("actor_train", 0, Object::train_params, 600), 550));
  EXPECT_EQ(ledger.bytes_on({0}), 550u);
  Transition leaving = offload("actor_train", 0, Object::train_params);
  ASSERT_TRUE(ledger.begin(leaving));
  EXPECT_EQ(ledger.bytes_on({0}), 550u);
  ASSERT_TRUE(ledger.commit(leaving, 0));
  EXPECT_EQ(ledger.bytes_on({0}), 0u);
  EXPECT_EQ(ledger.peak_bytes_on({0}), 600u);
}

TEST(Ledger, MeasurementOverTheBudgetIsAnErrorWithThePrediction) {  // PLACE-2
  Ledger ledger{PlacementMode::separate, k_cards};
  Transition x = onload("actor_train", 0, Object::train_params, 600);
  ASSERT_TRUE(ledger.begin(x));
  auto refused = ledger.commit(x, 901);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("measured, where 600 bytes were predicted"),
            std::string::npos);
  EXPECT_TRUE(ledger.has_in_flight());
}

TEST(Ledger, OffloadThatLeavesBytesBehindIsAnError) {  // PLACE-2
  Ledger ledger{PlacementMode::separate, k_cards};
  move(ledger, onload("actor_train", 0, Object::train_params, 600));
  Transition leaving = offload("actor_train", 0, Object::train_params);
  ASSERT_TRUE(ledger.begin(leaving));
  EXPECT_EQ(ledger.commit(leaving, 1).error().code, Errc::capacity);
}

TEST(Ledger, RepeatedMessagesChangeNothing) {
  Ledger ledger{PlacementMode::separate, k_cards};
  Transition x = onload("actor_train", 0, Object::train_params, 600);
  ASSERT_TRUE(ledger.begin(x));
  ASSERT_TRUE(ledger.begin(x));
  ASSERT_TRUE(ledger.commit(x, 600));
  EXPECT_TRUE(ledger.commit(x, 600));
  EXPECT_EQ(ledger.commit(offload("actor_train", 0, Object::train_params), 0).error().code,
            Errc::protocol);
  EXPECT_EQ(ledger.bytes_on({0}), 600u);
}

TEST(Ledger, AbortRestoresAndUnknownCardsAreRefused) {
  Ledger ledger{PlacementMode::separate, k_cards};
  Transition x = onload("actor_train", 0, Object::train_params, 600);
  ASSERT_TRUE(ledger.begin(x));
  ASSERT_TRUE(ledger.abort(x));
  EXPECT_EQ(ledger.bytes_on({0}), 0u);
  EXPECT_EQ(ledger.abort(x).error().code, Errc::protocol);
  EXPECT_EQ(ledger.begin(onload("actor_train", 7, Object::grads, 1)).error().code, Errc::not_found);
}

TEST(Ledger, OppositeMoveWaitsForTheAcknowledgement) {
  Ledger ledger{PlacementMode::separate, k_cards};
  ASSERT_TRUE(ledger.begin(onload("actor_train", 0, Object::grads, 10)));
  EXPECT_EQ(ledger.begin(offload("actor_train", 0, Object::grads)).error().code, Errc::protocol);
  EXPECT_EQ(ledger.begin_phase(PhaseKind::update).error().code, Errc::protocol);
}

TEST(Ledger, TimeshareSharesParametersOnlyInPublish) {  // PLACE-3
  Ledger ledger{PlacementMode::timeshare, k_cards};
  move(ledger, onload("actor_train", 0, Object::train_params, 100));
  auto refused = ledger.begin(onload("actor_infer", 0, Object::infer_params, 100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::placement);
  ASSERT_TRUE(ledger.begin_phase(PhaseKind::publish));
  move(ledger, onload("actor_infer", 0, Object::infer_params, 100));
  EXPECT_EQ(ledger.begin_phase(PhaseKind::generate).error().code, Errc::placement);
  move(ledger, offload("actor_train", 0, Object::train_params));
  EXPECT_TRUE(ledger.begin_phase(PhaseKind::generate));
  ledger.assert_invariants();
}

TEST(VersionTable, ServesOnlyAfterEveryShardIsAcknowledged) {  // PLACE-5
  VersionTable table;
  std::vector<Shard> shards = {{{1}, 0, 11}, {{1}, 1, 12}, {{2}, 0, 11}};
  ASSERT_TRUE(table.begin({1}, shards));
  for (const Shard& shard : shards) {
    EXPECT_FALSE(table.is_servable({1}));
    ASSERT_TRUE(table.ack({1}, shard));
    ASSERT_TRUE(table.ack({1}, shard));
    table.assert_invariants();
  }
  EXPECT_TRUE(table.is_servable({1}));
}

TEST(VersionTable, WrongChecksumIsCorruptAndDoesNotCount) {  // PLACE-5
  VersionTable table;
  ASSERT_TRUE(table.begin({1}, {{{1}, 0, 11}}));
  EXPECT_EQ(table.ack({1}, {{1}, 0, 99}).error().code, Errc::corrupt);
  EXPECT_FALSE(table.is_servable({1}));
  ASSERT_TRUE(table.ack({1}, {{1}, 0, 11}));
  EXPECT_TRUE(table.is_servable({1}));
}

TEST(VersionTable, OldVersionServesUntilTheNewOneIsComplete) {
  VersionTable table;
  ASSERT_TRUE(table.begin({0}, {{{1}, 0, 11}}));
  ASSERT_TRUE(table.ack({0}, {{1}, 0, 11}));
  ASSERT_TRUE(table.begin({1}, {{{1}, 0, 22}}));
  EXPECT_TRUE(table.is_servable({0}));
  EXPECT_TRUE(table.ack({0}, {{1}, 0, 11}));  // a late repeat
  ASSERT_TRUE(table.ack({1}, {{1}, 0, 22}));
  EXPECT_FALSE(table.is_servable({0}));
  EXPECT_TRUE(table.is_servable({1}));
  EXPECT_EQ(table.ack({0}, {{1}, 0, 11}).error().code, Errc::not_found);
}

TEST(VersionTable, VersionsGrowAndOneIsPublishedAtATime) {
  VersionTable table;
  EXPECT_EQ(table.begin({1}, {}).error().code, Errc::invalid_argument);
  EXPECT_EQ(table.begin({1}, {{{1}, 0, 1}, {{1}, 0, 1}}).error().code, Errc::invalid_argument);
  ASSERT_TRUE(table.begin({5}, {{{1}, 0, 1}}));
  EXPECT_EQ(table.begin({6}, {{{1}, 0, 1}}).error().code, Errc::protocol);
  table.abandon();
  EXPECT_EQ(table.begin({5}, {{{1}, 0, 1}}).error().code, Errc::invalid_argument);
  EXPECT_TRUE(table.begin({6}, {{{1}, 0, 1}}));
  table.assert_invariants();
}

TEST(Ledger, ForgetsWhatALostCardHeldAndWhatWasOnItsWay) {
  Ledger ledger{PlacementMode::separate, k_cards};
  move(ledger, onload("actor_infer", 1, Object::infer_params, 10));
  ASSERT_TRUE(ledger.begin(onload("actor_infer", 1, Object::kv_cache, 20)));
  move(ledger, onload("actor_train", 0, Object::grads, 30));
  ledger.forget({1});
  ledger.assert_invariants();
  EXPECT_FALSE(ledger.has_in_flight());
  EXPECT_EQ(ledger.bytes_on({1}), 0U);
  EXPECT_EQ(ledger.place_of("actor_infer", {1}, Object::infer_params), Place::absent);
  EXPECT_EQ(ledger.bytes_on({0}), 30U);
  move(ledger, onload("actor_infer", 1, Object::infer_params, 10));
}

TEST(VersionTable, RenewedItServesNothingUntilTheVersionIsPublishedAgain) {  // PLACE-5
  VersionTable table;
  const std::vector<Shard> shards = {{{1}, 0, 7}};
  ASSERT_TRUE(table.begin({4}, shards));
  ASSERT_TRUE(table.ack({4}, shards.front()));
  EXPECT_FALSE(table.begin({4}, shards));
  table.renew();
  table.assert_invariants();
  EXPECT_FALSE(table.is_servable({4}));
  ASSERT_TRUE(table.begin({4}, shards));
  EXPECT_FALSE(table.is_servable({4}));
  ASSERT_TRUE(table.ack({4}, shards.front()));
  EXPECT_TRUE(table.is_servable({4}));
  table.assert_invariants();
}

}  // namespace
}  // namespace cohort::plan::plan_ledger_test
