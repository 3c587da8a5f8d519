// Shortcuts into a stream, a seek without the index and a search on several threads, against the
// index and the sequential read, over random streams that grew, were reopened, cut and damaged.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "runtime/stream/segment_steps.hpp"
#include "tests/support/stream_folder.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/parallel_scan.hpp"

namespace cohort::stream::test {
namespace {

using proto::TrajectoryKey;
using proto::TrajectoryKind;

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : rng_(seed) {
    for (int life = 0; life < 3; ++life) {
      auto writer = Writer::open(folder_.path(), small_segments(4096 + rng_.next_u64() % 9000));
      EXPECT_TRUE(writer) << writer.error().detail;
      const uint64_t first = rng_.next_u64() % 6;  // a resumed run records steps again
      for (uint64_t i = 0; i < 40; ++i) {
        const TrajectoryKey key = random_key(first + i / 8);
        auto x = small_trajectory(key.step, key.group, key.index, 4 + rng_.next_u64() % 60);
        x.key = key;
        x.score = static_cast<double>(rng_.next_u64() % 5);
        x.attempt = static_cast<uint32_t>(life);
        EXPECT_TRUE(writer->append_trajectory(x));
        keys_.insert(key);
        if (i % 8 == 7) {
          EXPECT_TRUE(writer->append_json(RecordType::step_result, R"({"step":1,"loss":0.5})"));
        }
      }
      if (life == 1) continue;  // the second one dies
      EXPECT_TRUE(writer->close());
    }
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  const std::set<TrajectoryKey>& keys() const { return keys_; }
  Rng& rng() { return rng_; }
  TrajectoryKey random_key(uint64_t step) {
    return {static_cast<TrajectoryKind>(rng_.next_u64() % 8 == 0 ? rng_.next_u64() % 4 : 0),
            rng_.next_u64() % 50 == 0 ? ~uint64_t{0} - step : step,
            static_cast<uint32_t>(rng_.next_u64() % 4), static_cast<uint32_t>(rng_.next_u64() % 3)};
  }
  std::filesystem::path last_segment() const {
    return segment_path(path(), list_segments(path())->back());
  }

 private:
  StreamFolder folder_;
  Rng rng_;
  std::set<TrajectoryKey> keys_;
};

void expect_same_answers(RandomStream& stream) {
  const auto index = Index::load(stream.path());
  ASSERT_TRUE(index) << index.error().detail;
  std::set<TrajectoryKey> keys = stream.keys();
  for (uint64_t step = 0; step < 30; ++step) keys.insert(stream.random_key(step));
  for (const TrajectoryKey& key : keys) {
    const auto found = find_newest(stream.path(), index->stream().stream_id, key);
    ASSERT_TRUE(found) << found.error().detail;
    const RecordInfo* wanted = index->find(key);
    ASSERT_EQ(found->has_value(), wanted != nullptr) << proto::to_string(key);
    if (wanted == nullptr) continue;
    ASSERT_EQ(**found, *wanted);
  }
}

TEST(StreamSeek, FindsWhatTheIndexFinds) {  // INDEX-3
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream stream(seed);
    ASSERT_GT(list_segments(stream.path())->size(), 2U);
    ASSERT_FALSE(read_segment_steps(stream.path(), probe_stream(stream.path())->stream_id).empty());
    expect_same_answers(stream);
    std::filesystem::remove(index_path(stream.path(), 1));
    expect_same_answers(stream);
    std::string steps = read_bytes(steps_path(stream.path()));
    steps[stream.rng().next_u64() % steps.size()] ^= 4;
    write_bytes(steps_path(stream.path()), steps.substr(0, steps.size() - 7));
    expect_same_answers(stream);
    std::filesystem::remove(steps_path(stream.path()));
    expect_same_answers(stream);
  }
}

// The header of the next segment never got to disk: the writer goes on in one that has an entry.
TEST(StreamSeek, AnEntryOfASegmentThatGrewExcludesNothing) {
  StreamFolder folder;
  fill(folder.path(), 8, small_segments(4096));
  const uint32_t last = list_segments(folder.path())->back();
  ASSERT_GT(last, 1U);
  std::filesystem::remove(folder.segment(last));
  std::filesystem::remove(index_path(folder.path(), last));
  const std::string steps = read_bytes(steps_path(folder.path()));
  write_bytes(steps_path(folder.path()), steps.substr(0, steps.size() - 64));  // its own, at close
  const uint64_t id = probe_stream(folder.path())->stream_id;
  ASSERT_FALSE(read_segment_steps(folder.path(), id)
                   .at(last - 1)
                   .may_hold({TrajectoryKind::train, 99, 0, 0}));
  auto writer = Writer::open(folder.path(), small_segments(1 << 20));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(99, 0, 0)));
  const auto found = find_newest(folder.path(), id, {TrajectoryKind::train, 99, 0, 0});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->id.segment, last - 1);
}

