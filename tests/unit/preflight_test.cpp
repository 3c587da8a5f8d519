#include "actors/run/preflight.hpp"

#include <gtest/gtest.h>

#include "runtime/plan/reshard/model_families.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::actors {
namespace {

std::string refusal(const std::vector<std::string>& overrides) {
  auto config = test::load_small(overrides);
  EXPECT_TRUE(config) << config.error().detail;
  if (!config) return "";
  auto plan = preflight(*config);
  EXPECT_FALSE(plan) << overrides.front();
  if (plan) return "";
  EXPECT_EQ(plan.error().code, Errc::config);
  return plan.error().detail;
}

TEST(Preflight, APlatformWithoutItsDevicesIsRefused) {
  auto text_of = [](const std::string& platform) {
    auto config = config::load(test::source_path("configs/frozen_lake.yaml"), {platform});
    auto plan = preflight(config.value());
    return plan ? std::string() : plan.error().detail;
  };
  const auto cuda = compute::list_devices(compute::DeviceKind::cuda);
  if (!cuda || cuda->empty()) {
    const std::string text = text_of("platform=cuda");
    EXPECT_EQ(text.find("override 'platform=cuda': platform: cuda"), 0u) << text;
    EXPECT_NE(text.find("platform=cpu runs on this host"), std::string::npos) << text;
  }
  if (!compute::list_devices(compute::DeviceKind::npu)) {
    EXPECT_NE(text_of("platform=npu").find("platform: npu: "), std::string::npos)
        << text_of("platform=npu");
  }
}

// load() takes what this version cannot run; the run refuses it by key, place and remedy.
TEST(Preflight, RefusesWhatIsNotBuilt) {
  EXPECT_EQ(refusal({"~adv_estimator"}),
            "adv_estimator: missing: its default gae needs a critic: give it cards "
            "(critic.device_mapping; the trainer's will do), or use grpo or reinforce");
  EXPECT_EQ(refusal({"custom_envs.Lake.env_type=deepeyes"}),
            "override 'custom_envs.Lake.env_type=deepeyes': custom_envs.Lake.env_type: deepeyes is "
            "not built in (built in: frozen_lake, sokoban, roll_math, roll_code, roll_qa, game:, "
            "plugin, webshop); take Lake out of the tags of "
            "the env managers");
}

TEST(Preflight, RefusesAModelThatIsNoFolder) {
  EXPECT_EQ(refusal({"pretrain=Qwen/Qwen2.5-0.5B"}),
            "pretrain: no folder 'Qwen/Qwen2.5-0.5B' (nothing is downloaded: give a local folder "
            "with config.json and safetensors, or random:<model>)");
}

TEST(Preflight, ListsAllOfThem) {
  std::string text =
      refusal({"kl_penalty=full", "actor_train.training_args.gradient_accumulation_steps=1",
               "actor_infer.generating_args.num_beams=4"});
  EXPECT_NE(text.find("kl_penalty: full is not built in"), std::string::npos) << text;
  EXPECT_NE(text.find("\n"), std::string::npos) << text;
  EXPECT_NE(text.find("num_beams: 4 is not built in: sampling only; use 1"), std::string::npos)
      << text;
}

TEST(Preflight, PlansTheWeightsOfATensorParallelRollout) {
  const std::string tp = "actor_infer.strategy_args.strategy_config.tensor_parallel_size=2";
  const std::vector<std::string> cards = {"num_gpus_per_node=3", tp,
                                          "actor_infer.device_mapping=list(range(1,3))"};
  auto load = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), cards.begin(), cards.end());
    return config::load(test::source_path("configs/frozen_lake.yaml"), overrides).value();
  };
  auto refused = preflight(load({}));  // 33 tokens
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("model.vocab_size=34 would do"), std::string::npos)
      << refused.error().detail;
  auto plan = preflight(load({"model.vocab_size=34"}));
  ASSERT_TRUE(plan) << plan.error().detail;
  const plan::ReshardPlan& weights = *plan->weights.at("actor_infer");
  EXPECT_EQ(weights.to.tp, 2U);
  EXPECT_EQ(weights.to.ranks, (std::vector<CardId>{{1}, {2}}));
  EXPECT_EQ(weights.receive_total(), weights.lower_bound_total());
}

TEST(Preflight, TheModelSectionNamesAFamily) {
  auto load = [](std::vector<std::string> overrides) {
    return config::load(test::source_path("configs/frozen_lake.yaml"), overrides).value();
  };
  auto llama = preflight(load(
      {"model.model_type=llama", "model.attention_bias=false", "model.tie_word_embeddings=false"}));
  ASSERT_TRUE(llama) << llama.error().detail;
  EXPECT_EQ(llama->model.family, "llama");
  EXPECT_FALSE(llama->model.attention_bias);
  EXPECT_EQ(llama->weights.at("actor_infer")->model,
            plan::reshard_tensors_of(llama->model, sizeof(float)));
  auto qwen = preflight(load({"model.model_type=qwen3", "model.attention_bias=false"}));
  ASSERT_TRUE(qwen) << qwen.error().detail;
  EXPECT_TRUE(qwen->model.qk_norm);
  auto experts =
      config::load(test::source_path("configs/frozen_lake.yaml"), {"model.model_type=qwen3_moe"});
  ASSERT_FALSE(experts);
  EXPECT_NE(experts.error().detail.find("qwen3_moe has routed experts"), std::string::npos)
      << experts.error().detail;
}

TEST(Preflight, APluginsWorldHasTheTurnsOfItsTag) {
  auto config =
      test::load_small({"custom_envs.Lake.env_type=plugin", "custom_envs.Lake.max_steps=12",
                        "++custom_envs.Lake.env_config.plugin=" +
                            test::source_path("examples/python/guess_number.py:GuessNumber"),
                        "++custom_envs.Lake.env_config.args.max_guesses=50",
                        "++custom_envs.Lake.env_config.sandbox.mode=rlimits"});
  ASSERT_TRUE(config) << config.error().detail;
  auto plan = preflight(*config);
  ASSERT_TRUE(plan) << plan.error().detail;
  auto world = plan->environments.at("Lake")->make();
  ASSERT_TRUE(world) << world.error().detail;
  (*world)->reset(3);
  for (int turns = 12; turns > 0; --turns) {
    EXPECT_EQ((*world)->actions_left(), turns);
    EXPECT_EQ((*world)->step("<answer>0</answer>").is_done, turns == 1);
  }
}

TEST(Preflight, TakesTheShippedConfig) {
  auto config = config::load(test::source_path("configs/frozen_lake.yaml"));
  ASSERT_TRUE(config) << config.error().detail;
  auto plan = preflight(*config);
  EXPECT_TRUE(plan) << plan.error().detail;
}

}  // namespace
}  // namespace cohort::actors
