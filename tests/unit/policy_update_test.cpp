// Where the old log-probs of an update come from, against numbers worked out by hand.
#include "actors/roles/policy_update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/base/failpoint.hpp"
#include "tests/support/update_rig.hpp"

namespace cohort::actors {
namespace {

using catalog::PolicyLossKind;
using config::OldLogProbs;
using Metrics = std::map<std::string, double>;

constexpr float k_gap = 0.25f;  // the recorded log-probs lie this much above the trainer's

struct Rig : tests::UpdateRig {
  /// The four answers with the engine's log-probs, k_gap higher.
  std::vector<proto::Trajectory> batch() {
    std::vector<proto::Trajectory> result = tests::four_answers();
    std::vector<compute::TrainSample> samples;
    for (const proto::Trajectory& t : result)
      samples.push_back({t.tokens, t.response_mask, {}, {}, {}});
    std::vector<std::vector<float>> logp;
    EXPECT_TRUE(engine->log_probs(samples, logp));
    for (size_t i = 0; i < result.size(); ++i) {
      result[i].behavior_logp = logp[i];
      for (size_t k = 3; k < logp[i].size(); ++k) result[i].behavior_logp[k] += k_gap;
    }
    return result;
  }
};

struct Result {
  Metrics metrics;
  uint64_t param_hash = 0;
};

UpdateOptions options_with(OldLogProbs source, int64_t optimizer_batch) {
  UpdateOptions options;
  config::RunConfig& c = options.config;
  c.derived.old_log_probs = source;
  c.derived.optimizer_batch = optimizer_batch;
  c.derived.total_optimizer_steps = 4;
  c.adv_estimator = config::AdvEstimator::reinforce;
  c.ppo_epochs = 1;
  c.init_kl_coef = 0;
  c.entropy_loss_coef = 0;
  c.whiten_advantages = false;
  c.use_pg_clip_range = false;
  c.pg_clip = 0.3;
  c.dual_clip_loss = false;
  c.loss_agg_mode = config::LossAgg::token_mean;
  c.actor_train.training_args.learning_rate = 0.05;
  c.actor_train.training_args.lr_scheduler_type = config::SchedulerType::constant;
  return options;
}

/// `masked`: places of the batch that a reward failed on; `is_removed`: they are not even there.
Result update_with(OldLogProbs source, int64_t optimizer_batch,
                   const std::vector<size_t>& masked = {}, bool is_removed = false) {
  Rig rig;
  PolicyUpdater updater(options_with(source, optimizer_batch));
  std::vector<proto::Trajectory> batch = rig.batch();
  for (auto place = masked.rbegin(); place != masked.rend(); ++place) {
    if (is_removed)
      batch.erase(batch.begin() + static_cast<ptrdiff_t>(*place));
    else
      batch[*place].mask_reason = "rewards.mine: timeout after 2 s";
  }
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
  EXPECT_TRUE(report) << report.error().detail;
  if (!report) return {};
  return {Metrics(report->metrics.begin(), report->metrics.end()), report->param_hash};
}

// Every token's advantage is its answer's score: (2 * 1 + 3 * 0 + 1 * 2 + 4 * 0.5) / 10 = 0.6.
constexpr double k_mean_advantage = 0.6;

TEST(OldLogProbs, RecordedOnesGiveTheRatioToTheSamplingPolicy) {  // decisions/0001
  const Result r = update_with(OldLogProbs::behavior, 4);
  const double ratio = std::exp(-k_gap);  // not clipped: above 1 - 0.3
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), -ratio * k_mean_advantage, 1e-6);
  EXPECT_NEAR(r.metrics.at("actor/ratio_max"), ratio, 1e-6);
  EXPECT_EQ(r.metrics.at("old_log_probs/source"), 0);
  EXPECT_FALSE(r.metrics.contains("old_log_probs/behavior_gap"));
  EXPECT_FALSE(r.metrics.contains("time/old_log_probs_s"));
}

/// The four answers as turns, so many of a trajectory, each asked anew.
std::vector<proto::Trajectory> turns_of_trajectories(const std::vector<proto::Trajectory>& answers,
                                                     size_t turns) {
  std::vector<proto::Trajectory> batch;
  for (size_t i = 0; i < answers.size(); ++i) {
    const proto::Trajectory& answer = answers[i];
    if (i % turns == 0) batch.emplace_back().key.group = static_cast<uint32_t>(batch.size());
    proto::Trajectory& t = batch.back();
    const auto begin = static_cast<uint32_t>(t.tokens.size());
    proto::Turn& turn = t.turns.emplace_back();
    turn.context_begin = begin;
    turn.response_begin = begin + 3;
    turn.response_end = begin + static_cast<uint32_t>(answer.tokens.size());
    turn.env_reward = static_cast<float>(answer.score);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(t.tokens, answer.tokens);
    append(t.response_mask, answer.response_mask);
    append(t.behavior_logp, answer.behavior_logp);
  }
  return batch;
}

// The trainer takes each context as a sequence, whatever trajectory has it.
TEST(PolicyUpdate, TurnsThatAreAskedAnewTrainAsTrajectoriesOfTheirOwn) {
  for (const OldLogProbs source :
       {OldLogProbs::behavior, OldLogProbs::recomputed, OldLogProbs::first_pass}) {
    std::map<size_t, uint64_t> hashes;
    std::map<size_t, double> losses;
    for (const size_t turns : {1, 2, 4}) {
      Rig rig;
      UpdateOptions options = options_with(source, static_cast<int64_t>(4 / turns));
      options.config.adv_estimator = config::AdvEstimator::step_reinforce;
      options.config.step_reward_gamma = 0;
      options.config.loss_agg_mode = config::LossAgg::seq_mean_token_mean;
      options.config.reward_normalization.method = catalog::NormMethod::identity;
      std::vector<proto::Trajectory> answers = rig.batch();
      if (source == OldLogProbs::recomputed) {  // a weight of each sequence
        catalog::Correction& rules = options.config.train_infer_correction.rules;
        rules.is_weighted = rules.is_normalized = true;
        rules.level = catalog::CorrectionLevel::sequence;
        answers[2].behavior_logp.back() += 0.5F;
      }
      PolicyUpdater updater(options);
      const auto report = updater.update(*rig.engine, control::UpdateRequest{},
                                         turns_of_trajectories(answers, turns));
      ASSERT_TRUE(report) << report.error().detail;
      hashes[turns] = report->param_hash;
      losses[turns] = Metrics(report->metrics.begin(), report->metrics.end()).at("actor/pg_loss");
    }
    EXPECT_EQ(hashes[2], hashes[1]);
    EXPECT_EQ(hashes[4], hashes[1]);
    EXPECT_EQ(losses[2], losses[1]);
  }
}

TEST(OldLogProbs, OfTheFirstPassMakeTheRatioOne) {
  const Result r = update_with(OldLogProbs::first_pass, 4);
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), -k_mean_advantage, 1e-6);
  EXPECT_EQ(r.metrics.at("actor/ratio_max"), 1.0);
  EXPECT_EQ(r.metrics.at("actor/approxkl"), 0.0);
  EXPECT_EQ(r.metrics.at("old_log_probs/source"), 1);
  EXPECT_NEAR(r.metrics.at("old_log_probs/behavior_gap"), k_gap, 1e-5);
  EXPECT_FALSE(r.metrics.contains("time/old_log_probs_s")) << "there is no extra pass";
}

TEST(OldLogProbs, ComputedBeforeOneStepAreThoseOfTheFirstPass) {
  const Result r = update_with(OldLogProbs::recomputed, 4);
  EXPECT_EQ(r.metrics.at("actor/ratio_max"), 1.0);
  EXPECT_EQ(r.metrics.at("old_log_probs/source"), 2);
  EXPECT_NEAR(r.metrics.at("old_log_probs/behavior_gap"), k_gap, 1e-5);
  EXPECT_GT(r.metrics.at("time/old_log_probs_s"), 0);
  EXPECT_EQ(r.param_hash, update_with(OldLogProbs::first_pass, 4).param_hash);
}

