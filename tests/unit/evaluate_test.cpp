// What `actor-node evaluate` computes where the golden cases do not reach, with the numbers of the
// systems named in the tests, and what it refuses: a case that is wrong costs itself alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

Expected<Json> computed(const std::string& kind, const std::string& params,
                        const std::string& inputs) {
  Case in({{"kind", kind}, {"params", Json::parse(params)}, {"inputs", Json::parse(inputs)}},
          Precision::f64);
  return outputs_of(in);
}

std::string problem_of(const std::string& kind, const std::string& params,
                       const std::string& inputs) {
  const Expected<Json> outputs = computed(kind, params, inputs);
  return outputs ? "none: " + outputs->dump() : outputs.error().detail;
}

/// The output `name`, its numbers in order.
std::vector<double> numbers_of(const Expected<Json>& outputs, const char* name) {
  EXPECT_TRUE(outputs) << (outputs ? "" : outputs.error().detail);
  if (!outputs || !outputs->contains(name)) return {NAN};
  std::vector<double> numbers;
  const Json flat = Json{{"x", (*outputs)[name]}}.flatten();
  for (const Json& x : flat) numbers.push_back(x.get<double>());
  return numbers;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                 double tolerance = 1e-6) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

void expect_part(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// A token that has become 11 times as likely as it was, with a bad outcome.
constexpr const char* k_worse =
    R"({"log_probs": [[-0.1]], "old_log_probs": [[-2.5]], "advantages": [[-1]], "mask": [[1]]})";
/// Ratios 2 and 1.
constexpr const char* k_two = R"({"log_probs": [[-1, -2]], "mask": [[1, 1]],
    "old_log_probs": [[-1.69314718056, -2]], "advantages": [[1, 1]]})";

double loss_of(const char* inputs, const std::string& params) {
  return numbers_of(computed("policy_loss", params, inputs), "loss")[0];
}

TEST(EvaluateLoss, BypassModeIsPpoClipWithItsDualClipUnlessAskedOtherwise) {
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "bypass_mode"})"), 3, 1e-9);  // verl: c is 3
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "bypass_mode", "loss_type": "ppo_clip",
                                   "rollout_is": "token", "clip_ratio_c": 2})"),
              2, 1e-9);  // verl computes weights there and does not apply them
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "bypass_mode", "loss_type": "reinforce"})"), -.1, 1e-9);
}

TEST(EvaluateLoss, BypassModeHasNormalisedWeightsRejectionsAndIcepop) {
  const char* form = R"({{"loss": "bypass_mode", "loss_type": "reinforce", {}}})";
  const auto loss = [&](const char* more) {
    return loss_of(k_two, fmt::format(fmt::runtime(form), more));
  };
  EXPECT_NEAR(loss(R"("rollout_is": "token")"), (2 * 1 + 1 * 2) / 2., 1e-9);
  EXPECT_NEAR(loss(R"("rollout_is": "token", "rollout_is_batch_normalize": true)"),
              (2 * 1 + 1 * 2) / 2. / 1.5, 1e-6);
  EXPECT_NEAR(loss(R"("rollout_is": "token", "rollout_is_threshold": "0.5_1.5")"), 2 / 2., 1e-9);
  EXPECT_NEAR(loss(R"("rollout_rs": "token_k1", "rollout_rs_threshold": "0.6_1.5")"), 2, 1e-9);
  expect_part(problem_of("policy_loss",
                         fmt::format(fmt::runtime(form), R"("rollout_is": "segment")"), k_two),
              "rollout_is 'segment' is unknown");
}

TEST(EvaluateLoss, RollsDualClipBoundIsOfPgClipBesideARange) {
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "ppo", "dialect": "roll", "pg_clip": 0.2,
                                   "pg_clip_low": 0.05, "pg_clip_high": 0.3, "dual_clip": true})"),
              1.4, 1e-9);
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "ppo", "dialect": "roll", "pg_clip_low": 0.05,
                                   "pg_clip_high": 0.3, "dual_clip": true})"),
              1.4, 1e-9);
}

TEST(EvaluateLoss, TheUpperClipFallsBackToTheOneForBoth) {
  const char* gain =
      R"({"log_probs": [[-1]], "old_log_probs": [[-3]], "advantages": [[1]], "mask": [[1]]})";
  EXPECT_NEAR(loss_of(gain, R"({"loss": "vanilla", "clip_ratio_low": 0.1})"), -1.2, 1e-9);
  EXPECT_NEAR(loss_of(gain, R"({"loss": "vanilla", "clip_ratio_low": 0.1, "clip_ratio": 0.3})"),
              -1.3, 1e-9);
}

