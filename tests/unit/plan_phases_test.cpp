#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/place/phases.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::plan::plan_phases_test {
namespace {

using test::make_role;

class Phases : public testing::Test {
 protected:
  void given_roles(bool has_reference) {
    std::vector<RoleSpec> roles = {make_role("actor_train", 0, 1, test::k_train_objects, 100),
                                   make_role("actor_infer", 1, 1, test::k_infer_objects, 100)};
    if (has_reference) roles.push_back(make_role("reference", 1, 1, {Object::ref_params}, 100));
    auto cards = test::make_cards(2, 300, 0);
    plan_ = plan_placement(PlacementMode::separate, cards, roles).value();
    ledger_ = Ledger{PlacementMode::separate, cards};
  }
  /// Executes the commands of a phase and returns their texts.
  std::vector<std::string> run(PhaseKind phase, OffloadPolicy policy = OffloadPolicy::step) {
    std::vector<std::string> texts;
    auto commands = commands_for(plan_, ledger_, phase, policy).value();
    for (const Command& command : commands) {
      texts.push_back(to_text(command));
      if (auto move = transition_of(command)) {
        ledger_.begin(*move).value();
        ledger_.commit(*move, command.bytes).value();
      } else if (command.verb == Command::Verb::begin_phase) {
        ledger_.begin_phase(phase).value();
      }
    }
    return texts;
  }
  using Texts = std::vector<std::string>;
  PlacementPlan plan_;
  Ledger ledger_;
};

TEST_F(Phases, OneStepUnderPolicyStep) {
  given_roles(true);
  EXPECT_EQ(run(PhaseKind::init), (Texts{"offload actor_train.optimizer on card 0 to host",
                                         "offload actor_train.train_params on card 0 to host",
                                         "begin_phase init actor_train on card 0",
                                         "begin_phase init actor_infer on card 1",
                                         "begin_phase init reference on card 1"}));
  EXPECT_EQ(
      run(PhaseKind::publish),
      (Texts{"begin_phase publish actor_train on card 0",
             "begin_phase publish actor_infer on card 1", "begin_phase publish reference on card 1",
             "onload actor_train.train_params on card 0 (100 bytes)",
             "onload actor_infer.infer_params on card 1 (100 bytes)",
             "onload reference.ref_params on card 1 (100 bytes)",
             "reshard actor_infer.infer_params on card 1 (100 bytes)",
             "reshard reference.ref_params on card 1 (100 bytes)"}));
  EXPECT_EQ(run(PhaseKind::generate),
            (Texts{"offload actor_train.train_params on card 0 to host",
                   "init_cache actor_infer.kv_cache on card 1 (100 bytes)",
                   "begin_phase generate actor_infer on card 1",
                   "begin_phase generate reference on card 1"}));
  EXPECT_EQ(run(PhaseKind::update), (Texts{"free_cache actor_infer.kv_cache on card 1 to absent",
                                           "onload actor_train.train_params on card 0 (100 bytes)",
                                           "onload actor_train.optimizer on card 0 (100 bytes)",
                                           "onload actor_train.grads on card 0 (100 bytes)",
                                           "begin_phase update actor_train on card 0"}));
  EXPECT_EQ(run(PhaseKind::publish),
            (Texts{"begin_phase publish actor_train on card 0",
                   "begin_phase publish actor_infer on card 1",
                   "reshard actor_infer.infer_params on card 1 (100 bytes)"}));
  EXPECT_EQ(run(PhaseKind::checkpoint), (Texts{"begin_phase checkpoint actor_train on card 0"}));
}

TEST_F(Phases, AReferenceWithItsOwnWeightsIsNeverFilled) {
  given_roles(true);
  plan_.roles.back().has_own_weights = true;
  const Texts init = run(PhaseKind::init);
  EXPECT_EQ(std::ranges::count(init, "offload reference.ref_params on card 1 to host"), 1);
  EXPECT_EQ(run(PhaseKind::publish),
            (Texts{"begin_phase publish actor_train on card 0",
                   "begin_phase publish actor_infer on card 1",
                   "onload actor_train.train_params on card 0 (100 bytes)",
                   "onload actor_infer.infer_params on card 1 (100 bytes)",
                   "onload reference.ref_params on card 1 (100 bytes)",
                   "reshard actor_infer.infer_params on card 1 (100 bytes)"}));
  const Texts generate = run(PhaseKind::generate);
  EXPECT_EQ(std::ranges::count(generate, "begin_phase generate reference on card 1"), 1);
}

TEST_F(Phases, EvaluateAfterPublishFreesTheTrainCard) {
  given_roles(false);
  run(PhaseKind::init);
  run(PhaseKind::update);
  run(PhaseKind::publish);
  EXPECT_EQ(run(PhaseKind::evaluate),
            (Texts{"offload actor_train.grads on card 0 to absent",
                   "offload actor_train.optimizer on card 0 to host",
                   "offload actor_train.train_params on card 0 to host",
                   "init_cache actor_infer.kv_cache on card 1 (100 bytes)",
                   "begin_phase evaluate actor_infer on card 1"}));
  EXPECT_EQ(ledger_.bytes_on({0}), 0u);
}

TEST_F(Phases, PolicyNeverMovesOnlyOnce) {
  given_roles(true);
  for (PhaseKind phase :
       {PhaseKind::init, PhaseKind::update, PhaseKind::publish, PhaseKind::generate})
    run(phase, OffloadPolicy::never);
  EXPECT_EQ(ledger_.bytes_on({0}), 300u);
  EXPECT_EQ(ledger_.bytes_on({1}), 300u);
  for (PhaseKind phase : k_phases)
    for (const std::string& text : run(phase, OffloadPolicy::never))
      EXPECT_TRUE(text.starts_with("begin_phase") || text.starts_with("reshard")) << text;
}

TEST_F(Phases, OrderOfPhasesIsChecked) {
  given_roles(false);
  for (PhaseKind phase : {PhaseKind::publish, PhaseKind::update, PhaseKind::checkpoint,
                          PhaseKind::generate, PhaseKind::evaluate, PhaseKind::reference}) {
    auto refused = commands_for(plan_, ledger_, phase, OffloadPolicy::step);
    ASSERT_FALSE(refused) << to_string(phase);
    EXPECT_EQ(refused.error().code, Errc::protocol);
  }
  run(PhaseKind::init);
  EXPECT_EQ(commands_for(plan_, ledger_, PhaseKind::generate, OffloadPolicy::step).error().detail,
            "phases: phase generate needs actor_infer.infer_params, absent from card 1; phase "
            "publish comes first");
}

TEST_F(Phases, ComputeNeedsEveryObjectOnItsCard) {  // PLACE-4
  given_roles(false);
  auto check = [&](const char* role, PhaseKind phase) {
    auto result = check_compute(plan_, ledger_, role, phase);
    return result ? Errc::none : result.error().code;
  };
  run(PhaseKind::init);
  EXPECT_EQ(check("actor_train", PhaseKind::update), Errc::placement);
  run(PhaseKind::update);
  EXPECT_EQ(check("actor_train", PhaseKind::update), Errc::none);
  EXPECT_EQ(check("actor_train", PhaseKind::publish), Errc::placement);
  EXPECT_EQ(check("actor_infer", PhaseKind::update), Errc::invalid_argument);
  EXPECT_EQ(check("nobody", PhaseKind::update), Errc::not_found);
  Transition leaving{"actor_train", {0}, Object::grads, Place::absent, 0};
  ledger_.begin(leaving).value();
  auto refused = check_compute(plan_, ledger_, "actor_train", PhaseKind::update);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "PLACE-4: actor_train may not compute in phase update: grads on card 0 is moving");
}

TEST_F(Phases, NothingIsPlannedWhileATransitionIsInFlight) {
  given_roles(false);
  ledger_.begin({"actor_train", {0}, Object::grads, Place::card, 100}).value();
  EXPECT_EQ(commands_for(plan_, ledger_, PhaseKind::init, OffloadPolicy::step).error().code,
            Errc::protocol);
}

}  // namespace
}  // namespace cohort::plan::plan_phases_test
