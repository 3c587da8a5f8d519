// traj's commands that compute: over a run of ours, whose own numbers they must give, and over rows
// of another system, with numbers worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/stream/reader.hpp"
#include "runtime/stream/writer.hpp"
#include "tests/support/said.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::Said;
using test::TempFolder;

class TrajRecompute : public ::testing::Test {
 protected:
  Said traj(std::vector<std::string> words) const {
    return test::said_by_traj(std::move(words), folder_);
  }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }
  /// A group of two with scores 1 and 0, and a group of one; an answer has two tokens.
  std::string imported(const std::string& dialect, const std::string& more = "") const {
    std::string rows;
    for (const char* fields : {R"("group": "a", "rewards": 1)", R"("group": "a", "rewards": 0)",
                               R"("group": "b", "rewards": 3)"})
      rows += std::string("{") + fields + more +
              R"(, "tokens": [1, 2, 3], "mask": [0, 1, 1], "logprobs": [-1, -2],)"
              R"( "prompt": "say 7", "response": "7"})" +
              "\n";
    const std::string run = folder_.path() / ("of_" + dialect);
    const Said said = traj({"import", file("rows.jsonl", rows), run, "--dialect", dialect});
    EXPECT_EQ(said.code, 0) << said.err;
    return run;
  }
  TempFolder folder_;
};

std::vector<double> numbers(const std::vector<json>& lines, const char* key) {
  std::vector<double> found;
  for (const json& line : lines) found.push_back(line.at(key));
  return found;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << "entry " << i;
}