TEST(OldLogProbs, ComputedOnceTheyAreOldForLaterSteps) {
  const Result computed = update_with(OldLogProbs::recomputed, 2);
  EXPECT_GT(computed.metrics.at("actor/approxkl"), 0) << "the second step has other weights";
  EXPECT_NE(computed.param_hash, update_with(OldLogProbs::behavior, 2).param_hash);
}

/// An update with `rules` on the gap: the trainer's log-probs less the recorded ones, -k_gap.
Result corrected(const catalog::Correction& rules, PolicyLossKind kind = PolicyLossKind::ppo,
                 OldLogProbs source = OldLogProbs::recomputed) {
  Rig rig;
  UpdateOptions options = options_with(source, 4);
  options.config.actor_train.pg_variant = kind;
  options.config.train_infer_correction.rules = rules;
  PolicyUpdater updater(std::move(options));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, rig.batch());
  EXPECT_TRUE(report) << report.error().detail;
  if (!report) return {};
  return {Metrics(report->metrics.begin(), report->metrics.end()), report->param_hash};
}

catalog::Correction token_weights() {
  catalog::Correction rules;
  rules.is_weighted = true;
  return rules;
}

TEST(Corrections, TheRowShowsTheGapAndTheWeightsOfTokens) {
  const Result r = corrected(token_weights());
  const double weight = std::exp(-k_gap);
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), -weight * k_mean_advantage, 1e-6);
  EXPECT_NEAR(r.metrics.at("rollout_corr/kl"), k_gap, 1e-5);
  EXPECT_NEAR(r.metrics.at("rollout_corr/rollout_is_mean"), weight, 1e-5);
  EXPECT_NEAR(r.metrics.at("rollout_corr/rollout_is_eff_sample_size"), 1, 1e-5);
  EXPECT_EQ(r.metrics.at("rollout_corr/rollout_is_clipped_fraction"), 0);
}

// Products of 2, 3, 1 and 4 ratios: one of 4 falls below e^-0.9.
TEST(Corrections, ARejectedSequenceLeavesTheCounts) {
  catalog::Correction rules;
  rules.rejections = catalog::parse_rejections("seq_sum_k1", "0.5_2.45").value();  // ln 2.45 = .896
  const Result r = corrected(rules);
  EXPECT_NEAR(r.metrics.at("rollout_corr/masked_fraction"), 0.4, 1e-6);
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), -(2 * 1 + 3 * 0 + 1 * 2) / 6.0, 1e-6);
  EXPECT_FALSE(r.metrics.contains("actor/skipped_steps"));
}

TEST(Corrections, AMiniBatchThatIsRejectedAsAWholeMakesNoStep) {
  catalog::Correction rules;
  rules.rejections = catalog::parse_rejections("token_k2", "1e-3").value();
  for (OldLogProbs source : {OldLogProbs::recomputed, OldLogProbs::behavior}) {
    const Result r = corrected(rules, PolicyLossKind::ppo, source);
    EXPECT_EQ(r.metrics.at("actor/skipped_steps"), 1);
    EXPECT_EQ(r.param_hash, Rig().engine->param_hash());
  }
}

TEST(Corrections, BypassTakesTheRatioToTheRecordedOnesItself) {
  const Result r = corrected(token_weights(), PolicyLossKind::bypass_mode, OldLogProbs::behavior);
  EXPECT_NEAR(r.metrics.at("actor/ratio_max"), std::exp(-k_gap), 1e-6);
  EXPECT_FALSE(r.metrics.contains("rollout_corr/kl")) << "the ratio shows it";
  const Result plain = corrected({}, PolicyLossKind::vanilla, OldLogProbs::behavior);
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), std::exp(-k_gap) * plain.metrics.at("actor/pg_loss"),
              1e-6);
}

TEST(LossMarks, AScoreAboveZeroIsMarkedForTopr) {
  const Result r = corrected({}, PolicyLossKind::topr, OldLogProbs::behavior);
  const Result tis = corrected({}, PolicyLossKind::tis, OldLogProbs::behavior);
  // the answer of score 0 has advantage 0: all others weigh 1 in place of e^-gap
  EXPECT_NEAR(r.metrics.at("actor/pg_loss"), tis.metrics.at("actor/pg_loss") * std::exp(k_gap),
              1e-6);
}

TEST(LossMarks, KlCovMarksTheTokensOfTheWholeMiniBatch) {
  Rig rig;
  UpdateOptions options = options_with(OldLogProbs::behavior, 4);
  options.config.actor_train.pg_variant = PolicyLossKind::kl_cov;
  options.config.policy_loss.kl_cov_ratio = 0.3;  // 3 of 10 tokens
  options.config.policy_loss.ppo_kl_coef = 2;
  PolicyUpdater updater(std::move(options));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, rig.batch());
  ASSERT_TRUE(report) << report.error().detail;
  const Metrics metrics(report->metrics.begin(), report->metrics.end());
  EXPECT_NEAR(metrics.at("actor/pg_loss"), -std::exp(-k_gap) * k_mean_advantage + 0.3 * 2 * k_gap,
              1e-6);
}

// One group of four with scores 1, 0, 2 and .5: mean .875; 2, 3, 1 and 4 answer tokens; the loss is
// the sum of -A over 4 answers and a constant of 8 tokens.
TEST(DrGrpo, TakesTheMeanOffAndDividesByAConstant) {
  Rig rig;
  UpdateOptions options = options_with(OldLogProbs::first_pass, 4);
  options.config.adv_estimator = config::AdvEstimator::dr_grpo;
  options.config.loss_agg_mode = config::LossAgg::seq_mean_token_constant;
  options.config.loss_scale_factor = 8;
  PolicyUpdater updater(std::move(options));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, rig.batch());
  ASSERT_TRUE(report) << report.error().detail;
  const Metrics metrics(report->metrics.begin(), report->metrics.end());
  const double sum = 2 * .125 + 3 * -.875 + 1 * 1.125 + 4 * -.375;
  EXPECT_NEAR(metrics.at("critic/advantages/mean"), sum / 10, 1e-6);
  EXPECT_NEAR(metrics.at("critic/advantages/max"), 1.125, 1e-6);
  EXPECT_NEAR(metrics.at("critic/advantages/min"), -.875, 1e-6);
  EXPECT_NEAR(metrics.at("actor/pg_loss"), -sum / (4 * 8), 1e-6);
}

TEST(PolicyUpdater, AnEstimatorThatIsNotBuiltIsRefused) {
  Rig rig;
  UpdateOptions options = options_with(OldLogProbs::behavior, 4);
  options.config.adv_estimator = config::AdvEstimator::gae;
  const auto report =
      PolicyUpdater(options).update(*rig.engine, control::UpdateRequest{}, rig.batch());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Errc::unsupported);
}

TEST(Masked, ATrajectoryWithoutAScoreIsAsIfItHadNotBeen) {  // REWARD-3
  const Result whole = update_with(OldLogProbs::behavior, 4);
  const Result masked = update_with(OldLogProbs::behavior, 4, {1, 3});
  const Result removed = update_with(OldLogProbs::behavior, 4, {1, 3}, true);
  EXPECT_EQ(masked.param_hash, removed.param_hash);
  EXPECT_EQ(masked.metrics.at("loss"), removed.metrics.at("loss"));
  EXPECT_NE(masked.param_hash, whole.param_hash);
}

TEST(Masked, ItMovesNoOtherTrajectoryToAnotherOptimizerStep) {
  // Batches of two: {0, 1}, {3} with 2 masked, not {0}, {1, 3}.
  EXPECT_NE(update_with(OldLogProbs::behavior, 2, {2}).param_hash,
            update_with(OldLogProbs::behavior, 2, {2}, true).param_hash);
  const Result all = update_with(OldLogProbs::behavior, 2, {0, 1, 2, 3});
  EXPECT_EQ(all.metrics.at("loss"), 0) << "without a survivor there is no optimizer step";
}

