// What a config asks of the estimators, on trajectories: numbers worked out by hand.
#include "actors/roles/fill_advantages.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace cohort::actors {
namespace {

using catalog::AdvEstimator;
using proto::Trajectory;

/// One prompt token and two answer tokens each.
std::vector<Trajectory> answers(const std::vector<double>& scores,
                                const std::vector<uint32_t>& groups) {
  std::vector<Trajectory> batch(scores.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    Trajectory& t = batch[i];
    t.key.group = groups[i];
    t.score = scores[i];
    t.tokens = {1, 2, 3};
    t.response_mask = {0, 1, 1};
    t.behavior_logp = {0, -1, -2};
  }
  return batch;
}

config::RunConfig config_of(AdvEstimator estimator, config::Dialect dialect) {
  config::RunConfig c;
  c.pipeline = config::Pipeline::rlvr;
  c.dialect = dialect;
  c.adv_estimator = estimator;
  c.derived.group_size = 2;
  if (estimator == AdvEstimator::grpo)
    c.norm_mean_type = c.norm_std_type = config::NormScope::group;
  return c;
}

/// The advantage of each trajectory's last token.
std::vector<double> last_ones(const config::RunConfig& config, const std::vector<Trajectory>& batch,
                              double kl_coef = 0) {
  PackedBatch packed = pack(batch);
  const auto filled = fill_advantages(config, kl_coef, batch, packed);
  EXPECT_TRUE(filled.has_value()) << filled.error().detail;
  std::vector<double> found;
  for (size_t i = 1; i < packed.cu_seqlens.size(); ++i)
    found.push_back(
        static_cast<double>(packed.advantages[static_cast<size_t>(packed.cu_seqlens[i]) - 1]));
  return found;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << "entry " << i;
}

TEST(FillAdvantages, TheDialectSaysWhatAGroupOfOneGets) {
  const std::vector<Trajectory> batch = answers({3, 1, 0}, {7, 4, 4});
  const double unit = .5 / std::sqrt(.5);
  expect_near(last_ones(config_of(AdvEstimator::grpo, config::Dialect::verl), batch),
              {3, unit, -unit});
  expect_near(last_ones(config_of(AdvEstimator::grpo, config::Dialect::roll), batch),
              {0, unit, -unit});
  expect_near(last_ones(config_of(AdvEstimator::rloo, config::Dialect::verl), batch), {3, 1, -1});
  expect_near(last_ones(config_of(AdvEstimator::rloo_vectorized, config::Dialect::verl), batch),
              {0, 1, -1});
}

// Policy - reference is 1 and 0 on the answer of the first, 0 and 0 on the other's.
TEST(FillAdvantages, VerlComparesScoresLessTheirKl) {
  std::vector<Trajectory> batch = answers({1, 0}, {4, 4});
  batch[0].ref_logp = {0, -2, -2};
  batch[1].ref_logp = {0, -1, -2};
  config::RunConfig verl = config_of(AdvEstimator::dr_grpo, config::Dialect::verl);
  verl.add_token_level_kl = true;
  verl.kl_penalty = config::KlKind::kl;
  expect_near(last_ones(verl, batch, .5), {.25, -.25});  // .5 and 0 around .25
  config::RunConfig roll = verl;
  roll.dialect = config::Dialect::roll;
  expect_near(last_ones(roll, batch, .5), {.5, -.5});  // the KL is the first token's alone
}

// RAGEN's names: the trajectories of one map, and of one tag.
TEST(FillAdvantages, GroupingsStateAndInductive) {
  std::vector<Trajectory> batch = answers({1, 0, 3, 2}, {0, 0, 1, 1});
  for (Trajectory& t : batch) t.tag = "Lake";
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.pipeline = config::Pipeline::agentic;
  c.reward_normalization = {config::Grouping::state, config::NormMethod::mean, {}, {}};
  expect_near(last_ones(c, batch), {.5, -.5, .5, -.5});
  EXPECT_TRUE(compares_groups(c));
  c.reward_normalization.grouping = config::Grouping::inductive;
  expect_near(last_ones(c, batch), {-.5, -1.5, 1.5, .5});
  EXPECT_FALSE(compares_groups(c));
}

// Domain a: 1, 0 and then 2, so that mean and deviation are those of {1, 0}, then of {1, 0, 2}.
TEST(FillAdvantages, RunningMomentsAreThoseOfAllStepsOfTheDomain) {
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.norm_mean_type = c.norm_std_type = config::NormScope::running;
  std::vector<Trajectory> first = answers({1, 0, 9}, {0, 0, 1}), second = answers({2}, {0});
  first[0].tag = first[1].tag = second[0].tag = "a";
  first[2].tag = "b";
  const auto last = [&](const std::vector<Trajectory>& batch, RunningScores& running) {
    PackedBatch packed = pack(batch);
    const auto filled = fill_advantages(c, 0, batch, packed, &running);
    EXPECT_TRUE(filled) << filled.error().detail;
    std::vector<double> found;
    for (size_t i = 1; i < packed.cu_seqlens.size(); ++i)
      found.push_back(
          static_cast<double>(packed.advantages[static_cast<size_t>(packed.cu_seqlens[i]) - 1]));
    return found;
  };
  RunningScores running;
  const double unit = .5 / (std::sqrt(.5) + 1e-6);
  expect_near(last(first, running), {unit, -unit, 0});
  RunningScores restored = running_scores_of(json_of(running));
  EXPECT_EQ(restored, running);
  expect_near(last(second, restored), {1 / (1 + 1e-6)});
  EXPECT_EQ(restored.at("a").count, 3u);
  PackedBatch packed = pack(first);
  const auto without = fill_advantages(c, 0, first, packed);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Errc::unsupported);
}