TEST_F(TrajRecompute, ARunsOwnAdvantagesAreThoseOfItsRow) {
  Process run(
      test::small_run(
          std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml", folder_,
          {"rollout_batch_size=8", "num_return_sequences_in_group=4", "val_batch_size=8",
           "max_steps=2", "eval_steps=-1", "~rewards.answer", "+rewards.answer.type=format",
           "+rewards.answer.args={pattern: '7'}"}),
      folder_);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string path = test::run_folder(run);
  for (const char* step : {"1", "2"}) {
    const Said own = traj({"advantages", path, "--step", step});
    EXPECT_EQ(own.code, 0) << own.err;
    EXPECT_NE(own.err.find("the same mean and deviation, to the bit"), std::string::npos)
        << own.err;
  }
  const Said other = traj({"advantages", path, "--step", "2", "--estimator", "rloo", "--json"});
  EXPECT_EQ(other.code, 0) << other.err;
  bool is_other = false;
  for (const json& line : other.lines())
    is_other = is_other || line.at("advantage") != line.at("own");
  EXPECT_EQ(other.lines().size(), 32U);
  EXPECT_TRUE(is_other) << other.out;

  const Said loss = traj({"loss", path, "--step", "2", "--tokens"});
  EXPECT_EQ(loss.code, 0) << loss.err;
  EXPECT_EQ(loss.lines().size(),
            traj({"advantages", path, "--step", "2", "--tokens"}).lines().size());
  for (const json& line : loss.lines())
    EXPECT_EQ(line.at("loss").get<float>(), -line.at("advantage").get<float>()) << line;

  const Said same = traj({"rescore", path, "--step", "2", "--reward", path + "/config.yaml"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(same.err.find("0 scores differ"), std::string::npos) << same.err;
  const Said rescored = traj({"rescore", path, "--step", "2", "--reward", "format", "--config",
                              R"({"pattern": "[0-9]"})", "--json"});
  EXPECT_EQ(rescored.code, 0) << rescored.err;
  for (const json& line : rescored.lines())
    EXPECT_GE(line.at("new_score").get<double>(), line.at("old_score").get<double>()) << line;
}

TEST_F(TrajRecompute, ARowThatSaysSomethingElseIsDamage) {
  const std::string run = imported("roll");
  {
    auto writer = stream::Writer::open(run + "/stream", {.preallocate = false});
    ASSERT_TRUE(writer) << writer.error().detail;
    ASSERT_TRUE(writer->append_json(stream::RecordType::step_result,
                                    R"({"step":1,"critic/advantages/mean":0.5})"));
    ASSERT_TRUE(writer->close());
  }
  const Said said = traj({"advantages", run, "--step", "1"});
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("critic/advantages/mean is 0 by its trajectories, and 0.5 in its row"),
            std::string::npos)
      << said.err;
}

TEST_F(TrajRecompute, ImportedRowsGetTheAdvantagesOfTheirDialect) {
  const double unit = 0.5 / (std::sqrt(0.5) + 1e-6);
  const auto advantages = [&](const std::string& dialect, std::vector<std::string> more) {
    std::vector<std::string> words = {"advantages", folder_.path() / ("of_" + dialect), "--step",
                                      "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Said said = traj(words);
    EXPECT_EQ(said.code, 0) << said.err;
    return numbers(said.lines(), "advantage");
  };
  imported("roll");
  imported("verl");
  expect_near(advantages("roll", {}), {unit, -unit, 0});
  expect_near(advantages("verl", {}), {unit, -unit, 3});
  expect_near(advantages("verl", {"--estimator", "rloo"}), {1, -1, 3});
  expect_near(advantages("verl", {"algorithm.norm_adv_by_std_in_grpo=false"}), {0.5, -0.5, 3});
  expect_near(advantages("roll", {"--estimator", "reinforce", "norm_mean_type=batch"}),
              {1 - 4.0 / 3, -4.0 / 3, 3 - 4.0 / 3});
}

// Scores 1, 0 and 3 in step 1, then 4: the mean of the run so far is 2.
TEST_F(TrajRecompute, ARunningNormReadsTheStepsBefore) {
  std::string rows;
  for (const char* fields : {R"("step": 1, "rewards": 1)", R"("step": 1, "rewards": 0)",
                             R"("step": 1, "rewards": 3)", R"("step": 2, "rewards": 4)"})
    rows += std::string("{") + fields +
            R"(, "group": 0, "tokens": [1, 2], "mask": [0, 1], "logprobs": [-1]})" + "\n";
  const std::string run = folder_.path() / "steps";
  ASSERT_EQ(traj({"import", file("steps.jsonl", rows), run}).code, 0);
  const Said said = traj({"advantages", run, "--step", "2", "--estimator", "reinforce",
                          "norm_mean_type=running", "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  expect_near(numbers(said.lines(), "advantage"), {2});
}

TEST_F(TrajRecompute, ALossReadsTheLogProbsThatItIsGiven) {
  const std::string run = imported("roll");
  // Of three tokens all but the first: ratios e^0.5 and 1 in each row.
  const std::string current = file("current.jsonl", R"({"logprobs": [-0.5, -2]})"
                                                    "\n"
                                                    R"({"logprobs": [0, -0.5, -2]})"
                                                    "\n"
                                                    R"({"logprobs": [-0.5, -2]})"
                                                    "\n");
  const std::vector<std::string> words = {"loss",        run,         "--step",
                                          "1",           "--current", current,
                                          "--estimator", "dr_grpo",   "loss_agg_mode=token-mean"};
  std::vector<std::string> with_tokens = words;
  with_tokens.emplace_back("--tokens");
  const Said said = traj(with_tokens);
  ASSERT_EQ(said.code, 0) << said.err;
  // A is 0.5, -0.5 and 0: -min(1.2 A, …) where A > 0 is clipped and has no gradient.
  const double up = std::exp(0.5);
  expect_near(numbers(said.lines(), "loss"), {-0.6, -0.5, 0.5 * up, 0.5, 0, 0});
  expect_near(numbers(said.lines(), "gradient"), {0, -0.5 / 6, 0.5 * up / 6, 0.5 / 6, 0, 0});
  EXPECT_NE(traj(words).out.find("actor/clipfrac"), std::string::npos);
  const Said cut =
      traj({"loss", run, "--step", "1", "--old", file("short.jsonl", R"({"logprobs": [-0.5]})")});
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.err.find("short.jsonl:1: 'logprobs' has 1 entries"), std::string::npos) << cut.err;
}

TEST_F(TrajRecompute, ImportedTextsCanBeScored) {
  const std::string run = imported("roll", R"(, "ground_truth": "7")");
  const Said said = traj({"rescore", run, "--step", "1", "--reward", "exact", "--config",
                          R"({"marker": ""})", "--json"});
  ASSERT_EQ(said.code, 0) << said.err;
  expect_near(numbers(said.lines(), "new_score"), {1, 1, 1});
  expect_near(numbers(said.lines(), "old_score"), {1, 0, 3});
}

TEST_F(TrajRecompute, ErrorsSayWhatToDo) {
  const std::string run = imported("roll");
  const auto refusal = [&](std::vector<std::string> words) {
    const Said said = traj(std::move(words));
    EXPECT_EQ(said.code, 2);
    return said.err;
  };
  EXPECT_NE(refusal({"advantages", run, "--step", "9"}).find("`traj stats` lists the steps"),
            std::string::npos);
  EXPECT_NE(refusal({"advantages", run, "--step", "1", "--estimator", "grp"}).find("grpo"),
            std::string::npos);
  EXPECT_NE(refusal({"advantages", run, "--step", "1", "--estimator", "gae"}).find("a critic"),
            std::string::npos);
  EXPECT_NE(refusal({"import", file("bad.jsonl", "{}\n"), folder_.path() / "new"})
                .find("bad.jsonl:1: 'tokens' is missing"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "new"));
  EXPECT_NE(refusal({"import", file("more.jsonl", "{}\n"), run}).find("is there already"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort
