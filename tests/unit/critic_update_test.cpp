// The critic's update against numbers worked out by hand: its values begin at 0, so that the
// returns of lambda = 1 are the answers' scores.
#include "actors/roles/critic_update.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/update_rig.hpp"

namespace cohort::actors {
namespace {

using tests::four_answers;
using Metrics = std::map<std::string, double>;

struct CriticRig : tests::UpdateRig {
  CriticRig() : UpdateRig(options()) {}
  static compute::TrainEngineOptions options() {
    compute::TrainEngineOptions options = tests::update_options();
    options.head = model::HeadKind::value;
    options.role = "critic";
    return options;
  }
};

config::RunConfig critic_config(int64_t optimizer_batch) {
  config::RunConfig config;
  config.pipeline = config::Pipeline::agentic;
  config.adv_estimator = catalog::AdvEstimator::gae;
  config.reward_normalization.method = config::NormMethod::identity;
  config.lambd = 1;
  config.init_kl_coef = 0;
  config.whiten_advantages = true;  // of the policy's: a critic's returns are of raw ones
  config.advantage_clip = 0.1;      // likewise
  config.critic.training_args.learning_rate = 1e-2;
  config.critic.training_args.lr_scheduler_type = config::SchedulerType::constant;
  config.derived.critic.optimizer_batch = optimizer_batch;
  config.derived.critic.loss_agg = catalog::LossAgg::token_mean;
  return config;
}

Metrics critic_step(CriticUpdater& updater, CriticRig& rig,
                    std::vector<proto::Trajectory> trajectories) {
  EXPECT_TRUE(updater.value(*rig.engine, trajectories));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, trajectories);
  EXPECT_TRUE(report) << report.error().detail;
  if (!report) return {};
  EXPECT_EQ(report->param_hash, rig.engine->param_hash());
  return {report->metrics.begin(), report->metrics.end()};
}

TEST(CriticUpdate, BeginsAtZeroAndLearnsTheReturns) {
  CriticRig rig;
  CriticUpdater updater(critic_config(4));
  Metrics first = critic_step(updater, rig, four_answers());
  EXPECT_EQ(first.at("critic/values/max"), 0);
  EXPECT_EQ(first.at("critic/values/min"), 0);
  EXPECT_NEAR(first.at("critic/returns/mean"), (2 * 1 + 3 * 0 + 1 * 2 + 4 * 0.5) / 10, 1e-6);
  EXPECT_NEAR(first.at("critic/loss"), 0.5 * (2 * 1 + 1 * 4 + 4 * 0.25) / 10, 1e-6);
  EXPECT_NEAR(first.at("critic/vf_explained_var"), 0, 1e-6);
  Metrics last;
  for (int i = 0; i < 60; ++i) last = critic_step(updater, rig, four_answers());
  EXPECT_LT(last.at("critic/loss"), first.at("critic/loss") / 10);
  EXPECT_GT(last.at("critic/vf_explained_var"), 0.9);
}

TEST(CriticUpdate, AMaskedTrajectoryHasNoValuesAndTeachesNothing) {
  std::vector<proto::Trajectory> all = four_answers(), rest = four_answers();
  all[2].mask_reason = "rewards.mine: timeout after 2 s";
  rest.erase(rest.begin() + 2);
  CriticRig with, without;
  CriticUpdater first(critic_config(4)), second(critic_config(4));
  EXPECT_EQ(critic_step(first, with, all).at("critic/returns/mean"),
            critic_step(second, without, rest).at("critic/returns/mean"));
  EXPECT_EQ(with.engine->param_hash(), without.engine->param_hash());
  ASSERT_TRUE(first.value(*with.engine, all));
  EXPECT_TRUE(all[2].values.empty());
  EXPECT_EQ(all[1].values.size(), all[1].tokens.size());
}

// Two optimizer batches of two, in epochs: as many steps of the rate's schedule, kept by a resume.
TEST(CriticUpdate, CountersComeBack) {
  config::RunConfig config = critic_config(2);
  config.critic.training_args.lr_scheduler_type = config::SchedulerType::linear;
  config.derived.critic.ppo_epochs = 2;
  config.derived.critic.total_optimizer_steps = 8;
  CriticRig rig;
  CriticUpdater updater(config), resumed(config);
  const Metrics first = critic_step(updater, rig, four_answers());
  ASSERT_TRUE(resumed.restore(updater.state_json()));
  const Metrics second = critic_step(resumed, rig, four_answers());
  EXPECT_NEAR(first.at("critic/lr"), 1e-2 * (1 - 3.0 / 8), 1e-9);
  EXPECT_NEAR(second.at("critic/lr"), 1e-2 * (1 - 7.0 / 8), 1e-9);
  EXPECT_EQ(resumed.restore("{}").error().code, Errc::corrupt);
}

}  // namespace
}  // namespace cohort::actors
