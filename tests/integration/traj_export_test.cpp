// What traj writes for other programs: csv, and jsonl and the stream itself for Python.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/child_process.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

using nlohmann::json;

struct Said {
  int code = -1;
  std::string out, err;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class TrajExport : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(cohort::test::binary("traj"))) GTEST_SKIP() << "traj is not built";
    std::filesystem::create_directory(run_.path() / "stream");
    fill(run_.path() / "stream", 2, small_segments());
    auto writer = Writer::open(run_.path() / "stream", small_segments());
    ASSERT_TRUE(writer);
    for (uint32_t index : {1U, 0U}) ASSERT_TRUE(writer->append_trajectory(odd(index)));
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 0, 0, 24, 1)));  // once more
    ASSERT_TRUE(writer->close());
  }
  /// Every field and column, texts that a format must quote, bytes that are no UTF-8.
  static proto::Trajectory odd(uint32_t index) {
    proto::Trajectory x = small_trajectory(4, 3, index);
    x.key.kind = proto::TrajectoryKind::val_greedy;
    x.tag = "a \"tag\", with\r\nlines";
    x.seed = 1ULL << 63;
    x.prompt_id = "p,1";
    x.stop_reason = "length\xff";
    x.generate_seconds = 0.1;
    x.env_seconds = 1e-9;
    x.score = -2.5;
    x.mask_reason = "filtered: no signal";
    x.data_source = "gsm8k";
    x.ground_truth = "18";
    x.is_greedy = true;
    x.reward_parts = {{"math/acc", 0.25, 2, "pred 18"}, {"len", -0.5, 0, ""}};
    x.metrics = {{"success", 1}, {"moves", 7}};
    for (size_t i = 0; i < x.tokens.size(); ++i) {
      const auto f = static_cast<float>(i);
      x.ref_logp.push_back(-0.1F * f);
      x.teacher_logp.push_back(-0.2F * f);
      x.values.push_back(0.3F * f);
      x.token_rewards.push_back(1.0F / (1 + f));
    }
    return x;
  }
  Said say(std::vector<std::string> words) const {
    cohort::test::Process process(words, folder_);
    Said said;
    said.code = process.wait();
    said.out = process.out();
    said.err = process.err();
    return said;
  }
  Said traj(std::vector<std::string> words) const {
    words.insert(words.begin(), cohort::test::binary("traj"));
    words.push_back(run_.path());
    return say(words);
  }
  Said python(std::vector<std::string> words) const {
    words.insert(words.begin(),
                 {"python3", "-B", cohort::test::source_path("tools/python/read_stream.py")});
    return say(words);
  }
  std::string stream() const { return run_.path() / "stream"; }

  StreamFolder run_;
  cohort::test::TempFolder folder_;
};

TEST_F(TrajExport, CsvHasARowPerTrajectoryAndAColumnPerField) {
  const Said all = traj({"csv"});
  ASSERT_EQ(all.code, 0) << all.err;
  const std::string header = all.out.substr(0, all.out.find("\r\n"));
  EXPECT_TRUE(header.starts_with("attempt,data_source,env_seconds,")) << header;
  EXPECT_TRUE(
      header.ends_with(",version,version_min,reward.env,reward.len,reward.math/acc,"
                       "metric.moves,metric.success"))
      << header;
  EXPECT_EQ(header.find("response"), std::string::npos);
  EXPECT_EQ(lines_of(traj({"csv", "--kind", "train"}).out).size(), 9U);
  const std::string step = traj({"csv", "--step", "1"}).out;
  EXPECT_EQ(lines_of(step).size(), 5U);
  // Numbers that a trajectory lacks are empty cells; of two records the later one counts.
  EXPECT_NE(step.find("1,,0,0,false,,0,0,train,24,-0.5,-0.5,,false,,,12,1,0,1,goal,FrozenLake,"
                      "1,1,1,1\r\n"),
            std::string::npos)
      << step;
}