// What the trainer puts in the place of a group that is not played has no token at all.
TEST(Masked, ItMayBeEmpty) {
  const Result removed = update_with(OldLogProbs::recomputed, 4, {1, 3}, true);
  Rig rig;
  PolicyUpdater updater(options_with(OldLogProbs::recomputed, 4));
  std::vector<proto::Trajectory> batch = rig.batch();
  for (size_t place : {1, 3}) {
    batch[place] = {};
    batch[place].mask_reason = "quarantined";
  }
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
  ASSERT_TRUE(report) << report.error().detail;
  EXPECT_EQ(report->param_hash, removed.param_hash);
}

TEST(Masked, TheLastOfAGroupIsLeftOutToo) {
  const auto update = [](std::initializer_list<size_t> masked) {
    Rig rig;
    UpdateOptions options = options_with(OldLogProbs::behavior, 4);
    options.config.pipeline = config::Pipeline::rlvr;
    options.config.adv_estimator = config::AdvEstimator::dr_grpo;
    options.config.derived.group_size = 2;
    PolicyUpdater updater(std::move(options));
    std::vector<proto::Trajectory> batch = rig.batch();
    for (size_t i = 0; i < batch.size(); ++i) batch[i].key.group = static_cast<uint32_t>(i / 2);
    for (size_t place : masked) batch[place].mask_reason = "rewards.mine: timeout after 2 s";
    const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
    EXPECT_TRUE(report) << report.error().detail;
    if (!report) return Result{};
    return Result{Metrics(report->metrics.begin(), report->metrics.end()), report->param_hash};
  };
  const Result lone = update({1});
  EXPECT_EQ(lone.metrics.at("critic/lone_survivors"), 1);
  EXPECT_FALSE(update({}).metrics.contains("critic/lone_survivors"));
  EXPECT_EQ(lone.param_hash, update({0, 1}).param_hash);
}

TEST(Masked, ItIsNotImitatedEither) {
  const auto imitate = [](bool is_masked) {
    Rig rig;
    UpdateOptions options = options_with(OldLogProbs::behavior, 4);
    options.config.warm_start.steps = 2;
    options.config.warm_start.batch_size = 2;
    PolicyUpdater updater(std::move(options));
    std::vector<proto::Trajectory> batch = rig.batch();
    if (is_masked) {
      batch[2] = batch[3] = {};  // the whole second optimizer step
      batch[2].mask_reason = batch[3].mask_reason = "quarantined";
    } else {
      batch.resize(2);
    }
    control::UpdateRequest request;
    request.kind = TrajectoryKind::warm_start;
    const auto report = updater.update(*rig.engine, request, batch);
    EXPECT_TRUE(report) << report.error().detail;
    return report ? report->param_hash : 0;
  };
  EXPECT_EQ(imitate(true), imitate(false));
}

/// Two groups of two, in optimizer batches of two, and behind the answers of each a greedy one.
uint64_t hash_with_greedy(bool has_greedy, bool is_first_scored) {
  Rig rig;
  PolicyUpdater updater(options_with(OldLogProbs::behavior, 2));
  std::vector<proto::Trajectory> batch = rig.batch();
  for (uint32_t i = 0; i < 4; ++i) batch[i].key = {TrajectoryKind::train, 1, i / 2, i % 2};
  for (uint32_t group : {1U, 0U}) {  // from the back
    proto::Trajectory greedy = batch[group];
    greedy.key = {TrajectoryKind::train, 1, group, 2};
    greedy.is_greedy = true;
    if (group == 0 && !is_first_scored) greedy.mask_reason = "rewards.mine: timeout";
    if (has_greedy) batch.insert(batch.begin() + 2 * (group + 1), greedy);
  }
  if (!has_greedy && !is_first_scored)
    for (size_t i : {0, 1}) batch[i].mask_reason = "no baseline";
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
  EXPECT_TRUE(report) << report.error().detail;
  return report ? report->param_hash : 0;
}