TEST(StreamSeek, RepairForgetsWhatSegmentsHeld) {
  StreamFolder folder;
  fill(folder.path(), 2, small_segments());
  const uint64_t id = probe_stream(folder.path())->stream_id;
  ASSERT_EQ(read_segment_steps(folder.path(), id).size(), 1U);  // of the last one, at close
  const std::string bytes = read_bytes(folder.segment(0));
  write_bytes(folder.segment(0), bytes.substr(0, bytes.size() - 3));
  ASSERT_TRUE(repair(folder.path()));
  EXPECT_TRUE(read_segment_steps(folder.path(), id).empty());
}

TEST(StreamSeek, FinishedSegmentsThatCannotHoldAKeyAreNotOpened) {
  StreamFolder folder;
  fill(folder.path(), 40, small_segments(4096));
  const uint64_t id = probe_stream(folder.path())->stream_id;
  for (const uint32_t segment : *list_segments(folder.path()))  // a sidecar that cannot be opened
    if (segment > 0 && segment + 1 < list_segments(folder.path())->size())
      std::filesystem::remove(index_path(folder.path(), segment));
  const auto steps = read_segment_steps(folder.path(), id);
  size_t candidates = 0;
  for (const auto& [segment, entry] : steps)
    candidates += entry.may_hold({TrajectoryKind::train, 20, 0, 0}) ? 1 : 0;
  EXPECT_GE(candidates, 1U);
  EXPECT_LE(candidates, 2U) << "of " << steps.size();
}

// -- searches --------------------------------------------------------------------

traj::ScanQuestion question(bool is_literal) {
  traj::ScanQuestion x;
  if (is_literal)
    x.may_match = [](std::string_view header) { return header.find("Right") != header.npos; };
  x.match = [](const proto::Trajectory& t) {
    return t.score >= 3 ? std::optional(proto::to_string(t.key) + " " + std::to_string(t.score))
                        : std::nullopt;
  };
  return x;
}

void expect_same_matches(const std::filesystem::path& folder, size_t threads) {
  const traj::ScanQuestion asked = question(threads % 2 == 0);
  auto reader = Reader::open(folder);
  ASSERT_TRUE(reader);
  std::vector<std::string> wanted;
  uint64_t count = 0;
  const auto read =
      traj::for_each_trajectory(*reader, {}, [&](const RecordInfo&, const proto::Trajectory& t) {
        ++count;
        if (auto text = asked.match(t)) wanted.push_back(*text);
      });
  const auto answer = traj::scan_newest(folder, asked, threads);
  ASSERT_TRUE(answer) << answer.error().detail;
  EXPECT_EQ(answer->matches, wanted);
  if (read) {  // else a damaged record of a key is newer than the others
    EXPECT_EQ(answer->trajectories, count);
    EXPECT_TRUE(answer->damages.empty());
  } else {
    EXPECT_FALSE(answer->damages.empty());
  }
}

TEST(ParallelScan, AnswersAsTheSequentialRead) {  // SCAN-3
  for (uint64_t seed = 1; seed <= 8; ++seed)
    for (const size_t threads : {1U, 2U, 5U}) {
      SCOPED_TRACE(seed * 10 + threads);
      RandomStream stream(seed);
      expect_same_matches(stream.path(), threads);
      std::string bytes = read_bytes(stream.last_segment());
      write_bytes(stream.last_segment(), bytes.substr(0, bytes.size() - 9));  // a torn tail
      expect_same_matches(stream.path(), threads);
    }
}

// A damaged newest record is no match and is named; what it replaced stays replaced.
TEST(ParallelScan, DamageIsNamedAndReplacesAllTheSame) {
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto writer = Writer::open(folder.path(), small_segments());
  proto::Trajectory again = small_trajectory(0, 0, 0, 20, 1);
  again.score = 4;
  ASSERT_TRUE(writer->append_trajectory(again));
  ASSERT_TRUE(writer->close());
  const RecordInfo info = Index::load(folder.path())->records().back();
  std::string bytes = read_bytes(folder.segment(0));
  bytes[info.id.offset + 100] ^= 1;
  write_bytes(folder.segment(0), bytes);
  traj::ScanQuestion all = question(false);
  all.match = [](const proto::Trajectory& t) { return proto::to_string(t.key); };
  const auto answer = traj::scan_newest(folder.path(), all, 2);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->matches.size(), 3U);
  EXPECT_EQ(answer->trajectories, 4U);
  ASSERT_EQ(answer->damages.size(), 1U);
  EXPECT_NE(answer->damages[0].find("record 6 at "), std::string::npos) << answer->damages[0];
}

}  // namespace
}  // namespace cohort::stream::test
