#include <gtest/gtest.h>

#include "runtime/plan/place/phases_table.hpp"
#include "tests/support/phases_schedule.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_timeshare_test {
namespace {

using test::make_cards;
using test::make_role;
using Texts = std::vector<std::string>;

RoleSpec train_role(uint32_t first, uint32_t count) {
  RoleSpec role = make_role("actor_train", first, count, test::k_train_objects, 0);
  role.bytes_per_card = {{Object::train_params, 4}, {Object::grads, 4}, {Object::optimizer, 8}};
  return role;
}
RoleSpec infer_role(uint32_t first, uint32_t count) {
  RoleSpec role = make_role("actor_infer", first, count, test::k_infer_objects, 0);
  role.bytes_per_card = {{Object::infer_params, 7}, {Object::kv_cache, 9}};
  return role;
}
RoleSpec reference_role(uint32_t first, uint32_t count) {
  return make_role("reference", first, count, {Object::ref_params}, 6);
}
PlacementPlan plan_of(std::vector<RoleSpec> roles, uint32_t cards, uint64_t budget) {
  return plan_placement(PlacementMode::timeshare, make_cards(cards, budget + 2, 2), roles).value();
}
/// The commands of every phase after init, as text.
std::vector<Texts> texts_of(const PlacementPlan& plan, uint64_t steps) {
  std::vector<Texts> phases;
  auto schedule = schedule_steps(plan, OffloadPolicy::step, steps).value();
  for (const PhaseSchedule& x : schedule) {
    Texts texts;
    for (const Command& command : x.commands) texts.push_back(to_text(command));
    if (x.phase != PhaseKind::init) phases.push_back(texts);
  }
  return phases;
}

TEST(Timeshare, StepFollowsTheOrderOfTheA3Recipe) {
  // Room for the optimizer beside both parameter sets: it stays through the reshard.
  auto plan = plan_of({train_role(0, 1), infer_role(0, 1), reference_role(0, 1)}, 1, 19);
  EXPECT_EQ(step_phases(plan), (std::vector{PhaseKind::publish, PhaseKind::generate,
                                            PhaseKind::reference, PhaseKind::update}));
  auto phases = texts_of(plan, 2);
  ASSERT_EQ(phases.size(), 8u);
  EXPECT_EQ(phases[0], (Texts{"begin_phase publish actor_train on card 0",
                              "begin_phase publish actor_infer on card 0",
                              "begin_phase publish reference on card 0",
                              "onload actor_train.train_params on card 0 (4 bytes)",
                              "onload reference.ref_params on card 0 (6 bytes)",
                              "reshard reference.ref_params on card 0 (6 bytes)",
                              "offload reference.ref_params on card 0 to host",
                              "onload actor_infer.infer_params on card 0 (7 bytes)",
                              "reshard actor_infer.infer_params on card 0 (7 bytes)"}));
  EXPECT_EQ(phases[2], (Texts{"free_cache actor_infer.kv_cache on card 0 to absent",
                              "offload actor_infer.infer_params on card 0 to host",
                              "onload reference.ref_params on card 0 (6 bytes)",
                              "begin_phase reference reference on card 0"}));
  EXPECT_EQ(phases[3], (Texts{"offload reference.ref_params on card 0 to host",
                              "onload actor_train.train_params on card 0 (4 bytes)",
                              "onload actor_train.optimizer on card 0 (8 bytes)",
                              "onload actor_train.grads on card 0 (4 bytes)",
                              "begin_phase update actor_train on card 0"}));
  EXPECT_EQ(phases[4], (Texts{"offload actor_train.grads on card 0 to absent",
                              "begin_phase publish actor_train on card 0",
                              "begin_phase publish actor_infer on card 0",
                              "onload actor_infer.infer_params on card 0 (7 bytes)",
                              "reshard actor_infer.infer_params on card 0 (7 bytes)"}));
  EXPECT_EQ(phases[5], (Texts{"offload actor_train.optimizer on card 0 to host",
                              "offload actor_train.train_params on card 0 to host",
                              "init_cache actor_infer.kv_cache on card 0 (9 bytes)",
                              "begin_phase generate actor_infer on card 0"}));
}

TEST(Timeshare, AnEarlyCacheRaisesThePeakByWhatLateSaves) {
  const std::vector<RoleSpec> roles = {train_role(0, 1), infer_role(0, 1), reference_role(0, 1)};
  auto peak_of = [&](CacheArrival cache, uint64_t budget) {
    auto plan =
        plan_placement(PlacementMode::timeshare, make_cards(1, budget, 0), roles, cache).value();
    uint64_t planned = 0, scheduled = 0;
    for (const PhaseBytes& x : plan.peak_bytes) planned = std::max(planned, x.bytes);
    const auto schedule = schedule_steps(plan, OffloadPolicy::step, 3).value();
    for (const PhaseSchedule& x : schedule)
      for (const PhaseBytes& y : x.peaks) scheduled = std::max(scheduled, y.bytes);
    EXPECT_EQ(scheduled, planned);
    return planned;
  };
  EXPECT_EQ(peak_of(CacheArrival::late, 20), 19u);   // publish: 4 + 8 + 7, generate: 7 + 9
  EXPECT_EQ(peak_of(CacheArrival::early, 20), 20u);  // publish: 4 + 7 + 9; no room for the 8
  EXPECT_EQ(peak_of(CacheArrival::early, 28), 28u);  // with it
  auto refused =
      plan_placement(PlacementMode::timeshare, make_cards(1, 19, 0), roles, CacheArrival::early);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("in phase publish: train_params 4 + infer_params 7 + "
                                        "kv_cache 9 = 20 bytes > 19"),
            std::string::npos)
      << refused.error().detail;
}

