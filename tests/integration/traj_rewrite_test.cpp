// traj prune, compact and merge: what they keep is what it was, and a source is never half of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/child_process.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

namespace fs = std::filesystem;

struct Said {
  int code = -1;
  std::string out, err;
};

/// Header and columns by key and number of the newest trajectories.
std::map<proto::TrajectoryKey, std::string> newest_of(const fs::path& folder) {
  std::map<proto::TrajectoryKey, std::string> found;
  for (const Record& record : read_all(folder))
    if (record.info.key.trajectory)
      found[*record.info.key.trajectory].assign(
          reinterpret_cast<const char*>(record.body.bytes().data()), record.body.size_bytes());
  return found;
}

size_t count_of(const std::vector<Record>& records, RecordType type) {
  return static_cast<size_t>(
      std::ranges::count_if(records, [&](const Record& x) { return x.info.type == type; }));
}

class TrajRewrite : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(cohort::test::binary("traj"))) GTEST_SKIP() << "traj is not built here";
    fs::create_directory(run());
    fill(stream(), 3, small_segments());
  }
  Said traj(const std::vector<std::string>& words) const {
    std::vector<std::string> command = {cohort::test::binary("traj")};
    command.insert(command.end(), words.begin(), words.end());
    cohort::test::Process process(command, folder_);
    Said said;
    said.code = process.wait();
    said.out = process.out();
    said.err = process.err();
    return said;
  }
  void append(const std::vector<proto::Trajectory>& trajectories) const {
    auto writer = Writer::open(stream(), small_segments());
    ASSERT_TRUE(writer) << writer.error().detail;
    for (const proto::Trajectory& x : trajectories) ASSERT_TRUE(writer->append_trajectory(x));
    ASSERT_TRUE(writer->close());
  }
  fs::path run() const { return folder_.path() / "run"; }
  fs::path stream() const { return run() / "stream"; }
  fs::path out() const { return folder_.path() / "out"; }
  /// Returns the new stream, which must hold.
  std::vector<Record> written() const {
    const auto report = stream::verify(out() / "stream");
    EXPECT_TRUE(report && report->is_clean());
    return read_all(out() / "stream");
  }

  cohort::test::TempFolder folder_;
};

