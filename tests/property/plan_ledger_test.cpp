/// The ledger against a naive model: random transitions, repeats, aborts and measurements in both
/// modes, PLACE-1, 2, 3 after every call; the version table against PLACE-5.
#include <gtest/gtest.h>

#include <set>

#include "runtime/plan/place/ledger.hpp"
#include "runtime/plan/place/version_table.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_ledger_test {
namespace {

Transition random_transition(Rng& rng) {
  const char* const k_roles[] = {"a", "b"};
  return {k_roles[rng.below(2)],
          {static_cast<uint32_t>(rng.below(2))},
          k_objects[rng.below(k_objects.size())],
          static_cast<Place>(rng.below(3)),
          rng.below(60)};
}

void one_ledger_run(Rng& rng, PlacementMode mode) {
  Ledger ledger{mode, test::make_cards(2, 100, rng.below(20))};
  std::vector<Transition> begun;
  for (int i = 0; i < 200; ++i) {
    switch (rng.below(4)) {
      case 0:
      case 1: {
        Transition x = random_transition(rng);
        bool is_allowed = ledger.plan_transition(x).has_value();
        ASSERT_EQ(ledger.begin(x).has_value(), is_allowed);
        if (is_allowed) begun.push_back(x);
        break;
      }
      case 2:  // an acknowledgement, perhaps repeated, perhaps with other bytes than predicted
        if (!begun.empty()) {
          const Transition& x = begun[rng.below(begun.size())];
          uint64_t bytes = x.to == Place::card ? x.bytes + rng.below(5) : 0;
          if (!ledger.commit(x, bytes)) static_cast<void>(ledger.abort(x));
        }
        break;
      default:
        static_cast<void>(ledger.begin_phase(k_phases[rng.below(k_phases.size())]));
    }
    ledger.assert_invariants();
    for (uint32_t card : {0u, 1u}) {
      ASSERT_LE(ledger.bytes_on({card}), ledger.peak_bytes_on({card}));
    }
  }
}

TEST(LedgerProperty, RandomTrafficKeepsTheRulesInBothModes) {  // PLACE-1, PLACE-2, PLACE-3
  Rng rng{test::property_seed(7)};
  for (int round = 0; round < 200; ++round) {
    one_ledger_run(rng, PlacementMode::separate);
    one_ledger_run(rng, PlacementMode::timeshare);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
}

TEST(LedgerProperty, InterleavedTransitionsOfTwoRolesNeverExceedTheCard) {  // PLACE-2, exhaustive
  // Two onloads of every size pair on a card of 10, in every order of begin and commit.
  for (uint64_t a = 0; a <= 11; ++a)
    for (uint64_t b = 0; b <= 11; ++b)
      for (int order = 0; order < 4; ++order) {
        Ledger ledger{PlacementMode::separate, test::make_cards(1, 12, 2)};
        Transition x{"a", {0}, Object::grads, Place::card, a};
        Transition y{"b", {0}, Object::optimizer, Place::card, b};
        bool has_x = ledger.begin(x).has_value();
        ASSERT_EQ(has_x, a <= 10);
        if (order & 1 && has_x) {
          ASSERT_TRUE(ledger.commit(x, a));
        }
        bool has_y = ledger.begin(y).has_value();
        ASSERT_EQ(has_y, (has_x ? a : 0) + b <= 10);
        ledger.assert_invariants();
        if (order & 2 && has_y) {
          ASSERT_TRUE(ledger.commit(y, b));
        }
        ASSERT_EQ(ledger.bytes_on({0}), (has_x ? a : 0) + (has_y ? b : 0));
      }
}

TEST(VersionTableProperty, ServableMeansAllShardsAcknowledged) {  // PLACE-5
  Rng rng{test::property_seed(11)};
  for (int round = 0; round < 100; ++round) {
    VersionTable table;
    std::map<uint64_t, std::set<std::pair<uint32_t, uint32_t>>> acked;
    uint64_t newest = 0;
    auto cards = static_cast<uint32_t>(1 + rng.below(3));
    auto buckets = static_cast<uint32_t>(1 + rng.below(3));
    for (int i = 0; i < 200; ++i) {
      uint64_t version = newest + rng.below(2);
      auto card = static_cast<uint32_t>(rng.below(cards));
      auto bucket = static_cast<uint32_t>(rng.below(buckets));
      std::vector<Shard> shards;
      for (uint32_t c = 0; c < cards; ++c)
        for (uint32_t b = 0; b < buckets; ++b) shards.push_back({{c}, b, version * 100 + b});
      uint64_t pick = rng.below(10);
      if (pick == 0) {
        if (table.begin({version}, shards)) newest = version;
      } else if (pick == 1 && rng.below(4) == 0) {
        table.abandon();
      } else {
        bool is_right = rng.below(5) > 0;
        if (table.ack({version}, {{card}, bucket, version * 100 + bucket + (is_right ? 0 : 1)})) {
          ASSERT_TRUE(is_right);
          acked[version].insert({card, bucket});
        }
      }
      table.assert_invariants();
      if (auto servable = table.servable()) {
        ASSERT_EQ(acked[servable->value].size(), size_t{cards} * buckets) << "PLACE-5";
      }
    }
  }
}

}  // namespace
}  // namespace cohort::plan::plan_ledger_test
