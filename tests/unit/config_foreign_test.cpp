// What ROLL's files carry and a run here would do otherwise: it is refused by its key, or noted.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/config/load.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::config::config_foreign_test {
namespace {

using test::k_small_config;
using test::load_small;

RunConfig loaded(Expected<RunConfig> result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().detail);
  return result ? *std::move(result) : RunConfig{};
}

std::string error_of_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto result = load_text(text, "t.yaml", overrides);
  return result ? "" : result.error().detail;
}

const Note* find(const std::vector<Note>& notes, const std::string& key) {
  const auto note = std::ranges::find(notes, key, &Note::key);
  return note == notes.end() ? nullptr : &*note;
}

constexpr const char* k_students = R"(
rollout_batch_size: 32
prompt_length: 64
response_length: 64
pretrain: Qwen/Qwen3-8B
student_train:
  model_args: {lora_target: all-linear, lora_rank: 8}
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 8}
  data_args: {file_name: [data/math.jsonl]}
  device_mapping: [0, 1]
student_infer: {device_mapping: [2]}
rewards: {math: {type: math_rule}}
)";
constexpr const char* k_teacher = R"(
teacher: {model_args: {model_name_or_path: Qwen/Qwen3-32B}, device_mapping: [3]}
)";

TEST(ConfigForeign, DistillationOfAnotherKindIsRefusedInARun) {
  const std::string text = std::string(k_students) + k_teacher;
  for (const auto& [more, key, said] :
       {std::tuple{"teachers: {a: {device_mapping: [3]}}\n", "teachers", "several teachers"},
        std::tuple{"teachers: [a, b]\n", "teachers", "several teachers"}}) {
    const RunConfig c = loaded(load_text(text + more, "t.yaml"));
    const std::vector<Note> refused = not_built(c);
    const Note* note = find(refused, key);
    ASSERT_NE(note, nullptr) << more;
    EXPECT_EQ(note->where, "t.yaml:15") << more;
    EXPECT_NE(note->text.find(said), std::string::npos) << note->text;
    const Note* warning = find(c.warnings, key);
    ASSERT_NE(warning, nullptr);
    EXPECT_TRUE(warning->text.starts_with(k_not_run)) << warning->text;
  }
  const RunConfig idle = loaded(load_text(text + "teachers: ~\n", "t.yaml"));
  EXPECT_EQ(find(not_built(idle), "teachers"), nullptr);
}

TEST(ConfigForeign, ATeacherMayReadTheSolution) {
  const std::string text = std::string(k_students) + k_teacher;
  const RunConfig c = loaded(load_text(
      text + "opsd_mode: true\nopsd_max_solution_length: 64\nsequence_length: 128\n", "t.yaml"));
  EXPECT_TRUE(c.opd.is_self && c.opd.is_pure);
  EXPECT_EQ(c.opd.solution_key, "reference_solution");
  EXPECT_EQ(c.opd.solution_tokens, 64);
  EXPECT_TRUE(not_built(c).empty());
  EXPECT_NE(find(c.warnings, "sequence_length"), nullptr) << "the policy's prompt fills it";
  EXPECT_NE(error_of_text(text + "opsd_mode: true\nopsd_teacher_template: \"{problem}\"\n")
                .find("opsd_teacher_template: has no {solution}"),
            std::string::npos);
}

TEST(ConfigForeign, AMissingTeacherIsToldByTheKeyThatAsks) {
  EXPECT_TRUE(
      error_of_text(std::string(k_students) + "opsd_mode: true\n")
          .starts_with("t.yaml:13:1: opsd_mode: needs a role `teacher` with a device_mapping"));
  EXPECT_TRUE(error_of_text(std::string(k_students) + "teachers: {a: {}}\n")
                  .starts_with("t.yaml:13:1: teachers: several teachers are not built in"));
  const std::string alone = error_of_text(k_students);
  EXPECT_TRUE(alone.starts_with(
      "t.yaml:6:1: student_train: needs a role `teacher` with a device_mapping; the policy without "
      "its adapter is no teacher"))
      << alone;
  const std::string map = error_of_text(std::string(k_students) +
                                        "teacher:\n  big: {model_args: {}}\n  other: "
                                        "{model_args: {}}\n");
  EXPECT_EQ(map.find("is_pure_opd"), std::string::npos) << map;
  EXPECT_TRUE(
      map.starts_with("t.yaml:14:3: unknown key 'teacher.big'; several teachers are not "
                      "built in"))
      << map;
}

