// Pipeline rlvr as a user runs it: prompts, rewards of every kind, rewards that fail, resume.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::slurp;
using test::TempFolder;

std::string source(const std::string& path) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/" + path;
}

std::vector<std::string> rlvr_run(const TempFolder& folder,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"rollout_batch_size=8", "num_return_sequences_in_group=4",
                                        "val_batch_size=16", "val_n_sample=2"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::small_run(source("configs/arithmetic_rlvr.yaml"), folder, overrides);
}

std::vector<std::string> with_plugin(const std::string& path, double timeout_s = 10) {
  return {"~rewards.answer", "+rewards.answer.type=plugin", "+rewards.answer.plugin=" + path,
          "+rewards.answer.timeout_s=" + std::to_string(timeout_s)};
}

struct Row {
  std::string hash_of_tokens;
  double score = 0;
  std::string mask_reason;
};

/// The training trajectories of step 1, by group and index.
std::map<std::pair<int, int>, Row> first_step(const std::string& folder, const TempFolder& temp) {
  std::string jsonl = (temp.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", folder, "--jsonl", jsonl}, temp);
  EXPECT_EQ(exported.wait(), 0) << exported.err();
  std::map<std::pair<int, int>, Row> rows;
  std::ifstream in(jsonl);
  for (std::string line; std::getline(in, line);) {
    auto t = nlohmann::json::parse(line);
    if (t.at("kind") != "train" || t.at("step") != 1) continue;
    rows[{t.at("group"), t.at("index")}] = {t.at("tokens").dump() + t.at("behavior_logp").dump(),
                                            t.at("score"), t.at("mask_reason")};
  }
  std::filesystem::remove(jsonl);
  return rows;
}

bool has_sandbox(const TempFolder& folder) {
  Process probe({"bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"}, folder);
  return probe.wait(10000) == 0;
}

TEST(Rlvr, ARunTrainsEvaluatesAndNamesItsMetricsAsVerlDoes) {
  TempFolder folder;
  Process run(rlvr_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  std::ifstream in(run_folder(run) + "/metrics.jsonl");
  size_t rows = 0;
  for (std::string line; std::getline(in, line); ++rows) {
    auto row = nlohmann::json::parse(line);
    if (rows % 2 == 0) {
      for (const char* key :
           {"val/success", "val/success_greedy", "val-core/arithmetic/acc/mean@2",
            "val-core/arithmetic/acc/best@2/mean", "val-core/arithmetic/acc/maj@2/mean",
            "val-aux/arithmetic/acc/std@2", "val/answer/score/mean"})
        EXPECT_TRUE(row.contains(key)) << key << " in " << line;
    }
    if (rows > 0) {
      for (const char* key : {"reward/mean", "rewards/answer/mean", "env/answer/success"})
        EXPECT_TRUE(row.contains(key)) << key << " in " << line;
    }
  }
  EXPECT_EQ(rows, 5U);
  EXPECT_TRUE(std::filesystem::exists(run_folder(run) + "/report.html"));
  auto trajectories = first_step(run_folder(run), folder);
  EXPECT_EQ(trajectories.size(), 32U);
}

/// Temperature 0 in validation alone: each held-out prompt has one answer, the greedy one.
TEST(Rlvr, HeldOutAnswersAreSampledAsValidationSays) {
  TempFolder folder;
  Process run(rlvr_run(folder, {"max_steps=1", "eval_steps=1",
                                "++validation.generating_args.temperature=0"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string jsonl = (folder.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", jsonl}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::map<std::string, std::map<std::pair<int, int>, std::set<std::string>>> answers;
  std::ifstream in(jsonl);
  for (std::string line; std::getline(in, line);) {
    const auto t = nlohmann::json::parse(line);
    answers[t.at("kind")][{t.at("step"), t.at("group")}].insert(t.at("tokens").dump());
  }
  EXPECT_EQ(answers["val"], answers["val_greedy"]);
  EXPECT_GE(answers["val"].size(), 16U);
  size_t train = 0;
  for (const auto& [group, texts] : answers["train"]) train += texts.size();
  EXPECT_GT(train, answers["train"].size()) << "training samples as before";
  Process replay({test::binary("traj"), "replay", run_folder(run), "--rollout"}, folder);
  EXPECT_EQ(replay.wait(), 0) << replay.out() << replay.err();
}

/// Answers of arithmetic are written out in digits; each of these texts ends one.
TEST(Rlvr, StopStringsEndAnswersAndTokensStayAsSampled) {
  TempFolder folder;
  const std::vector<std::string> more = {"warm_start.steps=0", "max_steps=1", "eval_steps=-1",
                                         "++actor_infer.generating_args.stop_strings=['7','12']"};
  Process run(rlvr_run(folder, more), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string jsonl = (folder.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", run_folder(run), "--jsonl", jsonl}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::ifstream in(jsonl);
  std::map<std::string, int> ends;
  for (std::string line; std::getline(in, line);) {
    const auto t = nlohmann::json::parse(line);
    const std::string reason = t.at("stop_reason"), text = t.at("turns").back().at("response");
    ++ends[reason];
    const bool has_stop = text.ends_with("7") || text.ends_with("12");
    EXPECT_EQ(reason == "stop_string", has_stop) << reason << ": " << text;
    const size_t seven = text.find('7'), twelve = text.find("12");
    EXPECT_TRUE(seven == std::string::npos || seven + 1 == text.size()) << text;
    EXPECT_TRUE(twelve == std::string::npos || twelve + 2 == text.size()) << text;
  }
  EXPECT_GT(ends["stop_string"], 0);
  EXPECT_GT(ends["answered"] + ends["length"], 0);
  // Each card in a process of its own: the same answers.
  TempFolder other;
  auto spread = rlvr_run(other, more);
  spread.insert(spread.begin() + 2, {"--processes", "2"});
  Process again(spread, other);
  ASSERT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(hashes(run_folder(again)), hashes(run_folder(run)));
}

TEST(Rlvr, ResumedAfterAKillItTakesTheNextRowsAndEndsWithTheSameHash) {  // DATA-2
  TempFolder whole;
  Process reference(rlvr_run(whole), whole);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  TempFolder folder;
  Process first(rlvr_run(folder, {"max_steps=2"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  Process resumed(rlvr_run(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  auto expected = hashes(run_folder(reference));
  auto found = hashes(run_folder(resumed));
  EXPECT_EQ(found.at(2), expected.at(2));
  EXPECT_EQ(found.at(4), expected.at(4));
}

TEST(Rlvr, PythonAndCppPluginsGiveTheHashesOfTheBuiltInRule) {
  TempFolder a;
  if (!has_sandbox(a)) GTEST_SKIP() << "bwrap does not run here";
  Process built_in(rlvr_run(a), a);
  ASSERT_EQ(built_in.wait(), 0) << built_in.err();
  for (const std::string& path :
       {source("examples/python/exact_answer.py"), std::string(COHORT_EXACT_ANSWER_PLUGIN)}) {
    TempFolder b;
    auto more = with_plugin(path);
    more.push_back("+rewards.answer.args={marker: ';'}");
    Process plugin(rlvr_run(b, more), b);
    ASSERT_EQ(plugin.wait(), 0) << path << ": " << plugin.err();
    EXPECT_EQ(hashes(run_folder(plugin)), hashes(run_folder(built_in))) << path;
  }
}

// Which rows fail follows from their names, so that two plugins fail on the same ones.
constexpr const char* k_bad_reward = R"(
import os, sys, time
def score(response, ground_truth, id):
    if not id.startswith("train"): return 0.0
    group, index = (int(part.split()[1]) for part in id.split("/")[2:4])
    if index == 0 and group < 5:
        if MODE == "mixed":
            if group == 0: raise ValueError("no luck")
            if group == 1: time.sleep(600)
            if group == 2: os._exit(3)
            if group == 3: return float("nan")
            if group == 4: return {"no": "score"}
        raise ValueError("no luck")
    return float(len(response) % 3)
)";

TEST(Rlvr, APluginThatFailsCostsOnlyItsOwnTrajectories) {  // REWARD-3
  TempFolder folder;
  if (!has_sandbox(folder)) GTEST_SKIP() << "bwrap does not run here";
  std::map<std::string, std::string> runs;
  std::map<std::string, std::map<std::pair<int, int>, Row>> rows;
  std::map<std::string, std::map<uint64_t, std::string>> hash;
  for (std::string mode : {"mixed", "raise"}) {
    std::string path = (folder.path() / (mode + ".py")).string();
    std::ofstream(path) << "MODE = \"" << mode << "\"\n" << k_bad_reward;
    TempFolder out;
    auto more = with_plugin(path + ":score", 0.5);
    more.push_back("max_steps=2");
    Process run(rlvr_run(out, more), out);
    ASSERT_EQ(run.wait(), 0) << run.err();
    rows[mode] = first_step(run_folder(run), out);
    hash[mode] = hashes(run_folder(run));
    EXPECT_NE(run.err().find("rewards.answer"), std::string::npos) << "the user is told";
  }
  ASSERT_EQ(rows["mixed"].size(), 32U);
  const char* reasons[] = {"no luck", "timeout", "exited with 3", "nan", "score"};
  for (const auto& [key, row] : rows["mixed"]) {
    bool is_bad = key.second == 0 && key.first < 5;
    EXPECT_EQ(!row.mask_reason.empty(), is_bad) << key.first << "/" << key.second;
    if (is_bad) {
      EXPECT_NE(row.mask_reason.find(reasons[key.first]), std::string::npos) << row.mask_reason;
    }
    const Row& other = rows["raise"].at(key);
    EXPECT_EQ(row.hash_of_tokens, other.hash_of_tokens);
    EXPECT_EQ(row.score, other.score);
  }
  EXPECT_EQ(hash["mixed"], hash["raise"]) << "how a reward fails does not matter";
}

TEST(Rlvr, ARewardThatNeverScoresEndsTheRunWithItsName) {
  TempFolder folder;
  if (!has_sandbox(folder)) GTEST_SKIP() << "bwrap does not run here";
  std::string path = (folder.path() / "broken.py").string();
  std::ofstream(path) << "def score(response, ground_truth):\n    raise KeyError('nothing')\n";
  Process run(rlvr_run(folder, with_plugin(path + ":score")), folder);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_NE(run.err().find("every trajectory of 3 steps in a row is masked"), std::string::npos)
      << run.err();
  EXPECT_NE(run.err().find("nothing"), std::string::npos) << run.err();
}

TEST(Rlvr, ARewardThatCannotBeOpenedIsRefusedBeforeAnythingIsMade) {
  for (const auto& [override_text, expected] :
       {std::pair{"+rewards.answer.plugin=/nonexistent/mine.py", "/nonexistent/mine.py"},
        std::pair{"rewards.answer.args={markr: x}", "did you mean 'marker'"}}) {
    TempFolder folder;
    std::vector<std::string> more = {override_text};
    if (more[0].starts_with("+")) more.push_back("rewards.answer.type=plugin");
    Process run(rlvr_run(folder, more), folder);
    EXPECT_EQ(run.wait(10000), 2) << run.err();
    EXPECT_NE(run.err().find(expected), std::string::npos) << run.err();
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "arithmetic_rlvr"));
  }
}

TEST(Rlvr, AChangedPluginIsTakenBetweenTwoSteps) {
  TempFolder folder;
  if (!has_sandbox(folder)) GTEST_SKIP() << "bwrap does not run here";
  std::string path = (folder.path() / "mine.py").string();
  std::ofstream(path)
      << "def score(response, ground_truth):\n    return float(len(response) % 2)\n";
  auto more = with_plugin(path + ":score");
  more.insert(more.end(), {"max_steps=20000", "eval_steps=-1", "save_steps=20000"});
  Process run(rlvr_run(folder, more), folder);
  ASSERT_TRUE(
      test::wait_until([&] { return run.out().find("3/20000") != std::string::npos; }, 60000))
      << run.out() << run.err();
  std::ofstream(path + ".new")
      << "def score(response, ground_truth):\n    return 5.0 + len(response) % 2\n";
  std::filesystem::rename(path + ".new", path);
  EXPECT_TRUE(test::wait_until(
      [&] { return run.err().find("has changed and is loaded again") != std::string::npos; },
      60000))
      << run.err();
  run.send(SIGINT);
  ASSERT_EQ(run.wait(), 0) << run.err();
  std::ifstream in(run_folder(run) + "/metrics.jsonl");
  double first = -1;
  double last = -1;
  for (std::string line; std::getline(in, line);)
    if (auto row = nlohmann::json::parse(line); row.contains("reward/mean")) {
      last = row.at("reward/mean");
      if (first < 0) first = last;
    }
  EXPECT_LE(first, 1);
  EXPECT_GE(last, 5);
}

}  // namespace
}  // namespace cohort
