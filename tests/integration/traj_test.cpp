// The traj binary on a stream of known records.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

class Traj : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("COHORT_BIN_DIR");
    binary_ = std::string(folder != nullptr ? folder : "") + "/traj";
    if (!std::filesystem::exists(binary_)) GTEST_SKIP() << binary_ << " is not built here";
    std::filesystem::create_directory(run_.path() / "stream");
    fill(stream(), 3, small_segments());
  }
  std::filesystem::path stream() const { return run_.path() / "stream"; }

  Outcome traj(const std::string& command, const std::string& rest = "") const {
    Outcome outcome;
    std::string line = binary_ + " " + command + " " + run_.path().string() + " " + rest + " 2>&1";
    std::FILE* pipe = ::popen(line.c_str(), "r");
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      outcome.text.append(buffer, n);
    outcome.code = WEXITSTATUS(::pclose(pipe));
    return outcome;
  }

  void flip(uint64_t offset) const {
    std::string bytes = read_bytes(segment_path(stream(), 0));
    bytes[offset] ^= 1;
    write_bytes(segment_path(stream(), 0), bytes);
  }

  StreamFolder run_;
  std::string binary_;
};

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(Traj, LsListsTrajectories) {
  Outcome all = traj("ls");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(lines(all.text), 13U) << all.text;
  EXPECT_TRUE(all.has("2/1/1"));
  EXPECT_EQ(lines(traj("ls", "--step 1").text), 5U);
  EXPECT_EQ(lines(traj("ls", "--limit 3").text), 4U);
  EXPECT_EQ(lines(traj("ls", "--kind val").text), 1U);
  Outcome json = traj("ls", "--step 1 --limit 1 --json");
  EXPECT_TRUE(json.has(R"([{"kind":"train","step":1,"group":0,"index":0,)")) << json.text;
}

TEST_F(Traj, TailPrintsTheLastOnes) {
  const Outcome last = traj("tail", "-n 2");
  EXPECT_EQ(last.code, 0) << last.text;
  EXPECT_TRUE(last.has("train 2/1/0 score 1.000")) << last.text;
  EXPECT_TRUE(last.has("train 2/1/1 score 0.000")) << last.text;
  EXPECT_FALSE(last.has("2/0/1")) << last.text;
  const Outcome chosen = traj("tail", "-n 1 --where 'index == 0'");
  EXPECT_TRUE(chosen.has("2/1/0") && !chosen.has("2/0/0")) << chosen.text;
  EXPECT_EQ(traj("tail", "--where 'scor > 1'").code, 2);
  EXPECT_EQ(traj("tail", "-f --for 0.05").code, 0);
}

// A trajectory is printed when it is appended, while the writer goes on, and only once.
TEST_F(Traj, TailFollowsALiveWriter) {
  auto writer = Writer::open(stream(), small_segments());
  ASSERT_TRUE(writer) << writer.error().detail;
  const std::string command =
      binary_ + " tail -f -n 1 --limit 3 --for 30 --where 'index == 0' " + run_.path().string();
  std::FILE* pipe = ::popen(command.c_str(), "r");
  const auto line = [&] {  // of a trajectory; results of steps come between them
    char buffer[4096] = "step ";
    std::string text = buffer;
    while (text.starts_with("step "))
      text = std::fgets(buffer, sizeof buffer, pipe) != nullptr ? buffer : "";
    return text;
  };
  std::string text = line();
  EXPECT_TRUE(text.starts_with("train 2/1/0 ")) << text;
  for (uint64_t step : {7, 8}) {
    for (uint32_t index : {1U, 0U})
      ASSERT_TRUE(writer->append_trajectory(small_trajectory(step, 0, index)));
    text = line();
    EXPECT_TRUE(text.starts_with("train " + std::to_string(step) + "/0/0 ")) << text;
  }
  EXPECT_EQ(line(), "");
  EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 0);
}

TEST_F(Traj, ShowPrintsTurnsAndTokens) {
  Outcome shown = traj("show", "1/0/1");
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_TRUE(shown.has("trajectory   train/step 1/group 0/index 1"));
  EXPECT_TRUE(shown.has("    P_O\n    G__\n"));
  EXPECT_TRUE(shown.has("<answer>Right</answer>"));
  EXPECT_FALSE(shown.has("-0.5000"));
  EXPECT_TRUE(traj("show", "1/0/1 --tokens").has("-0.5000"));
}

TEST_F(Traj, StatsSumUpAStep) {
  Outcome stats = traj("stats", "--step 1 --json");
  EXPECT_EQ(stats.code, 0);
  EXPECT_TRUE(stats.has(R"("trajectories":4,"reward_mean":0.5,"success_rate":0.5)")) << stats.text;
  EXPECT_EQ(lines(traj("stats").text), 4U);
}

TEST_F(Traj, ExportHasEveryFieldAndColumn) {
  Outcome out = traj("export", "--jsonl -");
  EXPECT_EQ(out.code, 0);
  EXPECT_EQ(lines(out.text), 12U);
  for (const char* field :
       {"run_id", "seed", "reward_parts", "turns", "response_mask", "behavior_logp", "ref_logp",
        "values", "token_rewards", "token_versions", "weight_version_max"})
    EXPECT_TRUE(out.has(std::string("\"") + field + "\":")) << field;
}