TEST(FillAdvantages, GdpoNormalisesEachRewardByItself) {
  std::vector<Trajectory> batch = answers({0, 0}, {4, 4});
  batch[0].reward_parts = {{"math", 1, 1, ""}, {"math/form", .01, 0, ""}};
  batch[1].reward_parts = {{"math", 0, 1, ""}, {"math/form", .02, 0, ""}};
  config::RunConfig c = config_of(AdvEstimator::gdpo, config::Dialect::verl);
  const auto of_score = last_ones(c, batch);
  EXPECT_GT(of_score[0], 0.5) << "the first is better by what the score is made of";
  c.gdpo_reward_keys = {"math", "form"};
  c.gdpo_reward_weights = {1, 3};
  EXPECT_LT(last_ones(c, batch)[0], -0.5) << "the second by the form, which weighs more";
  c.gdpo_reward_keys = {"math", "style"};
  PackedBatch packed = pack(batch);
  const auto filled = fill_advantages(c, 0, batch, packed);
  ASSERT_FALSE(filled.has_value());
  EXPECT_NE(filled.error().detail.find("has no reward 'style'"), std::string::npos);
}

// Two trajectories of two turns, which begin alike; the second turns show different worlds.
TEST(FillAdvantages, GigpoCreditsTurns) {
  std::vector<Trajectory> batch(2);
  for (size_t i = 0; i < 2; ++i) {
    Trajectory& t = batch[i];
    t.score = i == 0 ? 1 : 0;
    t.tokens = {1, 2, 3, 4, 5};
    t.response_mask = {0, 1, 0, 1, 1};
    t.behavior_logp.assign(5, -1);
    t.turns.resize(2);
    t.turns[0] = {1, 2, 0, true, true, "start", ""};
    t.turns[1] = {3, 5, static_cast<float>(t.score), true, true, i == 0 ? "left" : "right", ""};
  }
  config::RunConfig c = config_of(AdvEstimator::gigpo, config::Dialect::roll);
  c.pipeline = config::Pipeline::agentic;
  c.reward_normalization = {config::Grouping::traj_group_id, config::NormMethod::mean, {}, {}};
  c.step_reward_gamma = .5;
  c.step_reward_weight = 4;
  PackedBatch packed = pack(batch);
  ASSERT_TRUE(fill_advantages(c, 0, batch, packed).has_value());
  // Trajectory: +-.5. First turns: returns .5 and 0, so +-.25. Second turns: nothing alike.
  const std::vector<float> wanted{0, 1.5f, 0, .5f, .5f, 0, -1.5f, 0, -.5f, -.5f};
  for (size_t t = 0; t < wanted.size(); ++t)
    EXPECT_NEAR(packed.advantages[t], wanted[t], 1e-6f) << "token " << t;
}

