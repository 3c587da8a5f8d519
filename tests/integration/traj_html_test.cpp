// traj html: a page of a trajectory of a run of ours, and of one that has no tokenizer any more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/html_check.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using observe::sample::count_of;
using test::Process;
using test::TempFolder;

class TrajHtml : public ::testing::Test {
 protected:
  /// Returns stdout; the exit code must be `code`, stderr is kept.
  std::string traj(std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), test::binary("traj"));
    Process process(words, folder_);
    EXPECT_EQ(process.wait(), code) << process.err();
    err_ = process.err();
    return process.out();
  }
  TempFolder folder_;
  std::string err_;
};

TEST_F(TrajHtml, ShowsTextsAndTheRunsOwnAdvantages) {
  Process run(
      test::small_run(
          std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml", folder_,
          {"rollout_batch_size=8", "num_return_sequences_in_group=4", "val_batch_size=8",
           "max_steps=2", "eval_steps=1"}),
      folder_);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string path = test::run_folder(run);
  std::istringstream lines(traj({"advantages", path, "--step", "2", "--tokens"}));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json token = json::parse(line);
  const std::string key = "2/" + token.at("group").dump() + "/" + token.at("index").dump();
  const std::string page = traj({"html", path, key, "-o", "-"});
  EXPECT_EQ(err_, "");
  EXPECT_EQ(observe::sample::tag_fault(page), "");
  EXPECT_NE(page.find("<h1>train " + key + "</h1>"), std::string::npos);
  EXPECT_EQ(count_of(page, "id=\"by-a\""), 1U);
  EXPECT_NE(
      page.find(fmt::format("title=\"token {}, id {}\nlog p {:.4f}", token.at("at").get<int>(),
                            token.at("token").get<int>(), token.at("behavior_logp").get<double>())),
      std::string::npos)
      << page;
  EXPECT_NE(page.find(fmt::format("\nadvantage {:.4f}", token.at("own").get<double>())),
            std::string::npos);
  EXPECT_EQ(count_of(page, " class=\"id"), 0U) << "every token has a text";
  // Held-out trajectories have no advantages, and a file of their own.
  const std::string file = folder_.path() / "val.html";
  EXPECT_EQ(traj({"html", path, "1/0/0", "--kind", "val", "-o", file}), file + "\n");
  EXPECT_EQ(count_of(test::slurp(file), "id=\"by-a\""), 0U);
  traj({"html", path, "7/0/0"}, 2);
  EXPECT_NE(err_.find("no trajectory train/step 7/group 0/index 0"), std::string::npos) << err_;
}

TEST_F(TrajHtml, WithoutATokenizerItShowsIdsAndSaysWhy) {
  const std::string rows = folder_.path() / "rows.jsonl", run = folder_.path() / "imported";
  std::ofstream(rows) << R"({"group": 1, "rewards": 1, "tokens": [11, 2, 3], "mask": [0, 1, 1],)"
                      << R"( "logprobs": [-1, -2], "prompt": "say <7>", "response": "7"})"
                      << "\n"
                      << R"({"group": 1, "rewards": 0, "tokens": [11, 2, 4], "mask": [0, 1, 1],)"
                      << R"( "logprobs": [-1, -2], "prompt": "say <7>", "response": "8"})"
                      << "\n";
  traj({"import", rows, run});
  const std::string page = traj({"html", run, "1/0/0", "-o", "-"});
  EXPECT_EQ(observe::sample::tag_fault(page), "");
  EXPECT_NE(page.find(">say &lt;7&gt;</pre>"), std::string::npos) << page;
  EXPECT_EQ(count_of(page, "<span class=\"id"), 3U);
  EXPECT_EQ(count_of(page, "id=\"by-a\""), 1U);
  EXPECT_NE(page.find("no texts of tokens, their ids instead: "), std::string::npos);
  EXPECT_NE(err_.find("no texts of tokens"), std::string::npos);
}

}  // namespace
}  // namespace cohort