TEST(EvaluateLoss, TisIsClampedByItsBounds) {
  const char* tis = R"({{"loss": "tis", "dialect": "roll", "lower": {}, "upper": {}}})";
  const auto params = [&](double low, double high) {
    return fmt::format(fmt::runtime(tis), low, high);
  };
  EXPECT_NEAR(loss_of(k_worse, params(0, 1.2)), -.12, 1e-9);
  EXPECT_NEAR(loss_of(k_worse, params(20, 30)), -2, 1e-9);
  expect_part(problem_of("policy_loss", params(2, 1), k_worse), "'lower' is above 'upper'");
}

TEST(EvaluateLoss, GeoMeanTakesTheGeometricMeanOfWeights) {
  const auto found = computed("policy_loss", R"({"loss": "geo_mean"})",
                              R"({"log_probs": [[-1, -1]], "old_log_probs": [[-1, -1]],
          "advantages": [[1, 1]], "mask": [[1, 1]], "rollout_is_weights": [[0.5, 2]]})");
  expect_near(numbers_of(found, "loss"), {-1});
  expect_near(numbers_of(found, "grad_log_probs"), {-.5, -.5});
}

TEST(EvaluateLoss, OtherSystemsKeys) {
  EXPECT_NEAR(loss_of(k_worse, R"({"loss": "decoupled_ppo", "dialect": "areal",
                                   "use_decoupled_loss": false})"),
              std::exp(2.4), 1e-9);
  const char* cispo = R"({{"loss": "cispo", "dialect": "trl", "epsilon_high": 2, "delta": {},
                          "loss_agg_mode": "token-mean"}})";
  EXPECT_NEAR(loss_of(k_worse, fmt::format(fmt::runtime(cispo), "null")), -.2, 1e-9);
  expect_part(problem_of("policy_loss", fmt::format(fmt::runtime(cispo), "2"), k_worse),
              "'delta' is of ppo");
}

TEST(EvaluateLoss, TheAggregationHasTheDialectsDefault) {
  const char* rows = R"({"log_probs": [[-1, -1], [-4, 0]], "old_log_probs": [[-1, -1], [-4, 0]],
                         "advantages": [[1, 1], [1, 0]], "mask": [[1, 1], [1, 0]]})";
  EXPECT_NEAR(loss_of(rows, R"({"loss": "gpg"})"), 6 / 3., 1e-9);
  EXPECT_NEAR(loss_of(rows, R"({"loss": "vanilla", "dialect": "roll"})"), (1 + 4) / 2., 1e-9);
  expect_part(problem_of("policy_loss", R"({"loss": "grpo", "dialect": "trl"})", rows),
              "'loss_agg_mode' is missing");
  const char* values = R"({"values": [[1, 1]], "returns": [[3, 2]], "mask": [[1, 1]]})";
  expect_near(numbers_of(computed("value_loss", "{}", values), "loss"), {(2 + .5) / 2});
}

TEST(EvaluateLoss, ASplitHasNoMorePartsThanRows) {
  const char* split = R"({{"loss": "vanilla", "dp": {}, "micro_batches_per_rank": {}}})";
  for (const auto& [ranks, each] :
       {std::pair{2147483648, int64_t{1}}, std::pair{int64_t{1}, int64_t{2}},
        std::pair{INT64_MAX, INT64_MAX}})
    expect_part(problem_of("split", fmt::format(fmt::runtime(split), ranks, each), k_worse),
                "dp times micro_batches_per_rank is above the 1 rows");
  expect_near(
      numbers_of(computed("split", fmt::format(fmt::runtime(split), 1, 1), k_worse), "loss"), {3});
}

/// TRL's GRPOTrainer on one column of rewards per function.
std::vector<double> trl(const char* params, const char* rewards) {
  const std::string text = fmt::format(R"({{"estimator": "grpo", "dialect": "trl", {}}})", params);
  return numbers_of(computed("advantage", text, fmt::format(R"({{"rewards": {}}})", rewards)),
                    "advantages");
}

TEST(EvaluateTrl, AMissingRewardLeavesTheMomentsOfItsColumn) {
  const double near = .5 / (std::sqrt(.5) + 1e-4), far = 1 / (std::sqrt(2.) + 1e-4);
  const std::vector<double> sums{-near, near, -near - far, near + far};  // a lone value counts 0
  double squares = 0;
  for (double x : sums) squares += x * x;
  const double spread = std::sqrt(squares / 3) + 1e-4;
  std::vector<double> wanted;
  for (double x : sums) wanted.push_back(x / spread);
  expect_near(trl(R"("num_generations": 2, "reward_weights": [1, 1],
                     "multi_objective_aggregation": "normalize_then_sum")",
                  "[[1, null], [2, 1], [0, 3], [1, 5]]"),
              wanted);
}