TEST(ConfigForeign, WhatChangesTheLossOrTheRewardIsNeverSilent) {
  const std::string balance = "actor_train.model_args.moe_aux_loss_coef";
  EXPECT_NE(find(not_built(loaded(load_small({balance + "=0.01"}))), balance), nullptr);
  EXPECT_TRUE(not_built(loaded(load_small({balance + "=0.0"}))).empty());
  EXPECT_TRUE(
      not_built(loaded(load_small({"actor_infer.model_args.moe_aux_loss_coef=0.01"}))).empty());
  const std::string engine = "actor_train.strategy_args={strategy_name: ";
  const std::string config = ", strategy_config: {moe_z_loss_coeff: 0.001}}";
  const std::string router = "actor_train.strategy_args.strategy_config.moe_z_loss_coeff";
  EXPECT_NE(find(not_built(loaded(load_small({engine + "megatron_train" + config}))), router),
            nullptr);
  const std::string cross = "rewards.qa={worker_cls: roll.x.CrossThinkQARuleRewardWorker, ";
  const RunConfig graded =
      loaded(load_small({cross + "reward_type: soft, response_length_penalty_coef: 0.5}"}));
  EXPECT_TRUE(not_built(graded).empty());
  EXPECT_EQ(graded.rewards.at("qa").choice_grade, ChoiceGrade::soft);
  EXPECT_EQ(graded.rewards.at("qa").response_length_penalty_coef, 0.5);
  EXPECT_TRUE(
      not_built(loaded(load_small({"rewards.x={type: ifeval, reward_type: soft}"}))).empty())
      << "ROLL's other workers do not read it";
}

TEST(ConfigForeign, AWorkerOfVerlsScorersGoesByTheRowsDataSource) {
  const RunConfig c = loaded(
      load_small({"rewards.math={worker_cls: roll.pipeline.rlvr.rewards.gsm8k_math_reward_worker."
                  "GSM8KMathRewardWorker}"}));
  EXPECT_EQ(c.rewards.at("math").type, RewardType::data_source);
  EXPECT_TRUE(not_built(c).empty());
}

TEST(ConfigForeign, AFrozenTowerIsNoPartOfATextModel) {
  const std::string key = "actor_train.model_args.freeze_module_prefix";
  const RunConfig towers =
      loaded(load_small({key + "='vision_model,audio_model,talker,code2wav,model.visual'"}));
  EXPECT_EQ(find(not_built(towers), key), nullptr);
  EXPECT_NE(find(towers.notes, key), nullptr);
  EXPECT_NE(find(not_built(loaded(load_small({key + "='vision_model,model.layers.0'"}))), key),
            nullptr);
}

TEST(ConfigForeign, AllLinearIsTheSameAdapterAsTheNameOfEachLayer) {
  const std::string trained = "actor_train.model_args.lora_target=";
  const std::string sampled = "actor_infer.model_args.lora_target=";
  const auto note = [&](const std::string& infer) {
    const RunConfig c = loaded(load_small({trained + "all-linear", sampled + infer}));
    return find(not_built(c), "actor_infer.model_args.lora_target") != nullptr;
  };
  EXPECT_FALSE(note("'q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj'"));
  EXPECT_FALSE(note("'q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj'"));
  EXPECT_TRUE(note("'q_proj,k_proj,v_proj,o_proj'"));
}

TEST(ConfigForeign, OtherPipelinesAreNamed) {
  EXPECT_EQ(error_of_text("exp_name: wan\ndiffusion_model_variant: wan2_1\ngenerator: {}\n"),
            "t.yaml:2:1: a diffusion pipeline of ROLL's: models that draw images or videos are not "
            "built in; this version trains language models");
  EXPECT_TRUE(error_of_text(std::string(k_small_config) +
                            "rewards: {ocr: {worker_cls: roll.pipeline.diffusion.rewards.Q}}\n")
                  .find("a diffusion pipeline") != std::string::npos);
  EXPECT_TRUE(
      error_of_text(k_small_config, {"actor_infer.model_args={model_type: diffusion_model}"})
          .find("a diffusion pipeline") != std::string::npos);
  const std::string rollout = error_of_text(k_small_config, {"~actor_train.device_mapping"});
  EXPECT_NE(rollout.find("actor_train.device_mapping: missing: ROLL's agentic_rollout"),
            std::string::npos)
      << rollout;
  const std::string alone = error_of_text(k_small_config, {"~actor_train"});
  EXPECT_NE(alone.find("as ROLL's agentic_rollout does"), std::string::npos) << alone;
  EXPECT_EQ(error_of_text(k_small_config, {"dialect=verl"}),
            "override 'dialect=verl': dialect: verl's keys are read with --dialect verl; a file of "
            "ROLL's keys says roll, or nothing");
}