TEST(FillAdvantages, WhitenedRewardsGoIntoTheReturns) {
  const std::vector<Trajectory> batch = answers({1, 0}, {0, 1});
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.whiten_rewards = true;
  // Token rewards 0 1 0 0: mean .25, variance .25, so -.5 1.5 -.5 -.5.
  expect_near(last_ones(c, batch), {1.5, -.5});
  PackedBatch packed = pack(batch);
  ASSERT_TRUE(fill_advantages(c, 0, batch, packed).has_value());
  EXPECT_NEAR(packed.advantages[1], 1, 1e-5f);
}

TEST(FillAdvantages, AnEstimatorOfValuesNeedsThem) {
  const std::vector<Trajectory> batch = answers({1, 0}, {0, 0});
  PackedBatch packed = pack(batch);
  const auto filled =
      fill_advantages(config_of(AdvEstimator::gae, config::Dialect::verl), 0, batch, packed);
  ASSERT_FALSE(filled.has_value());
  EXPECT_NE(filled.error().detail.find("gae"), std::string::npos) << filled.error().detail;
  EXPECT_NE(filled.error().detail.find("a critic"), std::string::npos) << filled.error().detail;
}

// The teacher's leads of the two answer tokens: 0.5 and -1.
std::vector<Trajectory> taught(const std::vector<double>& scores) {
  std::vector<Trajectory> batch = answers(scores, {0, 0});
  for (Trajectory& t : batch) t.teacher_logp = {0, -0.5F, -3};
  return batch;
}

TEST(FillAdvantages, ATeacherAloneTakesNoNoticeOfScores) {
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.opd.is_pure = true;
  PackedBatch packed = pack(taught({5, -3}));
  const auto filled = fill_advantages(c, 0, taught({5, -3}), packed);
  ASSERT_TRUE(filled.has_value()) << filled.error().detail;
  EXPECT_EQ(packed.advantages, (std::vector<float>{0, 0.5F, -1, 0, 0.5F, -1}));
  ASSERT_TRUE(filled->teacher.has_value());
  EXPECT_NEAR(filled->teacher->kl, 0.25, 1e-6);
  EXPECT_FALSE(compares_groups(c)) << "a failed reward leaves nobody alone";
}

TEST(FillAdvantages, ATeacherBesideRewardsAddsItsPart) {
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.opd.is_mixed = true;
  c.opd.coef = 2;
  expect_near(last_ones(c, taught({5, -3})), {5 - 2, -3 - 2});
  c.opd.clip = 0.25;
  expect_near(last_ones(c, taught({5, -3})), {5 - 0.5, -3 - 0.5});
  c.opd.kind = catalog::KlKind::abs;
  c.opd.clip.reset();
  expect_near(last_ones(c, taught({5, -3})), {5 - 2, -3 - 2});
  c.kl_penalty = catalog::KlKind::mse;
  c.opd.kind.reset();
  expect_near(last_ones(c, taught({5, -3})), {5 - 1, -3 - 1});
}

TEST(FillAdvantages, TrajectoriesWithoutATeacherAreAnError) {
  config::RunConfig c = config_of(AdvEstimator::reinforce, config::Dialect::roll);
  c.opd.is_mixed = true;
  const auto batch = answers({1, 0}, {0, 0});
  PackedBatch packed = pack(batch);
  const auto filled = fill_advantages(c, 0, batch, packed);
  ASSERT_FALSE(filled.has_value());
  EXPECT_NE(filled.error().detail.find("no log-probabilities of a teacher"), std::string::npos);
}

}  // namespace
}  // namespace cohort::actors