// The same records, packed; a stream stays as it is unless one asks for the other.
TEST_F(TrajRewrite, CompactPacksAndUnpacks) {
  const auto before = newest_of(stream());
  const auto is_packed = [](const fs::path& folder) {
    return std::ranges::any_of(read_all(folder), [](const Record& x) { return x.info.is_packed; });
  };
  EXPECT_FALSE(is_packed(stream()));
  for (const auto& [words, expected] :
       std::vector<std::pair<std::vector<std::string>, bool>>{{{"--compression", "zstd"}, true},
                                                              {{}, true},
                                                              {{"--compression", "none"}, false},
                                                              {{}, false}}) {
    std::vector<std::string> command = {"compact", run().string(), "--in-place"};
    command.insert(command.end(), words.begin(), words.end());
    const Said said = traj(command);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(is_packed(stream()), expected);
    EXPECT_EQ(newest_of(stream()), before);
    EXPECT_TRUE(verify(stream())->is_clean());
  }
  const Said unknown = traj({"compact", run().string(), "--in-place", "--compression", "lz4"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("--compression"), std::string::npos) << unknown.err;
}

TEST_F(TrajRewrite, PruneKeepsStepsAndWhatHasNone) {
  const std::string before = read_bytes(segment_path(stream(), 0));
  const Said said = traj({"prune", run(), "-o", out(), "--keep-steps", "1:1"});
  ASSERT_EQ(said.code, 0) << said.err;
  const auto records = written();
  EXPECT_EQ(count_of(records, RecordType::run_config), 1U);
  EXPECT_EQ(count_of(records, RecordType::step_result), 1U);
  EXPECT_EQ(count_of(records, RecordType::trajectory), 4U);
  const auto old = newest_of(stream()), kept = newest_of(out() / "stream");
  for (const auto& [key, bytes] : kept) EXPECT_EQ(bytes, old.at(key)) << proto::to_string(key);
  EXPECT_TRUE(kept.contains({proto::TrajectoryKind::train, 1, 1, 1}));
  EXPECT_NE(said.out.find("6 records, "), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("each was read back with the hashes it had"), std::string::npos);
  EXPECT_EQ(read_bytes(segment_path(stream(), 0)), before);
  EXPECT_FALSE(fs::exists(out().string() + ".unfinished"));
}

TEST_F(TrajRewrite, PruneAsksTheNewestRecordOfAKey) {
  proto::Trajectory late = small_trajectory(0, 0, 0, 20, 1);  // its score was 1
  late.score = 0;
  append({late});
  ASSERT_EQ(traj({"prune", run(), "-o", out(), "--where", "score > 0"}).code, 0);
  const auto kept = newest_of(out() / "stream");
  EXPECT_EQ(kept.size(), 5U);
  EXPECT_FALSE(kept.contains(late.key)) << "the replaced record came back";
}

TEST_F(TrajRewrite, CompactDropsWhatWasRecordedAgain) {
  append({small_trajectory(0, 0, 0, 24, 1), small_trajectory(2, 1, 1, 8, 1)});
  const auto before = newest_of(stream());
  const Said said = traj({"compact", run(), "--in-place"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(newest_of(stream()), before);
  EXPECT_EQ(read_all(stream()).size(), 16U);  // 12 trajectories, 3 results, 1 config
  EXPECT_TRUE(stream::verify(stream())->is_clean());
  EXPECT_FALSE(fs::exists(stream().string() + ".unfinished"));
  EXPECT_EQ(Reader::open(stream())->stream().run_id, "test-run");
  append({small_trajectory(9, 0, 0)});  // the run may go on
  EXPECT_EQ(read_all(stream()).size(), 17U);
}

TEST_F(TrajRewrite, ALiveRunIsRefused) {
  auto writer = Writer::open(stream(), small_segments());
  ASSERT_TRUE(writer);
  for (const auto& words : {std::vector<std::string>{"compact", run(), "--in-place"},
                            {"prune", run(), "-o", out(), "--keep-steps", ":1"},
                            {"merge", out(), run()}}) {
    const Said said = traj(words);
    EXPECT_EQ(said.code, 2);
    EXPECT_NE(said.err.find("a run is writing to this stream"), std::string::npos) << said.err;
  }
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(TrajRewrite, DamageIsAnErrorUnlessItMayGo) {
  const RecordInfo info = Index::load(stream())->records()[3];
  std::string bytes = read_bytes(segment_path(stream(), 0));
  bytes[info.id.offset + 100] ^= 1;
  write_bytes(segment_path(stream(), 0), bytes);
  const Said refused = traj({"compact", run(), "-o", out()});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("record 3 at "), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_FALSE(fs::exists(out().string() + ".unfinished"));
  const Said dropped = traj({"compact", run(), "-o", out(), "--drop-damaged"});
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_NE(dropped.out.find("1 damaged records were left out"), std::string::npos);
  EXPECT_EQ(count_of(written(), RecordType::trajectory), 11U);
}

// Without a segment, whichever: nothing is written that does not say so.
TEST_F(TrajRewrite, AMissingSegmentIsDamage) {
  for (const uint32_t missing : {0U, 1U, 2U}) {
    fs::remove_all(run());
    fs::create_directory(run());
    fill(stream(), 3, small_segments(4096));
    ASSERT_EQ(list_segments(stream())->back(), 2U);
    fs::remove(segment_path(stream(), missing));
    for (const auto& words : {std::vector<std::string>{"compact", run(), "-o", out()},
                              {"prune", run(), "-o", out(), "--keep-steps", ":9"},
                              {"merge", out(), run()},
                              {"compact", run(), "--in-place"}}) {
      EXPECT_EQ(traj(words).code, 1) << words[0] << missing;
      EXPECT_FALSE(fs::exists(out()));
    }
    const Said dropped = traj({"compact", run(), "-o", out(), "--drop-damaged"});
    EXPECT_EQ(dropped.code, 0) << dropped.err;
    EXPECT_NE(dropped.out.find("1 damaged records were left out"), std::string::npos)
        << dropped.out << dropped.err;
    fs::remove_all(out());
  }
}

TEST_F(TrajRewrite, AStreamIsMergedOnce) {
  const Said twice = traj({"merge", out(), run(), (run() / ".").string()});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("are the same stream"), std::string::npos) << twice.err;
}

TEST_F(TrajRewrite, MergePutsRunsBehindOneAnother) {
  const fs::path more = folder_.path() / "more";
  fs::create_directory(more);
  {
    auto writer = Writer::open(more / "stream", {.run_id = "more", .preallocate = false});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(2, 1, 1, 30)));
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(3, 0, 0)));
    ASSERT_TRUE(writer->close());
  }
  const Said refused = traj({"merge", out(), run(), more});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("both have the trajectory train/step 2/group 1/index 1"),
            std::string::npos)
      << refused.err;
  const Said merged = traj({"merge", out(), run(), more, "--last-wins"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(count_of(written(), RecordType::trajectory), 13U);
  const auto kept = newest_of(out() / "stream"), later = newest_of(more / "stream");
  for (const auto& [key, bytes] : later) EXPECT_EQ(kept.at(key), bytes);
  EXPECT_EQ(traj({"merge", out(), run()}).code, 2) << "OUT is there already";
}

// Whenever it dies, the stream is whole: the old one or the new one.
TEST_F(TrajRewrite, AKilledCompactionLeavesAWholeStream) {
  std::vector<proto::Trajectory> again;
  for (uint32_t i = 0; i < 400; ++i) again.push_back(small_trajectory(5, i / 2, i % 2, 4000));
  append(again);
  const auto before = newest_of(stream());
  const fs::path unfinished = stream().string() + ".unfinished";
  int killed = 0;
  for (int i = 0; i < 12; ++i) {
    cohort::test::Process process({cohort::test::binary("traj"), "compact", run(), "--in-place"},
                                  folder_);
    ASSERT_TRUE(cohort::test::wait_until(
        [&] { return fs::exists(unfinished) || !process.is_running(); }, 20000));
    const auto size = [&] {
      std::error_code code;
      const auto bytes = fs::file_size(segment_path(unfinished, 0), code);
      return code ? 0 : bytes;
    };
    const auto enough = static_cast<uintmax_t>(i) * (uint64_t{3} << 20);
    cohort::test::wait_until([&] { return size() >= enough || !process.is_running(); }, 20000);
    process.send(SIGKILL);
    killed += process.wait() == -SIGKILL ? 1 : 0;
    ASSERT_TRUE(stream::verify(stream())->is_clean());
    ASSERT_EQ(newest_of(stream()), before);
  }
  EXPECT_GT(killed, 0);
  ASSERT_EQ(traj({"compact", run(), "--in-place"}).code, 0);  // takes away what they left
  EXPECT_EQ(newest_of(stream()), before);
  EXPECT_FALSE(fs::exists(unfinished));
}

TEST_F(TrajRewrite, ErrorsSayWhatToGive) {
  EXPECT_EQ(traj({"compact", run()}).code, 2);
  EXPECT_EQ(traj({"compact", run(), "-o", out(), "--in-place"}).code, 2);
  const Said nothing = traj({"prune", run(), "-o", out()});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--keep-steps A:B, --where QUERY"), std::string::npos);
  const Said steps = traj({"prune", run(), "-o", out(), "--keep-steps", "4:2"});
  EXPECT_NE(steps.err.find("--keep-steps 4:2: give A:B"), std::string::npos) << steps.err;
  EXPECT_EQ(traj({"prune", run(), "-o", out(), "--where", "scor > 1"}).code, 2);
  EXPECT_EQ(traj({"merge", out(), "/nowhere"}).code, 2);
}

}  // namespace
}  // namespace cohort::stream::test