TEST(Timeshare, AnEarlyCacheComesAfterTheWeightsAndStays) {
  auto plan = plan_placement(PlacementMode::timeshare, make_cards(1, 28, 0),
                             {train_role(0, 1), infer_role(0, 1), reference_role(0, 1)},
                             CacheArrival::early)
                  .value();
  auto phases = texts_of(plan, 2);
  EXPECT_EQ(phases[0], (Texts{"begin_phase publish actor_train on card 0",
                              "begin_phase publish actor_infer on card 0",
                              "begin_phase publish reference on card 0",
                              "onload actor_train.train_params on card 0 (4 bytes)",
                              "onload reference.ref_params on card 0 (6 bytes)",
                              "reshard reference.ref_params on card 0 (6 bytes)",
                              "offload reference.ref_params on card 0 to host",
                              "onload actor_infer.infer_params on card 0 (7 bytes)",
                              "init_cache actor_infer.kv_cache on card 0 (9 bytes)",
                              "reshard actor_infer.infer_params on card 0 (7 bytes)"}));
  EXPECT_EQ(phases[5], (Texts{"offload actor_train.optimizer on card 0 to host",
                              "offload actor_train.train_params on card 0 to host",
                              "begin_phase generate actor_infer on card 0"}));
}

TEST(Timeshare, OptimizerLeavesBeforeTheReshardOnATightCard) {  // PLACE-2
  auto phases = texts_of(plan_of({train_role(0, 1), infer_role(0, 1)}, 1, 18), 2);
  EXPECT_EQ(phases[3][1], "offload actor_train.optimizer on card 0 to host");
  EXPECT_EQ(phases[3][2], "begin_phase publish actor_train on card 0");
}

TEST(Timeshare, PeaksAreThoseOfThePhasesNotTheSumOfAll) {  // PLACE-2
  std::vector<RoleSpec> roles = {train_role(0, 1), infer_role(0, 1), reference_role(0, 1)};
  auto plan = plan_of(roles, 1, 16);  // all objects together: 38
  std::vector<std::pair<PhaseKind, uint64_t>> peaks;
  for (const PhaseBytes& x : plan.peak_bytes) peaks.emplace_back(x.phase, x.bytes);
  EXPECT_EQ(peaks, (std::vector<std::pair<PhaseKind, uint64_t>>{{PhaseKind::publish, 11},
                                                                {PhaseKind::generate, 16},
                                                                {PhaseKind::reference, 6},
                                                                {PhaseKind::update, 16}}));
  EXPECT_EQ(plan.peak_bytes[1].objects,
            (std::vector<HeldObject>{{"actor_infer", Object::infer_params, 7},
                                     {"actor_infer", Object::kv_cache, 9}}));
  auto refused = plan_placement(PlacementMode::timeshare, make_cards(1, 17, 2), roles);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().detail,
      "placement: card 0 cannot hold actor_infer in phase generate: infer_params 7 + kv_cache "
      "9 = 16 bytes > 15 (capacity 17 - reserve 2); raise cards.memory_bytes to at least 18, "
      "or lower actor_infer's kv_cache to at most 8 bytes");
  EXPECT_EQ(
      lay_out(PlacementMode::timeshare, make_cards(1, 17, 2), roles).value().peak_bytes.size(), 4u);
}

