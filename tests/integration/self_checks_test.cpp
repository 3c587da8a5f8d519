// A fault that is planted in a run gives its warning at step 1, and no other; a healthy run none.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/byte_folder.hpp"
#include "tests/support/recovery.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::Process;
using test::run_folder;
using test::source_path;
using test::TempFolder;
using Words = std::vector<std::string>;
using Names = std::set<std::string>;

/// What the checks told the stream of a run.
Names checks_of(const std::string& run) {
  Names names;
  for (const nlohmann::json& event : test::read_stream(run).of_kind("self_check")) {
    EXPECT_TRUE(names.insert(event.at("entry").at("check").get<std::string>()).second) << event;
    EXPECT_EQ(event.at("step"), 1);
  }
  return names;
}

/// Runs the command, which is to end well, and returns what the checks told.
Names told_by(const Words& command, const TempFolder& folder) {
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  const Names names = checks_of(run_folder(run));
  const std::string shown = run.out() + run.err();
  for (const std::string& name : names)
    EXPECT_NE(shown.find("first step: " + name + ": "), std::string::npos) << shown;
  return names;
}

/// One step of sums by a policy that knows nothing; an answer is paid for a 7, which some have.
Words one_step(const TempFolder& folder, const Words& more) {
  Words overrides = {"warm_start.steps=0", "max_steps=1", "save_steps=100"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::paid_for_a_seven("arithmetic_rlvr.yaml", folder, {}, overrides);
}

Words scored_by(const std::string& function) {
  return {"~rewards.answer", "+rewards.answer.type=plugin",
          "+rewards.answer.plugin=" + source_path("tests/data/plugins/first_step.py:") + function,
          "+rewards.answer.sandbox.mode=rlimits"};
}

struct Case {
  const char* fault;
  Words overrides;
  Names told;
};

TEST(SelfChecks, EachPlantedFaultIsToldAtStepOne) {
  const std::string rate = "actor_train.training_args.learning_rate=";
  const Case cases[] = {
      {"nothing", {}, {}},
      {"nothing, over recomputed log-probs", {"enable_old_logprobs_recompute=true"}, {}},
      {"nothing, one step ahead", {"+async.mode=one_step_off"}, {}},
      {"a rate of zero", {rate + "0"}, {"learning_rate_zero"}},
      {"a rate that fp32 does not resolve",
       {rate + "1.0e-30", "model.attention_bias=false"},
       {"parameters_unmoved"}},
      {"a reward that is always 1",
       {"++rewards.answer.args={pattern: '7', otherwise: 1}"},
       {"reward_constant"}},
      {"a reward that is no number", scored_by("no_number"), {"reward_failed"}},
      {"a reward that reads the prompt alone", scored_by("of_the_prompt"), {"groups_flat"}},
      {"one of two rewards that never pays",
       {"+rewards.form.type=format", "+rewards.form.args={pattern: 'x'}"},
       {"reward_part_constant"}},
      {"answers of one token", {"response_length=1"}, {"answers_truncated"}},
      {"greedy answers",
       {"actor_infer.generating_args.temperature=0"},
       {"answers_same", "answers_truncated", "reward_constant"}},
      {"advantages that are clipped away", {"advantage_clip=1.0e-46"}, {"advantage_zero"}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.fault);
    TempFolder folder;
    EXPECT_EQ(told_by(one_step(folder, each.overrides), folder), each.told);
  }
}

TEST(SelfChecks, AGradientThatIsNoNumberIsToldOnce) {
  TempFolder folder;
  Words command = one_step(folder, {});
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.nan:1:fail"});
  Process run(command, folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(checks_of(run_folder(run)), Names{"gradient_nonfinite"});
  EXPECT_TRUE(test::read_stream(run_folder(run)).of_kind("nonfinite").empty());
}

TEST(SelfChecks, AnAnswerWithOtherLogProbsThanTheTrainersIsNamed) {
  TempFolder folder;
  Words command = one_step(folder, {});
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=rollout.drift@2:1:fail"});
  Process run(command, folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(checks_of(run_folder(run)), Names{"logprob_drift"});
  const auto told = test::read_stream(run_folder(run)).of_kind("self_check");
  ASSERT_EQ(told.size(), 1U);
  const std::string key = told[0].at("entry").at("trajectory");
  EXPECT_TRUE(key.starts_with("1/2/")) << key;
  const std::string shown = "traj show " + run_folder(run) + " " + key;
  EXPECT_TRUE(told[0].at("detail").get<std::string>().ends_with(shown)) << told[0];
  Process show({test::binary("traj"), "show", run_folder(run), key}, folder);
  EXPECT_EQ(show.wait(), 0) << show.err();
}

/// A policy that has hardly begun to learn the lake's words, and one whose turns have one token.
TEST(SelfChecks, TurnsThatNobodyUnderstandsAreTold) {
  const Words once = {"max_steps=1", "eval_steps=-1"};
  TempFolder folder, other;
  EXPECT_EQ(told_by(test::tiny_run(folder, once), folder),
            (Names{"reward_constant", "turns_invalid"}));
  Words cut = once;
  cut.insert(cut.end(), {"warm_start.steps=0", "actor_infer.generating_args.max_new_tokens=1"});
  EXPECT_EQ(told_by(test::tiny_run(other, cut), other), (Names{"end_never", "reward_constant"}));
}

/// The shipped configs with a policy as small as it can be.
TEST(SelfChecks, ShippedConfigsAreHealthy) {
  for (const char* config : {"sft_arithmetic", "dpo_arithmetic", "rm_arithmetic"}) {
    TempFolder folder;
    EXPECT_EQ(told_by(test::rows_run(config, folder, {"++max_steps=1", "eval_steps=-1"}), folder),
              Names{})
        << config;
  }
  const std::pair<const char*, Words> played[] = {
      {"arithmetic_ppo", {"critic.training_args.gradient_accumulation_steps=2"}},
      {"dapo_arithmetic", {}},
      {"tool_arithmetic", {}}};
  for (const auto& [config, more] : played) {
    SCOPED_TRACE(config);
    Words overrides = {"warm_start.steps=0", "max_steps=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    TempFolder folder;
    EXPECT_EQ(told_by(test::paid_for_a_seven(std::string(config) + ".yaml", folder, {}, overrides),
                      folder),
              Names{});
  }
}

TEST(SelfChecks, ACriticThatCannotLearnIsTold) {
  TempFolder folder;
  EXPECT_EQ(told_by(test::paid_for_a_seven("arithmetic_ppo.yaml", folder, {},
                                           {"warm_start.steps=0", "max_steps=1",
                                            "critic.training_args.gradient_accumulation_steps=2",
                                            "critic.training_args.learning_rate=0"}),
                    folder),
            Names{"critic_rate_zero"});
}

TEST(SelfChecks, SwitchedOffTheyTellNothing) {
  TempFolder folder;
  EXPECT_EQ(told_by(one_step(folder, {"+self_checks=false", "response_length=1"}), folder),
            Names{});
}

/// Every row the same; a folder of random weights; a rate for a model of random weights; and a
/// reference that is a copy of the policy.
TEST(SelfChecks, FaultsOfAFolderAreTold) {
  TempFolder folder;
  const std::filesystem::path model = folder.path() / "model", copy = folder.path() / "copy";
  tests::write_byte_model(model);
  tests::write_byte_model(copy);
  const std::string rows = (folder.path() / "rows.jsonl").string();
  const nlohmann::json row = {{"id", "0"}, {"prompt", "2+2="}, {"ground_truth", "4"}};
  std::ofstream out(rows);
  for (int i = 0; i < 8; ++i) out << row.dump() << "\n";
  out.close();
  const Names told = told_by(
      test::addition_run(folder.path(), model.string(),
                         {"~model", "actor_train.data_args.file_name=[" + rows + "]",
                          "reference.model_args.model_name_or_path=" + copy.string(),
                          "reference.device_mapping=[1]", "init_kl_coef=0.1", "~rewards.answer",
                          "+rewards.answer.type=format", "+rewards.answer.args={pattern: '[0-9]'}",
                          "actor_train.training_args.learning_rate=0.1"}),
      folder);
  EXPECT_EQ(told, (Names{"policy_untrained", "learning_rate_high", "reference_is_policy",
                         "prompts_same"}));
}

}  // namespace
}  // namespace cohort