TEST(Greedy, ItHasNoPlaceInTheOptimizersBatches) {
  EXPECT_EQ(hash_with_greedy(true, true), hash_with_greedy(false, true));
  EXPECT_EQ(hash_with_greedy(true, false), hash_with_greedy(false, false))
      << "without its score the group has no baseline";
  EXPECT_NE(hash_with_greedy(true, false), hash_with_greedy(true, true));
}

class NotFinite : public testing::Test {
 protected:
  ~NotFinite() override { EXPECT_TRUE(failpoint::arm("")); }
};

// Batches of two: the first is poisoned, the second makes the step that it would have made alone.
TEST_F(NotFinite, AStepIsLeftOutAndCounted) {  // TRAIN-2
  Rig rig, calm;
  const auto batch = rig.batch();
  ASSERT_TRUE(failpoint::arm("trainer.nan:1:fail"));
  PolicyUpdater updater(options_with(OldLogProbs::behavior, 2));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
  ASSERT_TRUE(report) << report.error().detail;
  const Metrics metrics(report->metrics.begin(), report->metrics.end());
  EXPECT_EQ(metrics.at("actor/nonfinite_steps"), 1);
  EXPECT_TRUE(std::isfinite(metrics.at("loss")));
  PolicyUpdater other(options_with(OldLogProbs::behavior, 2));
  const auto whole = other.update(*calm.engine, control::UpdateRequest{}, batch);
  ASSERT_TRUE(whole);
  EXPECT_NE(whole->param_hash, report->param_hash);
  EXPECT_FALSE(
      Metrics(whole->metrics.begin(), whole->metrics.end()).contains("actor/nonfinite_steps"));
}

TEST_F(NotFinite, SeveralInARowEndTheRun) {
  Rig rig;
  const auto batch = rig.batch();
  const uint64_t before = rig.engine->param_hash();
  auto options = options_with(OldLogProbs::behavior, 2);
  options.config.nonfinite_steps_max = 1;
  PolicyUpdater updater(options);
  ASSERT_TRUE(failpoint::arm("trainer.nan:1:fail;trainer.nan:2:fail"));
  const auto report = updater.update(*rig.engine, control::UpdateRequest{}, batch);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Errc::compute);
  for (const char* part :
       {"2 optimizer steps in a row", "nonfinite_steps_max: 1", "trajectories 2..3"})
    EXPECT_NE(report.error().detail.find(part), std::string::npos) << report.error().detail;
  EXPECT_EQ(rig.engine->param_hash(), before);
}

/// Advantages of the last token of five answers to one prompt, with scores 1, 0, 0, 1, 0.
std::vector<float> advantages_of(const config::RunConfig& config) {
  std::vector<proto::Trajectory> batch;
  for (const double score : {1, 0, 0, 1, 0}) {
    proto::Trajectory t;
    t.key.group = 7;
    t.key.index = static_cast<uint32_t>(batch.size());
    t.score = score;
    t.tokens = {1, 2, 3};
    t.response_mask = {0, 1, 1};
    t.behavior_logp = {0, -1, -1};
    batch.push_back(std::move(t));
  }
  PackedBatch packed = pack(batch);
  EXPECT_TRUE(fill_advantages(config, 0, batch, packed));
  std::vector<float> last;
  for (size_t i = 0; i < batch.size(); ++i) last.push_back(packed.advantages[3 * i + 2]);
  return last;
}