TEST(ConfigForeign, NobodyNeedsASecretThatNothingReads) {
  const std::string unset = "${oc.env:COHORT_NOT_SET}";
  const RunConfig c = loaded(load_text(std::string(k_small_config) + "world_size: 1\n" +
                                           "tracker_kwargs: {api_key: \"" + unset +
                                           "\", tags: [\"x-" + unset + "\"]}\n",
                                       "t.yaml"));
  EXPECT_NE(find(c.notes, "tracker_kwargs"), nullptr);
  EXPECT_NE(find(c.notes, "world_size"), nullptr);
  const std::string read = error_of_text(k_small_config, {"output_dir='" + unset + "'"});
  EXPECT_NE(read.find("environment variable COHORT_NOT_SET is not set"), std::string::npos) << read;
}

TEST(ConfigForeign, ALeadingZeroIsNoNumber) {
  EXPECT_EQ(error_of_text(std::string("seed: 010\n") + k_small_config),
            "t.yaml:1:7: seed: expected an integer of at least 0, got '010'; a 0 in front makes it "
            "octal in YAML 1.1: write 10, or 0x8 for octal 10");
  EXPECT_EQ(error_of_text(std::string("seed: 0_9\n") + k_small_config),
            "t.yaml:1:7: seed: expected an integer of at least 0, got '0_9'; a 0 in front makes it "
            "octal in YAML 1.1: write 9");
  EXPECT_NE(error_of_text(std::string("gamma: 01\n") + k_small_config).find("write 1"),
            std::string::npos);
  EXPECT_NE(error_of_text(std::string("gamma: 00\n") + k_small_config).find("write 0"),
            std::string::npos);
  EXPECT_EQ(error_of_text(std::string("seed: 0\ngamma: 0.50\nrewards: {a: {weight: -0}}\n") +
                          k_small_config),
            "");
  const RunConfig c = loaded(load_text(std::string("seed: 0x10\n") + k_small_config, "t.yaml"));
  EXPECT_EQ(c.seed, 16);
  EXPECT_EQ(loaded(load_small({"exp_name='007'"})).exp_name, "007");
  EXPECT_NE(loaded(load_small({"exp_name='007'"})).resolved_yaml.find("exp_name: \"007\""),
            std::string::npos);
}

TEST(ConfigForeign, WhatFailsLaterIsRefusedBefore) {
  const std::string plugin =
      "custom_envs.Lake={env_type: plugin, max_tokens_per_step: 4, agent_template: "
      "'{observation}', env_config: {plugin: world.py:World}}";
  const std::vector<Note> played = not_built(loaded(load_small(
      {plugin, "warm_start.steps=2", "warm_start.rounds=1", "warm_start.warmup_steps=0"})));
  const Note* note = find(played, "warm_start.steps");
  ASSERT_NE(note, nullptr);
  EXPECT_NE(note->text.find("the plugin that plays Lake has none; use 0"), std::string::npos);
  EXPECT_TRUE(not_built(loaded(load_small({plugin}))).empty());
  for (const char* name : {"exp_name=../../x", "exp_name=/tmp/x", "exp_name=a/../../b"})
    EXPECT_NE(error_of_text(k_small_config, {name}).find("leaves output_dir"), std::string::npos)
        << name;
  EXPECT_EQ(error_of_text(k_small_config, {"exp_name=team/a..b"}), "");
  const std::string key = "actor_infer.generating_args.temperature";
  EXPECT_NE(find(loaded(load_small({key + "=0"})).warnings, key), nullptr);
  EXPECT_EQ(find(loaded(load_small()).warnings, key), nullptr);
}

}  // namespace
}  // namespace cohort::config::config_foreign_test