TEST_F(Traj, RecordsPrintJson) {
  Outcome out = traj("records", "--type step_result");
  EXPECT_EQ(lines(out.text), 3U);
  EXPECT_TRUE(out.has(R"("type":"step_result","data":{"step":1,"loss":0.5})")) << out.text;
  EXPECT_EQ(traj("records", "--type nonsense").code, 2);
}

TEST_F(Traj, GrepFindsTextsAndProperties) {
  Outcome literal = traj("grep", "'<answer>Right' --step 1");
  EXPECT_EQ(literal.code, 0) << literal.text;
  EXPECT_TRUE(literal.has("train 1/0/0 turn 0 answer: ")) << literal.text;
  EXPECT_TRUE(literal.has("<answer>Right</answer>"));
  EXPECT_EQ(lines(traj("grep", "'no such text'").text), 0U);
  EXPECT_TRUE(traj("grep", "--count").has("12 of 12 trajectories"));
  EXPECT_TRUE(traj("grep", "--count --where 'step == 1 and index == 0'").has("2 of 12 traj"));
  EXPECT_TRUE(traj("grep", "'answer>R[a-z]+<' --regex --count --step 2").has("4 of 4 traj"));
  EXPECT_TRUE(traj("grep", "Right --limit 3 --count").has("3 of 12"));
  EXPECT_TRUE(traj("grep", "Right --limit 1 --json").has(R"("part":"answer","begin":)"));
  Outcome bad = traj("grep", "--where 'scor > 1'");
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(bad.has("did you mean 'score'?")) << bad.text;
  EXPECT_EQ(traj("grep", "'(' --regex").code, 2);
}

TEST_F(Traj, TopAndBottomRankByAQuery) {
  Outcome top = traj("top", "--by 'step * 10 + index' -n 2 --where 'group == 0'");
  EXPECT_EQ(top.code, 0) << top.text;
  EXPECT_EQ(lines(top.text), 3U) << top.text;
  EXPECT_LT(top.text.find("2/0/1"), top.text.find("2/0/0"));
  Outcome bottom = traj("bottom", "--by 'step * 10 + index' -n 1");
  EXPECT_TRUE(bottom.has("0/0/0")) << bottom.text;
  EXPECT_EQ(lines(bottom.text), 2U);
  EXPECT_TRUE(traj("top", "--by metric.none").has("12 trajectories have no value"));
  EXPECT_EQ(traj("top", "--by kind").code, 2);
}

TEST_F(Traj, DiffFindsTheFirstDifference) {
  StreamFolder other;
  const auto diff = [&](const auto& edit, const std::string& loss) {
    std::filesystem::remove_all(other.path());
    std::filesystem::create_directory(other.path());
    auto writer = Writer::open(other.path(), small_segments());
    EXPECT_TRUE(writer->append_json(RecordType::run_config, R"({"yaml":"a: 2\noutput_dir: x"})"));
    for (uint64_t step = 0; step < 3; ++step) {
      for (uint32_t i : {3U, 1U, 0U, 2U}) {  // the order of arrival is no difference
        proto::Trajectory x = small_trajectory(step, i / 2, i % 2, 20, 1);
        edit(x);
        EXPECT_TRUE(writer->append_trajectory(x));
      }
      EXPECT_TRUE(writer->append_json(RecordType::step_result,
                                      R"({"step":)" + std::to_string(step) + loss));
    }
    EXPECT_TRUE(writer->close());
    return traj("diff", other.path().string());
  };
  const auto nothing = [](proto::Trajectory&) {};
  Outcome equal = diff(nothing, R"(,"loss":0.5,"time/update_s":3})");
  EXPECT_EQ(equal.code, 0) << equal.text;
  EXPECT_TRUE(equal.has("config   a: 1 | 2\n")) << equal.text;
  EXPECT_TRUE(equal.has("equal    12 trajectories and 3 step results"));
  Outcome token = diff(
      [](proto::Trajectory& x) {
        if (x.key.step == 1 && x.key.group == 1) x.tokens[12] = 7;
      },
      R"(,"loss":0.5})");
  EXPECT_EQ(token.code, 1);
  EXPECT_TRUE(token.has("differs  train/step 1/group 1/index 0, turn 0, token 12: tokens: 112 | 7"))
      << token.text;
  EXPECT_TRUE(token.has("2 of the 4 trajectories of that step differ"));
  EXPECT_TRUE(token.has("equal    4 trajectories and 1 step results"));
  Outcome result = diff(nothing, R"(,"loss":0.5000001})");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(result.has("differs  step 0: loss: 0.5 | 0.5000001")) << result.text;
  EXPECT_TRUE(traj("diff", other.path().string() + " --json").has(R"("equal":false)"));
  EXPECT_EQ(traj("diff", "/nowhere").code, 2);
}

