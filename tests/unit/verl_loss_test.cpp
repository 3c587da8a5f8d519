// verl's policy losses and rollout correction, as a run takes them.
#include <gtest/gtest.h>

#include "runtime/config/roll/not_built.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config::verl_loss_test {
namespace {

using test::quickstart;

RunConfig loaded(const std::vector<std::string>& args) {
  auto run = load_verl(args);
  EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  return run ? *run : RunConfig{};
}

TEST(VerlLoss, LossModesAndTheirNumbersRun) {
  const std::string actor = "actor_rollout_ref.actor.";
  const RunConfig dro =
      loaded(quickstart({actor + "policy_loss.loss_mode=dro", actor + "policy_loss.dro_beta=0.4"}));
  EXPECT_EQ(dro.actor_train.pg_variant, PolicyLossKind::kimi15) << "one formula, two names";
  EXPECT_EQ(dro.policy_loss.quadratic_coef, 0.4);
  EXPECT_FALSE(dro.dual_clip_loss);
  const RunConfig cov = loaded(quickstart(
      {actor + "policy_loss.loss_mode=clip_cov", actor + "policy_loss.clip_cov_ratio=0.01"}));
  EXPECT_EQ(cov.actor_train.pg_variant, PolicyLossKind::clip_cov);
  EXPECT_EQ(cov.policy_loss.clip_cov_ratio, 0.01);
  EXPECT_TRUE(not_built(cov).empty());
  EXPECT_EQ(loaded(quickstart()).actor_train.pg_variant, PolicyLossKind::ppo);
  const auto missing = load_verl(quickstart({actor + "policy_loss.loss_mode=dro"}));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().detail.find("dro_beta: dro needs a number above 0"), std::string::npos);
}

TEST(VerlLoss, RolloutCorrectionBecomesRules) {
  const std::string key = "algorithm.rollout_correction.";
  const RunConfig token = loaded(quickstart(
      {key + "rollout_is=token", key + "rollout_is_threshold=0.5_5.0",
       key + "rollout_is_batch_normalize=True", key + "rollout_rs=\"token_k1,seq_mean_k3\"",
       key + "rollout_rs_threshold=\"0.6_1.6,0.06\""}));
  const catalog::Correction& rules = token.train_infer_correction.rules;
  EXPECT_TRUE(rules.is_weighted && rules.is_normalized);
  EXPECT_EQ(rules.bound, catalog::CorrectionBound::mask);
  EXPECT_EQ(rules.low, 0.5);
  EXPECT_EQ(rules.high, 5);
  ASSERT_EQ(rules.rejections.size(), 2U);
  EXPECT_EQ(rules.rejections[1].name(), "seq_mean_k3");
  EXPECT_EQ(token.derived.old_log_probs, OldLogProbs::recomputed);
  EXPECT_TRUE(not_built(token).empty());
  const RunConfig bypass =
      loaded(quickstart({key + "bypass_mode=True", key + "loss_type=reinforce",
                         key + "rollout_is=sequence", key + "rollout_is_threshold=3"}));
  EXPECT_EQ(bypass.actor_train.pg_variant, PolicyLossKind::bypass_mode);
  EXPECT_EQ(bypass.derived.old_log_probs, OldLogProbs::behavior);
  EXPECT_EQ(bypass.train_infer_correction.rules.high, 3);
}

TEST(VerlLoss, ABadCorrectionIsNamed) {
  const std::string key = "algorithm.rollout_correction.";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{key + "rollout_rs=token_k4", key + "rollout_rs_threshold=1"}, "'token_k4' is not a"},
      {{key + "rollout_rs=seq_max_k1", key + "rollout_rs_threshold=1"}, "'seq_max_k1' is not a"},
      {{key + "rollout_rs=token_k1"}, "needs thresholds"},
      {{key + "rollout_rs=\"token_k1,token_k2\"", key + "rollout_rs_threshold=\"1,2,3\""},
       "3 thresholds for 2 rejections"},
      {{key + "rollout_rs=token_k2", key + "rollout_rs_threshold=0.5_2"},
       "'0.5_2' is no threshold"},
      {{key + "rollout_is=token", key + "rollout_is_threshold=5_0.5"}, "'5_0.5' is no bound"},
      {{key + "loss_type=other"}, "expected one of ppo_clip, reinforce"},
      {{"actor_rollout_ref.actor.policy_loss.loss_mode=bypass_mode"}, "bypass_mode needs"}};
  for (const auto& [overrides, text] : cases) {
    const auto result = load_verl(quickstart(overrides));
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().detail.find(text), std::string::npos) << result.error().detail;
  }
}

}  // namespace
}  // namespace cohort::config::verl_loss_test