TEST_F(TrajExport, CsvQuotesAsRfc4180Says) {
  const Said odd = traj({"csv", "--kind", "val_greedy", "--texts", "-o", folder_.path() / "x.csv"});
  EXPECT_EQ(odd.code, 0) << odd.err;
  EXPECT_NE(odd.out.find("2 trajectories to "), std::string::npos) << odd.out;
  const std::string text = read_bytes(folder_.path() / "x.csv");
  EXPECT_NE(text.find(",\"a \"\"tag\"\", with\r\nlines\","), std::string::npos) << text;
  EXPECT_NE(text.find(",\"p,1\","), std::string::npos) << text;
  EXPECT_NE(text.find(",length\xEF\xBF\xBD,"), std::string::npos) << text;
  EXPECT_NE(text.find(",9223372036854775808,"), std::string::npos) << text;
  EXPECT_NE(text.find(",<answer>Right</answer>,"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "x.csv.unfinished"));
  const Said bad = traj({"csv", "-o", "/nowhere/x.csv"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("/nowhere/x.csv: cannot be written: "), std::string::npos) << bad.err;
}

// The stream and the export of it are the same objects, entry by entry and bit by bit.
TEST_F(TrajExport, PythonReadsTheStreamAsItIsExported) {
  const Said exported = traj({"export", "--jsonl", "-"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Said read = python({"--jsonl", run_.path()});
  ASSERT_EQ(read.code, 0) << read.err;
  const auto wanted = lines_of(exported.out), got = lines_of(read.out);
  ASSERT_EQ(wanted.size(), 10U);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(json::parse(got[i]), json::parse(wanted[i]));
}

TEST_F(TrajExport, PythonReadsJsonlAndChooses) {
  const std::string file = folder_.path() / "all.jsonl";
  ASSERT_EQ(traj({"export", "--jsonl", file}).code, 0);
  for (const std::string& source : {file, stream()}) {
    const Said step = python({"--step", "1", source});
    EXPECT_EQ(step.code, 0) << step.err;
    EXPECT_EQ(lines_of(step.out).size(), 4U) << step.out;
    EXPECT_TRUE(step.out.starts_with("train 1/0/0 score 1.000 turns 1 tokens 24 goal\n"));
    EXPECT_EQ(lines_of(python({"--kind", "val_greedy", source}).out).size(), 2U);
  }
}

TEST_F(TrajExport, PythonEndsAtATornTailAndRefusesWhatIsNoStream) {
  std::string bytes = read_bytes(segment_path(stream(), 0));
  write_bytes(segment_path(stream(), 0), bytes.substr(0, bytes.size() - 10));
  EXPECT_EQ(lines_of(python({run_.path()}).out).size(), 10U);  // the older record of 1/0/0 is there
  write_bytes(segment_path(stream(), 0), "no stream" + std::string(200, ' '));
  const Said bad = python({run_.path()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("is no segment of a stream"), std::string::npos) << bad.err;
  EXPECT_EQ(python({"/nowhere"}).code, 1);
}

TEST_F(TrajExport, PythonGivesNumpyArrays) {
  std::string interpreter;  // the first one of the path, or Debian's, whichever has numpy
  for (const char* name : {"python3", "/usr/bin/python3"})
    if (interpreter.empty() && say({name, "-c", "import numpy"}).code == 0) interpreter = name;
  if (interpreter.empty()) GTEST_SKIP() << "numpy is not installed";
  const Said said =
      say({interpreter, "-B", "-c",
           "import sys; sys.path.insert(0, sys.argv[1])\n"
           "from read_stream import trajectories\n"
           "for t in trajectories(sys.argv[2], kind='val_greedy', as_numpy=True):\n"
           "    print(t['behavior_logp'][t['response_mask'] == 1].mean(), t['tokens'].dtype)\n",
           cohort::test::source_path("tools/python"), run_.path()});
  EXPECT_EQ(said.out, "-0.5 int32\n-0.5 int32\n") << said.err;
}

}  // namespace
}  // namespace cohort::stream::test