TEST(EvaluateTrl, ARowAloneInItsGroupGetsNothing) {
  const double near = .5 / (std::sqrt(.5) + 1e-4);
  for (const char* scale : {"group", "batch", "none"}) {
    const std::string params =
        fmt::format(R"("num_generations": 2, "reward_weights": [1], "scale_rewards": "{}")", scale);
    const auto found = trl(params.c_str(), "[[5], [null], [1], [2]]");
    EXPECT_EQ(found[0], 0) << scale;
    EXPECT_EQ(found[1], 0) << scale;
    if (scale == std::string("group")) expect_near(found, {0, 0, -near, near});
  }
  expect_near(trl(R"("num_generations": 1, "reward_weights": [1])", "[[5], [2]]"), {0, 0});
}

TEST(EvaluateTrl, RowsAreWholeGroups) {
  expect_part(problem_of("advantage",
                         R"({"estimator": "grpo", "dialect": "trl", "num_generations": 3,
                             "reward_weights": [1]})",
                         R"({"rewards": [[1], [2], [3], [4]]})"),
              "'num_generations' does not divide the 4 rows");
}

TEST(EvaluateAdvantage, AGroupIsWhatHasOneLabel) {
  const char* rewards = R"({{"token_rewards": [[1], [2], [4]], "mask": [[1], [1], [1]],
                            "group": {}}})";
  const auto rloo = [&](const char* groups) {
    return numbers_of(computed("advantage", R"({"estimator": "rloo"})",
                               fmt::format(fmt::runtime(rewards), groups)),
                      "advantages");
  };
  for (const char* groups : {"[0, 4294967296, 0]", "[0, 0.4, 0]", R"(["a", "b", "a"])",
                             "[9007199254740993, 9007199254740992, 9007199254740993]"})
    expect_near(rloo(groups), {-3, 2, 3});
  expect_part(problem_of("advantage", R"({"estimator": "rloo"})",
                         fmt::format(fmt::runtime(rewards), "[0, null, 0]")),
              "'group' holds null");
  const auto kept =
      computed("group_filter", "{}", R"({"scores": [0, 1, 1, 1], "group": ["a", "a", "b", "b"]})");
  expect_near(numbers_of(kept, "keep_rows"), {1, 1, 0, 0});
}

TEST(EvaluateCorrection, SequenceWeightsAreNormalisedOverLiveSequences) {
  const auto found =
      computed("is_weights", R"({"rollout_is": "sequence", "rollout_is_batch_normalize": true})",
               R"({"old_log_probs": [[-1], [-1]], "rollout_log_probs": [[-1.2], [-1]],
                                  "mask": [[1], [0]]})");
  expect_near(numbers_of(found, "weights"), {1, 0});
}

TEST(EvaluateCorrection, NoRejectionLeavesTheMask) {
  const char* gap = R"({"old_log_probs": [[-1, 0]], "rollout_log_probs": [[-9, 0]],
                        "mask": [[1, 0]]})";
  for (const char* params :
       {R"({"rollout_rs": "", "rollout_rs_threshold": "1"})", R"({"rollout_rs": null})"})
    expect_near(numbers_of(computed("rejection", params, gap), "mask"), {1, 0});
}

TEST(EvaluateKl, TheControllersKlCountsAnEmptyRow) {
  const auto found = computed("kl_reward", R"({"kl_penalty": "kl", "kl_coef": 0.1})",
                              R"({"scores": [1, 0], "old_log_probs": [[-1], [-1]],
                                  "ref_log_probs": [[-2], [-1]], "mask": [[1], [0]]})");
  expect_near(numbers_of(found, "current_kl"), {.5});
}

TEST(EvaluateAdmission, VerlsThresholdMayBeNone) {
  const char* steps = R"({"global_step": 50, "prompt_step": 1})";
  const auto evicted = [&](const char* params) {
    return numbers_of(computed("verl_v1", params, steps), "is_evicted")[0];
  };
  EXPECT_EQ(evicted(R"({"max_off_policy_threshold": null})"), 0);
  EXPECT_EQ(evicted(R"({"max_off_policy_threshold": 8})"), 1);
}

TEST(EvaluateOthers, TrlsKeys) {
  const auto capped = computed("overlong", R"({"max_response_length": 10, "overlong_buffer_len": 5,
                                              "penalty_factor": 0.5, "cap": true})",
                               R"({"lengths": [4, 7, 10, 20]})");
  expect_near(numbers_of(capped, "penalty"), {0, -.2, -.5, -.5});
  const char* pairs = R"({"policy_chosen": [-1], "policy_rejected": [-1], "length_chosen": [1],
                          "length_rejected": [1]})";
  expect_near(
      numbers_of(computed("preference", R"({"loss": "simpo", "beta": 2, "simpo_gamma": 1})", pairs),
                 "loss"),
      {std::log1p(std::exp(1.))});
}