TEST(Timeshare, OnlySharedCardsTakeTurns) {  // train on 0 and 1, infer on 1 and 2
  auto plan = plan_of({train_role(0, 2), infer_role(1, 2), reference_role(2, 1)}, 3, 22);
  EXPECT_EQ(plan.find("actor_train")->shared_cards, (std::vector<CardId>{{1}}));
  EXPECT_EQ(plan.find("reference")->shared_cards, std::vector<CardId>{});
  // The reference has no turn of its own: it computes beside generation, as in separate mode.
  EXPECT_EQ(step_phases(plan),
            (std::vector{PhaseKind::publish, PhaseKind::generate, PhaseKind::update}));
  EXPECT_EQ(required_objects(*plan.find("reference"), PhaseKind::generate),
            std::vector{Object::ref_params});
  auto phases = texts_of(plan, 2);
  EXPECT_EQ(phases[2], (Texts{"free_cache actor_infer.kv_cache on card 1 to absent",
                              "free_cache actor_infer.kv_cache on card 2 to absent",
                              "offload actor_infer.infer_params on card 1 to host",
                              "onload actor_train.train_params on card 0 (4 bytes)",
                              "onload actor_train.train_params on card 1 (4 bytes)",
                              "onload actor_train.optimizer on card 0 (8 bytes)",
                              "onload actor_train.optimizer on card 1 (8 bytes)",
                              "onload actor_train.grads on card 0 (4 bytes)",
                              "onload actor_train.grads on card 1 (4 bytes)",
                              "begin_phase update actor_train on card 0",
                              "begin_phase update actor_train on card 1"}));
}

TEST(Timeshare, ReferenceOnTrainCardsHasItsOwnTurn) {
  auto plan = plan_of({train_role(0, 1), infer_role(1, 1), reference_role(0, 1)}, 2, 16);
  EXPECT_EQ(step_phases(plan)[2], PhaseKind::reference);
  EXPECT_TRUE(required_objects(*plan.find("reference"), PhaseKind::generate).empty());
  auto phases = texts_of(plan, 1);
  EXPECT_EQ(phases[2], (Texts{"free_cache actor_infer.kv_cache on card 1 to absent",
                              "onload reference.ref_params on card 0 (6 bytes)",
                              "begin_phase reference reference on card 0"}));
}

TEST(Timeshare, WithoutAReferenceThereIsNoPhaseForIt) {
  auto plan = plan_of({train_role(0, 1), infer_role(0, 1)}, 1, 19);
  EXPECT_EQ(step_phases(plan),
            (std::vector{PhaseKind::publish, PhaseKind::generate, PhaseKind::update}));
}

TEST(Timeshare, SwappedOptimizerNeedsOnlyItsWindow) {
  RoleSpec train = train_role(0, 1);
  train.is_optimizer_swapped = true;
  train.bytes_per_card[Object::optimizer] = 1;
  auto plan = plan_of({train, infer_role(0, 1)}, 1, 30);  // room enough: the window leaves anyhow
  auto phases = texts_of(plan, 2);
  EXPECT_EQ(phases[2][3], "onload actor_train.optimizer on card 0 (1 bytes)");
  EXPECT_EQ(phases[3][1], "offload actor_train.optimizer on card 0 to host");
  EXPECT_EQ(plan.peak_bytes[0].bytes, 11u);
  EXPECT_EQ(
      engine_notes(plan, false).back(),
      "actor_train: master weights and moments stay on the host, streamed through 1 bytes per "
      "card in update");
}

TEST(Timeshare, CheckpointAfterPublishMakesTrainParamsLeave) {  // PLACE-3
  auto plan = plan_of({train_role(0, 1), infer_role(0, 1)}, 1, 19);
  Ledger ledger{plan.mode, plan.cards};
  for (PhaseKind phase : {PhaseKind::init, PhaseKind::update, PhaseKind::publish}) {
    auto list = commands_for(plan, ledger, phase, OffloadPolicy::step).value();
    for (const Command& x : list) {
      if (auto move = transition_of(x)) {
        ASSERT_TRUE(ledger.begin(*move));
        ASSERT_TRUE(ledger.commit(*move, x.bytes));
      } else if (x.verb == Command::Verb::begin_phase) {
        ASSERT_TRUE(ledger.begin_phase(phase));
      }
    }
  }
  auto commands = commands_for(plan, ledger, PhaseKind::checkpoint, OffloadPolicy::step).value();
  EXPECT_EQ(to_text(commands.front()), "offload actor_train.train_params on card 0 to host");
}

TEST(Timeshare, PolicyNeverIsRefusedWhereRolesTakeTurns) {
  auto plan = plan_of({train_role(0, 2), infer_role(1, 1)}, 2, 19);
  auto refused = check_policy(plan, OffloadPolicy::never);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "phases: offload policy never keeps every object on its card, but actor_train and "
            "actor_infer take turns on cards [1]; say placement.offload=step");
  Ledger ledger{plan.mode, plan.cards};
  EXPECT_EQ(commands_for(plan, ledger, PhaseKind::init, OffloadPolicy::never).error().code,
            Errc::placement);
  EXPECT_TRUE(
      check_policy(plan_of({train_role(0, 1), infer_role(1, 1)}, 2, 19), OffloadPolicy::never));
}

