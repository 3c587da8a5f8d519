// Streams of older writers stay readable. A folder of data/streams is what the writer of its day
// left (tools/golden/make_stream); beside it lies what `traj` says of it. COHORT_UPDATE_GOLDEN=1
// rewrites that, never a stream.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/child_process.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> golden_streams() {
  std::vector<fs::path> folders;
  for (const auto& entry :
       fs::directory_iterator(cohort::test::source_path("tests/golden/data/streams")))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

fs::path newest_golden(bool is_packed) {
  fs::path newest;
  for (const fs::path& stream : golden_streams())
    if (stream.string().ends_with("-packed") == is_packed) newest = stream;
  return newest;
}

struct Said {
  int code = -1;
  std::string out, err;
};

Said say(const std::vector<std::string>& command, const cohort::test::TempFolder& folder) {
  cohort::test::Process process(command, folder);
  Said said;
  said.code = process.wait();
  said.out = process.out();
  said.err = process.err();
  return said;
}

/// Every field of every trajectory, and every other record.
std::string listing_of(const fs::path& stream, const cohort::test::TempFolder& folder) {
  std::string text;
  const std::string traj = cohort::test::binary("traj");
  for (const std::vector<std::string>& words : {std::vector<std::string>{traj, "ls", stream},
                                                {traj, "export", "--jsonl", "-", stream},
                                                {traj, "records", stream}}) {
    const Said said = say(words, folder);
    EXPECT_EQ(said.code, 0) << said.err;
    text += said.out;
  }
  return text;
}

TEST(StreamVersions, EachReadsAsItDidWhenItWasWritten) {
  ASSERT_GE(golden_streams().size(), 3U);
  cohort::test::TempFolder folder;
  for (const fs::path& stream : golden_streams()) {
    SCOPED_TRACE(stream.string());
    const auto report = stream::verify(stream);
    ASSERT_TRUE(report) << report.error().detail;
    EXPECT_TRUE(report->is_clean());
    const fs::path golden = stream.string() + ".txt";
    const std::string listing = listing_of(stream, folder);
    if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << listing;
    EXPECT_EQ(listing, read_bytes(golden));
  }
}

TEST(StreamVersions, PythonReadsThemAsTrajDoes) {
  cohort::test::TempFolder folder;
  const std::string reader = cohort::test::source_path("tools/python/read_stream.py");
  for (const fs::path& stream : golden_streams()) {
    const Said said = say({"python3", "-B", reader, stream}, folder);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 8) << said.out;
  }
}

// The newest of them is what this version writes: a change of the bytes adds a stream.
TEST(StreamVersions, TheNewestIsThatOfThisWriter) {
  cohort::test::TempFolder folder;
  for (const bool is_packed : {false, true}) {
    const fs::path written = folder.path() / (is_packed ? "packed" : "plain");
    std::vector<std::string> words = {cohort::test::binary("make_stream"), written};
    if (is_packed) words.emplace_back("zstd");
    ASSERT_EQ(say(words, folder).code, 0);
    const auto now = read_all(written), golden = read_all(newest_golden(is_packed));
    ASSERT_EQ(now.size(), golden.size());
    for (size_t i = 0; i < now.size(); ++i) {
      if (!is_packed) {  // another libzstd may make other frames
        EXPECT_EQ(now[i].info, golden[i].info) << "record " << i;
      }
      EXPECT_EQ(now[i].info.is_packed, golden[i].info.is_packed) << "record " << i;
      const auto a = now[i].body.bytes(), b = golden[i].body.bytes();
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()))
          << "record " << i << " has other bytes: tools/golden/make_stream HEAD "
          << "tests/golden/data/streams/DATE once it is committed";
    }
  }
}

// A writer goes on behind what an older one left.
TEST(StreamVersions, AWriterGoesOnInEach) {
  for (const fs::path& stream : golden_streams()) {
    StreamFolder copy;
    fs::copy(stream, copy.path());
    const size_t before = read_all(copy.path()).size();
    auto writer = Writer::open(copy.path(), {.run_id = "golden", .preallocate = false});
    ASSERT_TRUE(writer) << writer.error().detail;
    EXPECT_EQ(writer->recovered().describe(), "");
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(9, 0, 0)));
    ASSERT_TRUE(writer->close());
    EXPECT_EQ(read_all(copy.path()).size(), before + 1);
    EXPECT_TRUE(stream::verify(copy.path())->is_clean());
  }
}

}  // namespace
}  // namespace cohort::stream::test
