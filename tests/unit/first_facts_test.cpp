// What is measured of a first step's trajectories, and of its first optimizer step.
#include "actors/roles/first_facts.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "actors/roles/policy_update.hpp"
#include "tests/support/update_rig.hpp"

namespace cohort::actors {
namespace {

namespace number = plan::first_number;
using proto::Trajectory;

constexpr int32_t k_answer_end = 9;

/// Answer `index` of `group`: prompt 1 2, then `answer`; it ends by itself.
Trajectory played(uint32_t group, uint32_t index, double score, std::vector<int32_t> answer) {
  Trajectory t;
  t.key = {TrajectoryKind::train, 1, group, index};
  t.stop_reason = "answered";
  t.score = score;
  t.reward_parts = {{"math", score, 1, ""}, {"form", 0.5, 0.25, ""}};
  t.tokens = {1, static_cast<int32_t>(20 + group)};
  t.response_mask = {0, 0};
  t.tokens.insert(t.tokens.end(), answer.begin(), answer.end());
  t.response_mask.insert(t.response_mask.end(), answer.size(), 1);
  proto::Turn turn;
  turn.response_begin = 2;
  turn.response_end = static_cast<uint32_t>(t.tokens.size());
  turn.is_valid = true;
  t.turns = {turn};
  return t;
}

/// Four groups of two answers that differ.
std::vector<Trajectory> healthy() {
  std::vector<Trajectory> batch;
  for (uint32_t group = 0; group < 4; ++group)
    for (uint32_t index = 0; index < 2; ++index)
      batch.push_back(played(group, index, index, {static_cast<int32_t>(3 + index), k_answer_end}));
  return batch;
}

plan::FirstStep facts_of(const std::vector<Trajectory>& batch) {
  const int32_t ends[] = {k_answer_end};
  std::vector<std::pair<std::string, double>> metrics;
  answer_facts(batch, ends).append_to(metrics);
  plan::FirstStep step;
  step.compares_groups = step.reads_rows = true;
  for (const auto& [name, value] : metrics) step.take(name, value, 1);
  return step;
}

std::vector<std::string> findings_of(const plan::FirstStep& step) {
  std::vector<std::string> names;
  for (const plan::Finding& found : plan::first_step_findings(step, "RUN"))
    names.push_back(found.check + " " + found.trajectory);
  return names;
}

using Names = std::vector<std::string>;

TEST(AnswerFacts, OfAHealthyStepAreHealthy) {
  const plan::FirstStep step = facts_of(healthy());
  EXPECT_EQ(step.numbers.at(std::string(number::score_range)), 1);
  EXPECT_EQ(step.numbers.at(std::string(number::flat_groups)), 0);
  EXPECT_EQ(step.numbers.at(std::string(number::prompts)), 4);
  EXPECT_EQ(step.numbers.at(std::string(number::ended_turns)), 1);
  EXPECT_EQ(step.numbers.at("range/math"), 1);
  EXPECT_FALSE(step.numbers.contains("range/form")) << "another weighs more";
  EXPECT_EQ(findings_of(step), Names{});
}

TEST(AnswerFacts, NameTheTrajectoryThatShowsIt) {
  std::vector<Trajectory> batch = healthy();
  batch[5].mask_reason = "rewards.math: it gave a score that is no number";
  batch[5].score = 0;
  EXPECT_EQ(findings_of(facts_of(batch)), Names{"reward_failed 1/2/1"});
  EXPECT_EQ(facts_of(batch).numbers.at("failed/rewards.math"), 1.0 / 8);
}

TEST(AnswerFacts, MaskedScoresAndThoseOfNobodyDoNotCount) {
  std::vector<Trajectory> batch = healthy();
  for (Trajectory& t : batch) t.score = t.reward_parts[0].value = 1;
  batch[0].mask_reason = "rewards.math: timeout after 2 s";
  batch[0].score = 0;
  batch[1].is_greedy = true;
  batch[1].score = 7;
  batch[2].metrics = {{std::string(proto::k_demonstration), 1.0}};
  batch[2].score = 9;
  const plan::FirstStep step = facts_of(batch);
  EXPECT_EQ(step.numbers.at(std::string(number::score_range)), 0);
}

TEST(AnswerFacts, GroupsThatTheFilterLeftOutHaveScores) {
  std::vector<Trajectory> batch = healthy();
  for (Trajectory& t : batch) {
    t.score = t.key.group;
    t.reward_parts[0].value = t.score;
    t.mask_reason = fmt::format("{}all answers score the same", proto::k_left_out);
  }
  const plan::FirstStep step = facts_of(batch);
  EXPECT_EQ(findings_of(step), Names{"groups_flat 1/0/0"});
}

TEST(AnswerFacts, FormsOfAnswers) {
  struct Case {
    const char* check;
    void (*plant)(Trajectory&);
  };
  const Case cases[] = {
      {"answers_truncated", [](Trajectory& t) { t.stop_reason = "length"; }},
      {"end_never", [](Trajectory& t) { t.tokens.back() = 5; }},
      {"turns_invalid", [](Trajectory& t) { t.turns[0].is_valid = false; }},
      {"prompts_empty", [](Trajectory& t) { t.response_mask[0] = 1; }},
      {"answers_empty", [](Trajectory& t) { t.response_mask.assign(t.tokens.size(), 0); }},
      {"prompts_same", [](Trajectory& t) { t.tokens[1] = 0; }},
      {"answers_same", [](Trajectory& t) { t.tokens[2] = 3; }},
      {"reward_part_constant", [](Trajectory& t) { t.reward_parts[0].value = 0; }},
  };
  for (const Case& each : cases) {
    std::vector<Trajectory> batch = healthy();
    for (Trajectory& t : batch) each.plant(t);
    const Names found = findings_of(facts_of(batch));
    ASSERT_EQ(found.size(), 1U) << each.check;
    EXPECT_TRUE(found[0].starts_with(each.check)) << found[0];
  }
}

TEST(AnswerFacts, OfRowsThereAreNoScores) {
  std::vector<Trajectory> batch = healthy();
  for (Trajectory& t : batch) {
    t.reward_parts.clear();
    t.score = 0;
    t.tokens.push_back(7);  // behind the answer's end, which the mask leaves out
    t.response_mask.push_back(0);
    t.tokens[3] = 4;
    t.tokens[4] = k_answer_end;
  }
  const plan::FirstStep step = facts_of(batch);
  EXPECT_FALSE(step.numbers.contains(std::string(number::score_range)));
  EXPECT_EQ(step.numbers.at(std::string(number::ended_turns)), 1);
  EXPECT_EQ(findings_of(step), Names{});
}

// -- of the update

constexpr float k_apart = 0.25f;  // the recorded log-probs lie this much above the trainer's

struct FirstRig : tests::UpdateRig {
  std::vector<Trajectory> batch(float gap) {
    std::vector<Trajectory> result = tests::four_answers();
    std::vector<compute::TrainSample> samples;
    for (const Trajectory& t : result) samples.push_back({t.tokens, t.response_mask, {}, {}, {}});
    std::vector<std::vector<float>> logp;
    EXPECT_TRUE(engine->log_probs(samples, logp));
    for (size_t i = 0; i < result.size(); ++i) {
      result[i].key = {TrajectoryKind::train, 1, static_cast<uint32_t>(i), 0};
      result[i].ref_logp = result[i].behavior_logp = logp[i];
      for (size_t k = 3; k < logp[i].size(); ++k) {
        result[i].behavior_logp[k] += gap * static_cast<float>(i + 1);
        result[i].ref_logp[k] += k_apart;
      }
    }
    return result;
  }
};

UpdateOptions first_options(config::OldLogProbs source) {
  UpdateOptions options;
  config::RunConfig& c = options.config;
  c.derived.old_log_probs = source;
  c.derived.optimizer_batch = 4;
  c.derived.total_optimizer_steps = 4;
  c.adv_estimator = config::AdvEstimator::reinforce;
  c.init_kl_coef = 0;
  c.entropy_loss_coef = 0;
  c.actor_train.training_args.learning_rate = 0.05;
  c.actor_train.training_args.lr_scheduler_type = config::SchedulerType::constant;
  return options;
}

/// The facts of the first update, and of the one behind it.
struct Updates {
  plan::FirstStep first;
  size_t later = 0;  // facts
};
Updates updates_of(UpdateOptions options, float gap) {
  FirstRig rig;
  PolicyUpdater updater(std::move(options));
  Updates result;
  for (uint64_t step = 1; step <= 2; ++step) {
    const auto report =
        updater.update(*rig.engine, {TrajectoryKind::train, step, step, 4}, rig.batch(gap));
    EXPECT_TRUE(report) << report.error().detail;
    for (const auto& [name, value] : report->metrics) {
      if (!name.starts_with(plan::k_check_prefix)) continue;
      if (step == 1)
        result.first.take(name, value, step);
      else
        ++result.later;
    }
  }
  return result;
}

double number_of(const plan::FirstStep& step, std::string_view name) {
  const auto found = step.numbers.find(name);
  return found == step.numbers.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

TEST(FirstUpdate, MeasuresThePolicyBeforeItsFirstStep) {
  const Updates updates = updates_of(first_options(config::OldLogProbs::behavior), k_apart);
  const plan::FirstStep& step = updates.first;
  // Tokens 2, 3, 1, 4 with 1 to 4 times the gap.
  EXPECT_NEAR(number_of(step, number::logprob_gap), k_apart * (2 * 1 + 3 * 2 + 1 * 3 + 4 * 4) / 10,
              1e-5);
  EXPECT_EQ(step.places.find(number::logprob_gap)->second, "1/3/0");
  double ratio = 0, kl = 0;
  for (const auto& [tokens, times] : {std::pair{2, 1}, {3, 2}, {1, 3}, {4, 4}}) {
    const double moved = -static_cast<double>(k_apart) * times;
    ratio += tokens * (1 - std::exp(moved)) / 10;
    kl += tokens * (std::exp(moved) - 1 - moved) / 10;
  }
  EXPECT_NEAR(number_of(step, number::ratio_gap), ratio, 1e-5);
  EXPECT_NEAR(number_of(step, number::policy_kl), kl, 1e-5);
  EXPECT_NEAR(number_of(step, number::reference_gap), k_apart, 1e-5);
  EXPECT_NEAR(number_of(step, number::surprise), 1, 0.2) << "the weights are random";
  EXPECT_EQ(number_of(step, number::rate), 0.05);
  EXPECT_EQ(number_of(step, number::finite), 1);
  EXPECT_GT(number_of(step, number::grad_norm), 0);
  EXPECT_GT(number_of(step, number::advantage), 0);
  EXPECT_EQ(number_of(step, number::moved), 1);
  EXPECT_EQ(updates.later, 0U) << "a second update is no first one";
}

TEST(FirstUpdate, OldLogProbsOfAPassOfItsOwnHaveRatioOne) {
  const plan::FirstStep step =
      updates_of(first_options(config::OldLogProbs::recomputed), k_apart).first;
  EXPECT_EQ(number_of(step, number::ratio_gap), 0);
  EXPECT_EQ(number_of(step, number::policy_kl), 0);
  EXPECT_GT(number_of(step, number::logprob_gap), k_apart) << "the engine's are off all the same";
  const plan::FirstStep own = updates_of(first_options(config::OldLogProbs::first_pass), 0).first;
  EXPECT_FALSE(own.numbers.contains(std::string(number::ratio_gap))) << "it is 1 by definition";
  EXPECT_EQ(number_of(own, number::logprob_gap), 0);
}

TEST(FirstUpdate, ARateOfZeroMovesNothing) {
  UpdateOptions options = first_options(config::OldLogProbs::behavior);
  options.config.actor_train.training_args.learning_rate = 0;
  const plan::FirstStep step = updates_of(std::move(options), 0).first;
  EXPECT_EQ(number_of(step, number::rate_max), 0);
  EXPECT_EQ(number_of(step, number::moved), 0);
  EXPECT_EQ(findings_of(step), Names{"learning_rate_zero "});
}

TEST(FirstUpdate, SwitchedOffItMeasuresNothingAndTrainsTheSame) {
  UpdateOptions options = first_options(config::OldLogProbs::behavior);
  FirstRig with, without;
  const auto on =
      PolicyUpdater(options).update(*with.engine, control::UpdateRequest{}, with.batch(0.0f));
  options.config.self_checks = false;
  const auto off =
      PolicyUpdater(options).update(*without.engine, control::UpdateRequest{}, without.batch(0.0f));
  ASSERT_TRUE(on && off);
  EXPECT_EQ(on->param_hash, off->param_hash);
  for (const auto& [name, value] : off->metrics)
    EXPECT_FALSE(name.starts_with(plan::k_check_prefix)) << name << value;
}

}  // namespace
}  // namespace cohort::actors
