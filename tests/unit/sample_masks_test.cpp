// ROLL's masks: which answers count in their group and do not train.
#include "actors/roles/sample_masks.hpp"

#include <gtest/gtest.h>

#include "actors/roles/loss_columns.hpp"
#include "actors/roles/policy_update.hpp"

namespace cohort::actors {
namespace {

proto::Trajectory masks_answer(uint32_t group, double score, size_t tokens,
                               const std::string& stop_reason) {
  proto::Trajectory t;
  t.key.group = group;
  t.tag = "answer";
  t.score = score;
  t.stop_reason = stop_reason;
  t.tokens.assign(1 + tokens, 7);
  t.response_mask.assign(1 + tokens, 1);
  t.response_mask[0] = 0;
  t.behavior_logp.assign(1 + tokens, -1.F);
  return t;
}

const std::vector<proto::Trajectory> k_masks_batch = {
    masks_answer(0, 1, 2, "answered"), masks_answer(0, 0, 4, "length"),
    masks_answer(1, 1, 3, "answered"), masks_answer(1, 1, 5, "length"),
    masks_answer(2, 0, 1, "answered"), masks_answer(2, 0, 6, "answered")};

std::vector<uint8_t> trained(const config::RlvrSection& asked) {
  std::vector<double> scores;
  std::vector<uint32_t> groups;
  for (const proto::Trajectory& t : k_masks_batch) {
    scores.push_back(t.score);
    groups.push_back(t.key.group);
  }
  return trained_samples(asked, k_masks_batch, scores, groups);
}

using Trained = std::vector<uint8_t>;

TEST(SampleMasks, EachMaskTakesItsOwnAnswers) {
  config::RlvrSection cut, difficult, long_errors;
  cut.max_len_mask = true;
  EXPECT_EQ(trained(cut), (Trained{1, 0, 1, 0, 1, 1}));
  difficult.difficulty_mask = true;  // 0 < mean < 1
  EXPECT_EQ(trained(difficult), (Trained{1, 1, 0, 0, 0, 0}));
  long_errors.error_max_len_clip = true;
  long_errors.error_max_len_threshold = 4;
  EXPECT_EQ(trained(long_errors), (Trained{1, 1, 1, 1, 1, 0}));
  cut.difficulty_mask = true;
  EXPECT_EQ(trained(cut), (Trained{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(trained({}), Trained(6, 1));
}

// 1.5 - {0, 1/2, 1}, over their mean 1.
TEST(SampleMasks, LongAnswersWeighLess) {
  EXPECT_EQ(length_weights(std::vector<uint32_t>{2, 4, 6}), (std::vector<double>{1.5, 1, .5}));
  EXPECT_EQ(length_weights(std::vector<uint32_t>{3, 3}), (std::vector<double>{1, 1}));
  EXPECT_TRUE(length_weights({}).empty());
  config::RunConfig config;
  config.pipeline = config::Pipeline::rlvr;
  config.rlvr.length_loss_weight = true;
  PackedBatch packed = pack(k_masks_batch);
  packed.trained = {1, 0, 1, 1, 1, 1};
  weigh_lengths(config, k_masks_batch, {{0, 4}, {4, 6}}, packed);  // 2, 3 and 5 tokens; 1 and 6
  ASSERT_EQ(packed.weights.size(), packed.mask.size());
  const double mean = (1.5 + (1.5 - 1.0 / 3) + .5) / 3;
  EXPECT_NEAR(packed.weights[0], 1.5 / mean, 1e-6);
  EXPECT_NEAR(packed.weights[static_cast<size_t>(packed.cu_seqlens[3])], .5 / mean, 1e-6);
  EXPECT_EQ(packed.weights[static_cast<size_t>(packed.cu_seqlens[1])], 1);  // does not train
  EXPECT_NEAR(packed.weights.back(), .5, 1e-6);
}

TEST(SampleMasks, AMaskedAnswerCountsInItsGroupAndHasNoTokens) {
  config::RunConfig config;
  config.pipeline = config::Pipeline::rlvr;
  config.adv_estimator = config::AdvEstimator::grpo;
  config.rlvr.max_len_mask = true;
  PackedBatch packed = pack(k_masks_batch);
  const auto metrics = fill_advantages(config, 0, k_masks_batch, packed);
  ASSERT_TRUE(metrics) << metrics.error().detail;
  EXPECT_NEAR(metrics->untrained, 1.0 / 3, 1e-12);
  // (1 - 0.5) / (0.7071 + 1e-6): the answer that was cut is in mean and deviation.
  EXPECT_NEAR(packed.advantages[1], 0.7071058, 1e-5);
  for (size_t t = 3; t < 8; ++t) {
    EXPECT_EQ(packed.mask[t], 0) << t;
    EXPECT_EQ(packed.advantages[t], 0) << t;
  }
}

}  // namespace
}  // namespace cohort::actors