TEST(Timeshare, NotesSayWhatTheEnginesMustDo) {
  auto plan = plan_of({train_role(0, 1), infer_role(0, 1)}, 1, 19);
  Texts cpu = engine_notes(plan, false), npu = engine_notes(plan, true);
  ASSERT_EQ(cpu.size(), 3u);
  EXPECT_EQ(cpu[0], "actor_train and actor_infer take turns on cards [0]");
  ASSERT_EQ(npu.size(), 5u);
  EXPECT_NE(npu[1].find("outside the engine's own memory pool"), std::string::npos);
  EXPECT_NE(npu[3].find("sleep mode off"), std::string::npos);
  auto separate = plan_placement(PlacementMode::separate, make_cards(2, 30, 0),
                                 {train_role(0, 1), infer_role(1, 1)})
                      .value();
  EXPECT_TRUE(engine_notes(separate, true).empty());
}

TEST(Timeshare, RoleOfBothClassesIsRefused) {
  RoleSpec both{"worker", {{0}}, {{Object::train_params, 1}, {Object::infer_params, 1}}};
  auto refused = plan_placement(PlacementMode::timeshare, make_cards(1, 9, 0), {both});
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().detail,
      "placement: worker holds train-class and infer-class objects itself; make it two roles");
}

TEST(Timeshare, ScheduleNeverExceedsThePeaksOfThePlan) {  // PLACE-2
  auto plan = plan_of({train_role(0, 2), infer_role(1, 2), reference_role(1, 1)}, 3, 22);
  auto schedule = schedule_steps(plan, OffloadPolicy::step, 3).value();
  ASSERT_EQ(schedule.size(), 1u + 3 * 4);
  for (const PhaseSchedule& x : schedule)
    for (const PhaseBytes& peak : x.peaks) {
      uint64_t planned = 0;
      for (const PhaseBytes& y : plan.peak_bytes)
        if (y.card == peak.card) planned = std::max(planned, y.bytes);
      EXPECT_LE(peak.bytes, planned) << to_string(x.phase) << " card " << peak.card.value;
    }
  // Card 1 in the second publish: the optimizer stays, the reference is on the host.
  EXPECT_EQ(schedule[5].peaks[1].bytes, 19u);
  EXPECT_EQ(schedule[5].held[1].objects,
            (std::vector<HeldObject>{{"actor_train", Object::train_params, 4},
                                     {"actor_train", Object::optimizer, 8},
                                     {"actor_infer", Object::infer_params, 7}}));
  EXPECT_EQ(schedule_steps(lay_out(PlacementMode::timeshare, make_cards(1, 9, 0),
                                   {train_role(0, 1), infer_role(0, 1)})
                               .value(),
                           OffloadPolicy::step, 1)
                .error()
                .code,
            Errc::capacity);
}

TEST(Timeshare, CommandsAreCheckedBeforeTheyAreSent) {  // PLACE-4
  auto plan = plan_of({train_role(0, 1), infer_role(0, 1)}, 1, 19);
  Ledger ledger{plan.mode, plan.cards};
  ASSERT_TRUE(ledger.begin_phase(PhaseKind::publish));
  Command reshard{Command::Verb::reshard,
                  PhaseKind::publish,
                  "actor_infer",
                  {0},
                  Object::infer_params,
                  Place::card,
                  7};
  EXPECT_EQ(check_command(plan, ledger, reshard).error().detail,
            "PLACE-4: reshard actor_infer.infer_params on card 0 (7 bytes): infer_params on card 0 "
            "is absent");
  ASSERT_TRUE(ledger.begin({"actor_infer", {0}, Object::infer_params, Place::card, 7}));
  EXPECT_NE(check_command(plan, ledger, reshard).error().detail.find("is moving"),
            std::string::npos);
  ASSERT_TRUE(ledger.commit({"actor_infer", {0}, Object::infer_params, Place::card, 7}, 7));
  EXPECT_NE(check_command(plan, ledger, reshard).error().detail.find("actor_train may not compute"),
            std::string::npos);
  ASSERT_TRUE(ledger.begin({"actor_train", {0}, Object::train_params, Place::card, 4}));
  ASSERT_TRUE(ledger.commit({"actor_train", {0}, Object::train_params, Place::card, 4}, 4));
  EXPECT_TRUE(check_command(plan, ledger, reshard));
}

}  // namespace
}  // namespace cohort::plan::plan_timeshare_test