/// verl's numbers: sigma with n - 1 is 0.547723; norm_adv_by_std_in_grpo false leaves it out.
TEST(FillAdvantages, VerlsGrpoDividesByTheDeviationWhereItIsAsked) {
  config::RunConfig config;
  config.dialect = config::Dialect::verl;
  config.pipeline = config::Pipeline::rlvr;
  config.adv_estimator = config::AdvEstimator::grpo;
  config.norm_mean_type = config.norm_std_type = config::NormScope::group;
  const std::vector<float> divided = advantages_of(config);
  const std::vector<float> expected = {1.095443F, -.730295F, -.730295F, 1.095443F, -.730295F};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(divided[i], expected[i], 2e-6F);
  config.norm_std_type = config::NormScope::none;
  const std::vector<float> plain = advantages_of(config);
  const std::vector<float> centred = {.6F, -.4F, -.4F, .6F, -.4F};
  for (size_t i = 0; i < centred.size(); ++i) EXPECT_NEAR(plain[i], centred[i], 1e-6F);
  config.dialect = config::Dialect::roll;  // there GRPO always divides
  EXPECT_NEAR(advantages_of(config)[0], expected[0], 2e-6F);
}

/// Two pairs: answers of 2 and 3, of 1 and 4 tokens; the reference's log-probs are k_gap above.
struct Pairs {
  explicit Pairs(TrajectoryKind kind = TrajectoryKind::train) {
    batch = rig.batch();
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i].key = {kind, 1, static_cast<uint32_t>(i / 2), static_cast<uint32_t>(i % 2)};
      batch[i].ref_logp = batch[i].behavior_logp;
    }
    request.kind = kind;
  }
  Result update() {
    UpdateOptions options = options_with(OldLogProbs::behavior, 4);
    options.config.pipeline = config::Pipeline::dpo;
    options.config.preference.beta = 0.5;
    options.config.derived.is_reference_needed = true;
    const auto report = PolicyUpdater(std::move(options)).update(*rig.engine, request, batch);
    EXPECT_TRUE(report) << report.error().detail;
    if (!report) return {};
    return {Metrics(report->metrics.begin(), report->metrics.end()), report->param_hash};
  }
  Rig rig;
  std::vector<proto::Trajectory> batch;
  control::UpdateRequest request;
};

double loss_of(double h) { return std::log1p(std::exp(-0.5 * h)); }

TEST(Pairs, TheLossIsThatOfTheWorkedNumbers) {
  const Result r = Pairs().update();
  // h = k_gap (length of the rejected answer - that of the chosen one)
  EXPECT_NEAR(r.metrics.at("loss"), (loss_of(k_gap) + loss_of(3 * k_gap)) / 2, 1e-6);
  EXPECT_NEAR(r.metrics.at("preference/reward_chosen"), -0.5 * k_gap * 1.5, 1e-6);
  EXPECT_NEAR(r.metrics.at("preference/reward_rejected"), -0.5 * k_gap * 3.5, 1e-6);
  EXPECT_NEAR(r.metrics.at("preference/margin"), 0.5 * k_gap * 2, 1e-6);
  EXPECT_EQ(r.metrics.at("preference/accuracy"), 1);
  EXPECT_EQ(r.metrics.at("dpo/pairs"), 2);
}

TEST(Pairs, HeldOutOnesAreMeasuredAndChangeNothing) {
  Pairs held_out(TrajectoryKind::val);
  const uint64_t before = held_out.rig.engine->param_hash();
  const Result r = held_out.update();
  EXPECT_EQ(r.param_hash, before);
  EXPECT_NEAR(r.metrics.at("val/loss"), Pairs().update().metrics.at("loss"), 1e-6);
  EXPECT_EQ(r.metrics.at("val/accuracy"), 1);
}

TEST(Pairs, OneWithoutAnAnswerLeavesTheStep) {
  Pairs masked, empty, removed;
  masked.batch[3].mask_reason = "quarantined";
  empty.batch[3].response_mask.assign(empty.batch[3].tokens.size(), 0);
  removed.batch.resize(2);
  const Result r = masked.update();
  EXPECT_NEAR(r.metrics.at("loss"), loss_of(k_gap), 1e-6);
  EXPECT_EQ(r.metrics.at("dpo/pairs_left_out"), 1);
  EXPECT_EQ(r.param_hash, empty.update().param_hash);
  EXPECT_EQ(r.param_hash, removed.update().param_hash);
}

}  // namespace
}  // namespace cohort::actors
