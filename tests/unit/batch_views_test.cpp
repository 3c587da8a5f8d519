#include "actors/roles/batch_views.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "actors/roles/trainer_actor.hpp"

namespace cohort::actors {
namespace {

using proto::Trajectory;

/// An answer of `sampled` tokens to a prompt of two.
Trajectory answer(uint32_t group, double score, uint32_t sampled) {
  Trajectory t;
  t.key = {TrajectoryKind::train, 4, group, 0};
  t.score = score;
  t.stop_reason = "eos";
  t.reward_parts = {{"acc", score, 1, ""}};
  t.tokens.assign(2 + sampled, 7);
  t.response_mask.assign(2 + sampled, 1);
  t.response_mask[0] = t.response_mask[1] = 0;
  t.behavior_logp.assign(2 + sampled, -0.5F);
  t.turns = {{2, 2 + sampled, 0, true, true, "what is 1+1?", "it is ```2```"}};
  return t;
}

const Histogram* find(const NamedHistograms& named, const std::string& name) {
  const auto found = std::ranges::find(named, name, &NamedHistograms::value_type::first);
  return found == named.end() ? nullptr : &found->second;
}

uint64_t count(const NamedHistograms& named, const std::string& name) {
  const Histogram* found = find(named, name);
  uint64_t sum = 0;
  if (found != nullptr)
    for (uint64_t each : found->counts) sum += each;
  return sum;
}

TEST(BatchViews, ScoresAreOfAnswersThatWerePlayedAndScored) {
  std::vector<Trajectory> batch = {answer(0, 1, 3), answer(1, -2, 5), answer(2, 9, 1),
                                   answer(3, 8, 1), answer(4, 0, 2)};
  batch[2].is_greedy = true;
  batch[3].metrics = {{std::string(proto::k_demonstration), 1}};
  batch[4].mask_reason = "rewards.acc: it hung";
  const NamedHistograms found = batch_histograms(batch);
  const Histogram* scores = find(found, "rollout/score");
  ASSERT_NE(scores, nullptr);
  EXPECT_EQ(scores->least, -2);
  EXPECT_EQ(scores->greatest, 1);
  EXPECT_EQ(count(found, "rollout/score"), 2U);
  EXPECT_EQ(count(found, "rewards/acc"), 2U);
  EXPECT_EQ(count(found, "rollout/response_length"), 3U) << "the masked one was played";
  EXPECT_EQ(find(found, "rollout/response_length")->greatest, 5);
  EXPECT_EQ(find(found, "rollout/prompt_length")->least, 2);
}

TEST(BatchViews, TheRowHasTheRangeOfWhatWasPlayed) {
  std::vector<Trajectory> batch = {answer(0, 9, 1), answer(1, 1, 3), answer(2, -2, 5)};
  batch[0].is_greedy = true;
  std::map<std::string, double> row;
  for (const auto& [name, value] : rollout_metrics(batch)) row[name] = value;
  EXPECT_EQ(row.at("rollout/score/max"), 1) << "the greedy answer is apart";
  EXPECT_EQ(row.at("rollout/score/min"), -2);
  EXPECT_EQ(row.at("rollout/score/mean"), -0.5);
  EXPECT_EQ(row.at("rollout/response_length/max"), 5);
  EXPECT_EQ(row.at("rollout/response_length/min"), 3);
  EXPECT_EQ(row.at("rollout/prompt_length/max"), 2);
}

TEST(BatchViews, PartsAreBounded) {
  Trajectory t = answer(0, 1, 3);
  t.reward_parts.clear();
  for (int i = 0; i < 100; ++i) t.reward_parts.push_back({"part " + std::to_string(i), 1, 1, ""});
  EXPECT_EQ(batch_histograms({t}).size(), 3 + k_part_histograms_max);
}

TEST(BatchViews, AnAnswerIsShownWithItsPromptAndItsReward) {
  std::vector<Trajectory> batch = {answer(0, 1, 3), answer(1, -2, 5)};
  batch[0].is_greedy = true;
  const std::string text = shown_answer(batch);
  EXPECT_NE(text.find("Trajectory 4/1/0: reward **-2**, ended by eos, acc -2 (weight 1)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("```\nwhat is 1+1?\n```"), std::string::npos) << text;
  EXPECT_NE(text.find("````\nit is ```2```\n````"), std::string::npos)
      << "what the policy says ends no fence: " << text;
  EXPECT_EQ(shown_answer({}), "");
}

TEST(BatchViews, ALongAnswerIsCutBetweenCharacters) {
  Trajectory t = answer(0, 1, 3);
  t.mask_reason = std::string(proto::k_left_out) + std::string(100'000, 'm');
  t.reward_parts.assign(1000, {std::string(1000, 'p'), 1, 1, ""});
  for (int i = 0; i < 9999; ++i) t.turns[0].response += "ü";
  t.turns.resize(50, t.turns[0]);
  const std::string text = shown_answer({t});
  EXPECT_LE(text.size(), k_shown_answer_bytes_max);
  EXPECT_NE(text.find("more turns)"), std::string::npos);
  EXPECT_NE(text.find("ü\n```"), std::string::npos);
  t.turns[0].observation = t.turns[0].response = std::string(100'000, '`');
  EXPECT_LE(shown_answer({t}).size(), k_shown_answer_bytes_max);
  EXPECT_NE(shown_answer({t}), "");
}

TEST(BatchViews, AnUpdateCountsResponseTokens) {
  std::vector<Trajectory> batch = {answer(0, 1, 3), answer(1, -2, 5)};
  PackedBatch packed = pack(batch);
  packed.advantages = {9, 9, 1, 1, 1, 9, 9, -1, -1, -1, -1, -1};
  NamedHistograms found = update_histograms(config::OldLogProbs::behavior, batch, packed);
  EXPECT_EQ(count(found, "critic/advantages"), 8U);
  EXPECT_EQ(find(found, "critic/advantages")->greatest, 1);
  EXPECT_EQ(count(found, "rollout/logp"), 8U);
  EXPECT_EQ(found.size(), 2U) << "nothing was recomputed, and there is no reference";
  packed.old_logp.assign(packed.mask.size(), -0.25F);
  packed.ref_logp.assign(packed.mask.size(), -1.25F);
  batch[1].metrics = {{std::string(proto::k_demonstration), 1}};
  found = update_histograms(config::OldLogProbs::recomputed, batch, packed);
  EXPECT_EQ(*find(found, "old_log_probs/log_ratio"), (Histogram{0.25, 0.25, {3}}));
  EXPECT_EQ(*find(found, "critic/ref_log_ratio"), (Histogram{1, 1, {8}}));
  EXPECT_EQ(count(found, "rollout/logp"), 3U) << "nobody sampled the demonstration";
}

}  // namespace
}  // namespace cohort::actors
