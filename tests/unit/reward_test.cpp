// What a reward's result does to a trajectory, and what a reward sees of one.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/roles/reward_actor.hpp"
#include "tests/support/lake_tokenizer.hpp"

namespace cohort::actors {
namespace {

proto::Trajectory game() {
  proto::Trajectory t;
  t.tag = "Lake";
  t.tokens = {1, 2, 3};
  t.response_mask = {0, 1, 1};
  t.turns.resize(2);
  t.turns[0].observation = "P_G";
  t.turns[0].response = "<answer>Right</answer>";
  t.turns[0].env_reward = -0.01F;
  t.turns[1].response = "<answer>Up</answer><|im_end|>";
  t.turns[1].env_reward = 1;
  t.metrics = {{"success", 1}, {"num_actions", 2}};
  return t;
}

RewardFunction named(const std::string& name, double weight) {
  return {name, weight, {}, nullptr, {}};
}

TEST(Reward, ScoreIsTheWeightedSumAndNoColumnIsAddedForIt) {
  config::RunConfig config;
  config.rewards["env"].weight = 2;
  auto rewards = open_rewards(config);
  ASSERT_TRUE(rewards) << rewards.error().detail;
  proto::Trajectory t = game();
  add_result(rewards->front(), {rewards->front().of_trajectory(t), {}, "", ""}, t);
  add_result(named("short", -0.1), {2, {{"turns", 2}, {"broken", NAN}}, "two turns", ""}, t);
  finish_score(t, false);
  EXPECT_NEAR(t.score, 2 * 0.99 - 0.2, 1e-6);
  EXPECT_TRUE(t.token_rewards.empty()) << "a column that nobody reads would travel on every hop";
  ASSERT_EQ(t.reward_parts.size(), 3U);
  EXPECT_EQ(t.reward_parts[1].detail, "two turns");
  EXPECT_EQ(t.reward_parts[2], (proto::RewardPart{"short/turns", 2, 0, ""}));
}

TEST(Reward, AFailedOneMasksTheTrajectoryWithItsReason) {  // REWARD-3
  for (const tasks::RewardResult& bad : {tasks::RewardResult{0, {}, "", "timeout after 2 s"},
                                         tasks::RewardResult{NAN, {}, "", ""}}) {
    proto::Trajectory t = game();
    add_result(named("good", 1), {1, {}, "", ""}, t);
    add_result(named("mine", 1), bad, t);
    finish_score(t, false);
    EXPECT_EQ(t.mask_reason.find("rewards.mine: "), 0U) << t.mask_reason;
    EXPECT_EQ(t.score, 0);
    EXPECT_TRUE(proto::validate(t)) << "a NaN never leaves the reward";
  }
}

TEST(Reward, OfARowTheSuccessIsItsAccuracy) {
  proto::Trajectory t = game();
  add_result(named("math", 1), {-1, {{"acc", 1}}, "pred 3", ""}, t);
  finish_score(t, true);
  EXPECT_EQ(t.metrics[0].second, 1);
  proto::Trajectory plain = game();
  add_result(named("some", 1), {0.25, {}, "", ""}, plain);
  finish_score(plain, true);
  EXPECT_EQ(plain.metrics[0].second, 0.25);
}

TEST(Reward, OfAGameItSeesTheLastAnswerAndAllTurns) {
  tasks::RewardRow row =
      reward_row(game(), nullptr, *tasks::make_chatml(tests::lake_tokenizer()).value());
  EXPECT_EQ(row.response, "<answer>Up</answer>") << "special tokens are left out";
  EXPECT_TRUE(row.is_finished);
  EXPECT_EQ(row.prompt, "P_G");
  EXPECT_EQ(row.data_source, "Lake");
  EXPECT_EQ(row.response_tokens, 2U);
  auto columns = nlohmann::json::parse(row.columns);
  ASSERT_EQ(columns.at("turns").size(), 2U);
  EXPECT_EQ(columns.at("turns")[1].at("reward"), 1);
  EXPECT_EQ(columns.at("metrics").at("success"), 1);
}

TEST(Reward, APluginWithoutAPathAndAnUnknownOptionAreNamed) {
  config::RunConfig config;
  config.rewards["mine"].type = config::RewardType::plugin;
  auto missing = open_rewards(config);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().detail.find("rewards.mine: plugin: missing"), 0U)
      << missing.error().detail;
  config.rewards["mine"].type = config::RewardType::exact;
  config.rewards["mine"].plugin.args = R"({"markr": ";"})";
  auto unknown = open_rewards(config);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().detail.find("marker"), std::string::npos) << unknown.error().detail;
}

/// A scorer of another process, as slow as its test wants.
class SlowReward final : public tasks::Reward {
 public:
  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override {
    std::vector<tasks::RewardResult> results;
    for (const tasks::RewardRow& row : rows) results.push_back({std::stod(row.id), {}, "", ""});
    if (rows.size() > 1) results.pop_back();  // breaks the contract
    return results;
  }
  uint32_t concurrency() const override { return 2; }
};

TEST(RewardPool, EveryJobComesBackOnceWhateverTheRewardGives) {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, tasks::RewardResult> results;
  {
    RewardPool pool("slow", std::make_shared<SlowReward>(), [&](std::vector<Scored> scored) {
      std::lock_guard lock(mutex);
      for (Scored& each : scored)
        EXPECT_TRUE(results.emplace(each.place.trajectory, each.result).second);
      changed.notify_all();
    });
    std::vector<ScoreJob> jobs(100);
    for (size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].place.trajectory = i;
      jobs[i].row.id = std::to_string(i);
    }
    pool.submit(std::move(jobs));
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        changed.wait_for(lock, std::chrono::seconds(30), [&] { return results.size() == 100; }));
  }
  size_t errors = 0;
  for (const auto& [i, result] : results) {
    if (!result.error.empty())
      ++errors;
    else
      EXPECT_EQ(result.score, static_cast<double>(i));
  }
  EXPECT_GT(errors, 0U) << "fewer results than rows are an error of the rows that lack one";
}

}  // namespace
}  // namespace cohort::actors