// A crash here would take the cases behind it along.
TEST(EvaluateRefuses, ArraysWithoutNumbersInEveryInput) {
  const char* vanilla = R"({"loss": "vanilla"})";
  const auto with = [](const char* name, const char* value) {
    Json inputs = Json::parse(k_worse);
    inputs["rollout_log_probs"] = Json::parse("[[-1]]");
    inputs[name] = Json::parse(value);
    return inputs.dump();
  };
  for (const char* name : {"mask", "log_probs", "old_log_probs", "advantages"})
    for (const char* value : {R"([["a"]])", "[1]", "[[[1]]]", "[[]]", "[]", "3", "[[1, 1], [1]]"})
      for (const char* params :
           {vanilla, R"({"loss": "decoupled_ppo", "dialect": "areal"})", R"({"loss": "kl_cov"})",
            R"({"loss": "bypass_mode", "rollout_rs": "token_k1", "rollout_rs_threshold": 2})"})
        expect_part(problem_of("policy_loss", params, with(name, value)), "inputs: '");
  expect_part(problem_of("preference", R"({"loss": "sigmoid", "beta": 0.1})",
                         R"({"policy_chosen": [1], "policy_rejected": [1], "ref_chosen": [1],
                             "ref_rejected": [1], "mask": [[1]]})"),
              "'mask' holds [1] in the place of a number");
}

TEST(EvaluateRefuses, WhatTheSystemsRefuse) {
  struct Row {
    const char *kind, *params, *inputs, *problem;
  };
  const char* kl = R"({"current_kl": [1]})";
  for (const Row& row : {
           Row{"opd", R"({"kl_penalty": "full"})",
               R"({"sampled_log_probs": [[-1]], "teacher_log_probs": [[-2]], "mask": [[1]]})",
               "'kl_penalty' is no estimator of the catalogue: full"},
           Row{"kl_controller", R"({"type": "adaptive", "kl_coef": 1, "target_kl": 0})", kl,
               "'target_kl' is not above 0"},
           Row{"kl_controller",
               R"({"type": "adaptive", "kl_coef": 1, "target_kl": 1, "horizon": 0})", kl,
               "'horizon' is not above 0"},
           Row{"policy_loss", R"({"loss": "vanilla", "clip_ratio_c": 1})", k_worse,
               "'clip_ratio_c' is not above 1"},
           Row{"whiten", "{}", R"({"values": [[1, "NaN", 2]], "mask": [[1, 1, 1]]})",
               "the value of token 1 is not finite"},
           Row{"overlong", R"({"max_response_length": 10, "overlong_buffer_len": 5})",
               R"({"lengths": [-1]})", "'lengths' holds -1, no whole number"},
           Row{"overlong", R"({"max_response_length": 10, "overlong_buffer_len": 5})",
               R"({"lengths": [1.5]})", "'lengths' holds 1.5, no whole number"},
           Row{"entropy", "{}", R"({"logits": [[[]]], "mask": [[1]]})",
               "'logits' has an empty vocabulary"},
           Row{"distillation", R"({"beta": 0.5})",
               R"({"student_logits": [[[]]], "teacher_logits": [[[]]], "mask": [[1]]})",
               "'student_logits' has an empty vocabulary"},
           Row{"areal",
               R"({"max_head_offpolicyness": 18446744073709551615, "consumer_batch_size": 1,
                   "max_concurrent_rollouts": 1})",
               R"({"version": 1, "running": 1, "accepted": 1})", "no integer"},
       })
    expect_part(problem_of(row.kind, row.params, row.inputs), row.problem);
}

TEST(EvaluateRefuses, MasksOfOtherNumbersAndInputsOfNoKind) {
  expect_part(problem_of("whiten", "{}", R"({"values": [[1, 2]], "mask": [[1, 0.5]]})"),
              "'mask' holds 0.5; a mask holds 0 and 1");
  expect_part(problem_of("whiten", "{}", R"({"values": [[1, 2]], "mask": [[1, null]]})"),
              "'mask' holds nan; a mask holds 0 and 1");
  EXPECT_TRUE(computed("whiten", "{}", R"({"values": [[1, 2]], "mask": [[true, false]]})"));
  expect_part(problem_of("whiten", "{}", R"({"values": [[1]], "mask": [[1]], "masks": [[1]]})"),
              "inputs: 'masks' is unknown here; known: mask, values");
}

}  // namespace
}  // namespace cohort::evaluate