TEST_F(Traj, VerifyNamesTheDamagedRecord) {
  EXPECT_EQ(traj("verify").code, 0);
  RecordInfo info = Index::load(stream())->records()[3];
  flip(info.id.offset + 100);
  Outcome out = traj("verify");
  EXPECT_EQ(out.code, 1);
  EXPECT_TRUE(out.has("record 3 (trajectory train/step 0/group 1/index 0) in segment 0 at " +
                      std::to_string(info.id.offset)))
      << out.text;
  Outcome listed = traj("ls");
  EXPECT_EQ(listed.code, 1);
  EXPECT_TRUE(listed.has("0/0/0"));
}

TEST_F(Traj, TornTailIsReportedAndRepaired) {
  // A writer that died inside a record had indexed none of it.
  std::filesystem::remove(index_path(stream(), 0));
  std::filesystem::remove(stream() / "steps.index");
  std::string bytes = read_bytes(segment_path(stream(), 0));
  write_bytes(segment_path(stream(), 0), bytes.substr(0, bytes.size() - 10));
  Outcome out = traj("verify");
  EXPECT_EQ(out.code, 0);
  EXPECT_TRUE(out.has("torn tail: ")) << out.text;
  EXPECT_TRUE(out.has("after record 14 ")) << out.text;
  EXPECT_TRUE(traj("verify", "--repair").has("repair: cut "));
  EXPECT_FALSE(traj("verify").has("torn tail"));
}

// Given a stream without one of its segments: each command says so, with exit code 1.
TEST_F(Traj, WhatIsMissingIsSaidByEveryCommand) {
  for (const uint32_t missing : {0U, 1U, 2U}) {
    std::filesystem::remove_all(stream());
    fill(stream(), 3, small_segments(4096));
    ASSERT_EQ(list_segments(stream())->back(), 2U);
    std::filesystem::remove(segment_path(stream(), missing));
    for (const char* command : {"verify", "ls", "stats", "export --jsonl -", "csv", "records",
                                "grep", "tail", "top --by score"}) {
      const Outcome out = traj(command);
      EXPECT_EQ(out.code, 1) << command << missing << out.text;
      EXPECT_TRUE(out.has("damage") || out.has("left out")) << command << missing << out.text;
    }
    StreamFolder other;
    fill(other.path(), 3, small_segments());
    EXPECT_EQ(traj("diff", other.path().string()).code, 1);
  }
}

// An end that an index still has, and one that no index ever had.
TEST_F(Traj, ACutEndIsDamageWhereAnIndexProvesIt) {
  const std::string bytes = read_bytes(segment_path(stream(), 0));
  write_bytes(segment_path(stream(), 0),
              bytes.substr(0, Index::load(stream())->records()[9].id.offset));
  const Outcome out = traj("verify");
  EXPECT_EQ(out.code, 1);
  EXPECT_TRUE(out.has("records 9 to 15 are lost")) << out.text;
  EXPECT_TRUE(traj("verify", "--repair").has("removed the indexes that named records"));
  EXPECT_EQ(traj("ls").code, 0);
}

TEST_F(Traj, AStepThatIsNotThereIsTwo) {
  for (const char* command :
       {"ls", "stats", "records", "export --jsonl -", "csv", "top --by score"}) {
    const Outcome out = traj(command, "--step 99");
    EXPECT_EQ(out.code, 2) << command;
    EXPECT_TRUE(out.has("is of step 99")) << out.text;
    EXPECT_EQ(traj(command, "--step -1").code, 2) << command;
  }
  EXPECT_EQ(traj("records", "--type event --step 1").code, 0) << "the step is there";
  EXPECT_EQ(traj("ls", "--limit -1").code, 2);
  EXPECT_EQ(traj("tail", "-n -1").code, 2);
  for (const char* seconds : {"-1", "nan", "inf"})
    EXPECT_EQ(traj("tail", std::string("-f --for ") + seconds).code, 2) << seconds;
}

TEST_F(Traj, AFullStdoutIsTwo) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* command : {"stats", "ls", "fields"}) {
    const std::string run = command == std::string("fields") ? "" : run_.path().string();
    const int status =
        std::system((binary_ + " " + command + " " + run + " > /dev/full 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << command;
  }
}

TEST_F(Traj, AFifoInTheStreamIsRefused) {
  std::filesystem::remove(segment_path(stream(), 0));
  ASSERT_EQ(::mkfifo(segment_path(stream(), 0).c_str(), 0600), 0);
  for (const char* command : {"verify", "ls"}) {
    const Outcome out = traj(command);
    EXPECT_EQ(out.code, 2);
    EXPECT_TRUE(out.has("not a regular file")) << out.text;
  }
}

TEST_F(Traj, ErrorsAreOneLineAndTwo) {
  Outcome missing = traj("show", "9/9/9");
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(lines(missing.text), 1U) << missing.text;
  EXPECT_EQ(traj("show", "nonsense").code, 2);
  EXPECT_EQ(traj("ls", "--kind nonsense").code, 2);
  std::filesystem::remove_all(stream());
  Outcome empty = traj("ls");
  EXPECT_EQ(empty.code, 2);
  EXPECT_EQ(lines(empty.text), 1U);
}

}  // namespace
}  // namespace cohort::stream::test
