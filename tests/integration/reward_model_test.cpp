// A reward model on a card in a run of pipeline rlvr: trained by pipeline rm, exported, and asked.
// Its scores are those that `actor-node logprobs` gives the same ids.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

/// A classifier of the sums' words, as pipeline rm trains it in three steps.
std::string train_classifier(const TempFolder& folder) {
  const auto command = test::rows_run("rm_arithmetic", folder,
                                      {"actor_train.training_args.learning_rate=1.0e-2",
                                       "sequence_length=132", "++max_steps=3", "eval_steps=-1"});
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string out = (folder.path() / "classifier").string();
  Process exported({test::binary("actor-node"), "export", run_folder(run), out, "--no-tokenizer"},
                   folder);
  EXPECT_EQ(exported.wait(), 0) << exported.err();
  return out;
}

std::vector<std::string> scored_run(const TempFolder& folder, const std::string& classifier,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = test::small_model();
  words.insert(words.end(),
               {"max_steps=2", "num_gpus_per_node=3",
                "++rewards.quality={type: reward_model, weight: 0.5, tag_included: [\"*\"], "
                "model_args: {model_name_or_path: " +
                    classifier + "}, data_args: {template: empty}, device_mapping: [2]}"});
  words.insert(words.end(), more.begin(), more.end());
  return test::addition_run(folder.path(), "~", words);
}

TEST(RewardModelRole, ItsScoresAreThoseOfItsFolder) {
  TempFolder folder;
  const std::string classifier = train_classifier(folder);
  Process run(scored_run(folder, classifier), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = test::metric_rows(run_folder(run));
  EXPECT_TRUE(rows.back().contains("rewards/quality/mean")) << rows.back();

  const std::string jsonl = (folder.path() / "all.jsonl").string();
  const std::string ids_file = (folder.path() / "ids.jsonl").string();
  Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", jsonl}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::ifstream in(jsonl);
  std::ofstream ids(ids_file);
  std::vector<double> expected;
  for (std::string line; std::getline(in, line);) {
    const auto t = nlohmann::json::parse(line);
    double quality = 0, sum = 0;
    for (const auto& part : t.at("reward_parts")) {
      if (part.at("name") == "quality") quality = part.at("value");
      sum += part.at("weight").get<double>() * part.at("value").get<double>();
    }
    EXPECT_NEAR(t.at("score").get<double>(), sum, 1e-6);
    if (t.at("stop_reason") != "answered") continue;  // else the end token is the scorer's
    ids << nlohmann::json{{"ids", t.at("tokens")}} << "\n";
    expected.push_back(quality);
  }
  ids.close();
  ASSERT_GE(expected.size(), 4U);
  Process scores({test::binary("actor-node"), "logprobs", classifier, ids_file}, folder);
  ASSERT_EQ(scores.wait(), 0) << scores.err();
  std::istringstream lines(scores.out());
  size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i)
    EXPECT_NEAR(nlohmann::json::parse(line).at("score").get<double>(), expected.at(i), 1e-5) << i;
  EXPECT_EQ(i, expected.size());

  // Where the cards are changes nothing: two in other processes, or the rollout's own.
  Process processes(test::in_processes(scored_run(folder, classifier,
                                                  {"exp_name=processes", "num_gpus_per_node=4",
                                                   "rewards.quality.device_mapping=[2,3]"}),
                                       4),
                    folder);
  ASSERT_EQ(processes.wait(), 0) << processes.err();
  EXPECT_EQ(hashes(run_folder(processes)), hashes(run_folder(run)));
  Process shared(scored_run(folder, classifier,
                            {"exp_name=shared", "rewards.quality.device_mapping=[1]",
                             "placement.offload=step"}),
                 folder);
  ASSERT_EQ(shared.wait(), 0) << shared.err();
  EXPECT_EQ(hashes(run_folder(shared)), hashes(run_folder(run)));
  // Nor does taking turns on one card with the roles that train, evaluations included.
  Process turns(scored_run(folder, classifier,
                           {"exp_name=turns", "rewards.quality.device_mapping=[0]",
                            "actor_infer.device_mapping=[0]", "num_gpus_per_node=1",
                            "placement.mode=timeshare", "placement.offload=step", "eval_steps=1",
                            "val_batch_size=40"}),
                folder);
  ASSERT_EQ(turns.wait(60000), 0) << turns.err();
  EXPECT_EQ(hashes(run_folder(turns)), hashes(run_folder(run)));
}

TEST(RewardModelRole, WhatIsNoClassifierIsRefusedBeforeTheRun) {
  TempFolder folder;
  const auto refusal = [&](const std::string& classifier,
                           const std::vector<std::string>& more = {}) {
    Process run(scored_run(folder, classifier, more), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    return run.err();
  };
  const std::string key = "rewards.quality.model_args.model_name_or_path: ";
  const std::string nowhere = (folder.path() / "nowhere").string();
  EXPECT_NE(refusal(nowhere).find(key + "no folder '" + nowhere + "'"), std::string::npos);
  const std::string classifier = train_classifier(folder);
  auto config = nlohmann::json::parse(std::ifstream(classifier + "/config.json"));
  const auto written = config;
  config["architectures"] = {"Qwen2ForCausalLM"};
  std::ofstream(classifier + "/config.json") << config.dump();
  EXPECT_NE(refusal(classifier).find("a language model; a reward model is a classifier"),
            std::string::npos);
  std::ofstream(classifier + "/config.json") << written.dump();
  std::filesystem::remove(classifier + "/model.safetensors");
  EXPECT_NE(refusal(classifier).find("model.safetensors"), std::string::npos);
  EXPECT_NE(refusal(classifier, {"rewards.quality.device_mapping=[0]"})
                .find("shares a card with a role that trains"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort
