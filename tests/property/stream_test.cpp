// The stream under every cut and every flipped byte, and while it is written.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "runtime/stream/format.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

TEST(Stream, RoundTripOverSegments) {
  StreamFolder folder;
  fill(folder.path(), 6, small_segments(4096));
  auto records = read_all(folder.path());
  ASSERT_EQ(records.size(), 31U);
  EXPECT_GT(records.back().info.id.segment, 1U);
  EXPECT_EQ(records[0].text(), R"({"yaml":"a: 1","run_id":"x"})");
  EXPECT_EQ(*records[1].trajectory(), small_trajectory(0, 0, 0));
  EXPECT_EQ(*records[29].trajectory(), small_trajectory(5, 1, 1));
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].info.number, i);
  auto report = verify(folder.path());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->is_clean());
  EXPECT_EQ(report->records, 31U);
}

TEST(Stream, ReopenedStreamGoesOn) {
  StreamFolder folder;
  fill(folder.path(), 2, small_segments());
  auto writer = Writer::open(folder.path(), small_segments());
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->recovered().is_reopened);
  EXPECT_EQ(writer->recovered().describe(), "");
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(9, 0, 0)));
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(read_all(folder.path()).back().info.number, 11U);
  EXPECT_TRUE(verify(folder.path())->is_clean());
}

TEST(Stream, CutAtEveryByteLeavesExactlyTheRecordsBefore) {  // STREAM-4
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto records = infos_of(read_all(folder.path()));
  std::string whole = read_bytes(folder.segment(0));
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    SCOPED_TRACE(cut);
    write_bytes(folder.segment(0), whole.substr(0, cut));
    size_t kept = 0, end = k_segment_header_bytes;
    while (kept < records.size() && records[kept].id.offset + records[kept].size_bytes() <= cut)
      end = records[kept].id.offset + records[kept].size_bytes(), ++kept;
    size_t torn = cut < k_segment_header_bytes ? cut : cut - end;
    auto report = verify(folder.path());
    ASSERT_TRUE(report);
    ASSERT_EQ(report->damage_count, 0U);
    ASSERT_EQ(report->torn_tail_bytes, torn);
    auto writer = Writer::open(folder.path(), small_segments());
    ASSERT_TRUE(writer) << writer.error().detail;
    ASSERT_EQ(writer->recovered().records, kept);
    ASSERT_EQ(writer->recovered().torn_bytes, torn);
    ASSERT_TRUE(writer->append_json(RecordType::event, R"({"kind":"resume"})"));
    auto after = read_all(folder.path());
    ASSERT_EQ(after.size(), kept + 1);
    ASSERT_EQ(after.back().info.number, kept);
    ASSERT_TRUE(verify(folder.path())->is_clean());
  }
}

TEST(Stream, AnyFlippedByteIsFoundAndNamed) {  // STREAM-2
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto records = infos_of(read_all(folder.path()));
  std::string whole = read_bytes(folder.segment(0));
  size_t at = 0;
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    SCOPED_TRACE(byte);
    while (at + 1 < records.size() && byte >= records[at + 1].id.offset) ++at;
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (byte % 8)));
    write_bytes(folder.segment(0), flipped);
    auto report = verify(folder.path());
    ASSERT_TRUE(report) << report.error().detail;
    ASSERT_EQ(report->damage_count, 1U) << report->damages.front().describe();
    const Damage& damage = report->damages.front();
    bool is_header = byte < k_segment_header_bytes;
    ASSERT_EQ(damage.id.offset, is_header ? 0 : records[at].id.offset);
    ASSERT_EQ(damage.record, is_header ? 0 : records[at].number);
    ASSERT_EQ(report->records, records.size() - (is_header ? 0 : 1));
    if (!is_header) {  // from the prefix, or from the sidecar where the prefix is hit
      ASSERT_EQ(damage.type, records[at].type);
      ASSERT_EQ(damage.key, records[at].key.trajectory);
    }
    size_t damages = 0;
    ASSERT_EQ(read_all(folder.path(), &damages).size(), report->records);
    ASSERT_EQ(damages, 1U);
  }
}

TEST(Stream, WriterLeavesDamageAndGoesOnBehindIt) {
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto records = infos_of(read_all(folder.path()));
  std::string bytes = read_bytes(folder.segment(0));
  bytes[records[2].id.offset + 100] ^= 1;
  write_bytes(folder.segment(0), bytes);
  {
    auto writer = Writer::open(folder.path(), small_segments());
    ASSERT_TRUE(writer);
    EXPECT_NE(writer->recovered().damage.find("record 2"), std::string::npos);
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 0, 0)));
  }
  auto report = verify(folder.path());
  EXPECT_EQ(report->damage_count, 1U);
  EXPECT_EQ(report->damages.front().record, 2U);
  EXPECT_EQ(report->records, records.size());
}

TEST(Stream, MissingSegmentIsDamage) {
  StreamFolder folder;
  fill(folder.path(), 6, small_segments(4096));
  std::filesystem::remove(folder.segment(1));
  auto report = verify(folder.path());
  ASSERT_TRUE(report);
  EXPECT_GE(report->damage_count, 1U);
  EXPECT_EQ(report->damages.front().id.segment, 1U);
}

TEST(Stream, RepairCutsTornTailAndDamagedEndOnly) {
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto records = infos_of(read_all(folder.path()));
  std::string bytes = read_bytes(folder.segment(0));
  bytes[records.back().id.offset + 70] ^= 1;
  write_bytes(folder.segment(0), bytes + std::string(100, 'x'));
  auto report = repair(folder.path());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cut_bytes, bytes.size() + 100 - records.back().id.offset);
  EXPECT_TRUE(verify(folder.path())->is_clean());
  EXPECT_EQ(read_all(folder.path()).size(), records.size() - 1);
}

TEST(Stream, NewerFormatIsAClearError) {
  StreamFolder folder;
  auto bytes = encode_segment_header({.version = k_format_version + 1, .stream_id = 1});
  write_bytes(folder.segment(0), std::string(reinterpret_cast<char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(Reader::open(folder.path()).error().code, Errc::protocol);
  EXPECT_EQ(verify(folder.path()).error().code, Errc::protocol);
  EXPECT_EQ(Writer::open(folder.path()).error().code, Errc::protocol);
}

TEST(Stream, SecondWriterAndForeignRunAreRefused) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), small_segments());
  ASSERT_TRUE(writer);
  EXPECT_EQ(Writer::open(folder.path(), small_segments()).error().code, Errc::closed);
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(writer->append_json(RecordType::event, "{}").error().code, Errc::closed);
  EXPECT_EQ(Writer::open(folder.path(), {.run_id = "other"}).error().code, Errc::invalid_argument);
}

TEST(Stream, ReservedSpaceIsGivenBackAtClose) {  // STREAM-6
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), {.segment_bytes = size_t{8} << 20});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 0, 0)));
  ASSERT_TRUE(writer->close());
  File file = *File::open(folder.segment(0), OpenMode::read);
  struct stat status {};
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST(StreamIndex, NewestRecordOfAKeyWins) {  // INDEX-1
  StreamFolder folder;
  fill(folder.path(), 2, small_segments());
  auto writer = Writer::open(folder.path(), small_segments());
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 0, 1, 30, 1)));
  auto reader = Reader::open(folder.path());
  auto record = reader->find({proto::TrajectoryKind::train, 1, 0, 1});
  ASSERT_TRUE(record && *record);
  EXPECT_EQ((*record)->trajectory()->attempt, 1U);
  EXPECT_EQ(reader->of_step(1)->size(), 5U);
  EXPECT_EQ((*reader->index())->trajectories().size(), 8U);
  EXPECT_FALSE(*reader->find({proto::TrajectoryKind::val, 1, 0, 1}));
}

/// Given a sidecar that is missing, cut, flipped or of another time: the same records are found.
TEST(StreamIndex, AnswersDoNotDependOnTheSidecar) {  // INDEX-2
  StreamFolder folder;
  fill(folder.path(), 2, small_segments());
  auto expected = Index::load(folder.path())->records();
  EXPECT_EQ(Index::load(folder.path())->scanned_records(), 0U);
  std::filesystem::path path = index_path(folder.path(), 0);
  std::string whole = read_bytes(path);
  for (size_t byte = 0; byte <= whole.size(); ++byte) {
    SCOPED_TRACE(byte);
    write_bytes(path, whole.substr(0, byte));
    ASSERT_EQ(Index::load(folder.path())->records(), expected);
    if (byte == whole.size()) break;
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 4);
    write_bytes(path, flipped);
    ASSERT_EQ(Index::load(folder.path())->records(), expected);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(Index::load(folder.path())->records(), expected);
  EXPECT_EQ(Index::load(folder.path())->scanned_records(), expected.size());
}

TEST(StreamIndex, StaleEntryIsNotReadAsAnotherRecord) {
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  auto reader = Reader::open(folder.path());
  RecordInfo info = (*reader->index())->records()[2];
  info.key.attempt = 7;
  EXPECT_EQ(reader->read(info).error().code, Errc::corrupt);
}

/// Given four writing threads and a reader: it sees every record once, in order, whole.
TEST(StreamLive, ReaderFollowsWriters) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), small_segments(size_t{64} << 10));
  ASSERT_TRUE(writer);
  constexpr uint32_t k_threads = 4, k_each = 200;
  std::atomic<bool> has_failed = false;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < k_threads; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < k_each; ++i)
        if (!writer->append_trajectory(small_trajectory(i, t, 0, 10 + i)) ||
            (i % 50 == 0 && !writer->sync()))
          has_failed = true;
    });
  auto reader = Reader::open(folder.path());
  ASSERT_TRUE(reader);
  uint64_t seen = 0;
  for (uint64_t polls = 0; seen < k_threads * k_each && polls < 50'000'000 && !has_failed;
       ++polls) {
    auto record = reader->next();
    ASSERT_TRUE(record) << record.error().detail;
    if (!*record) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ((*record)->info.number, seen++);
    ASSERT_TRUE((*record)->trajectory());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, k_threads * k_each);
  EXPECT_FALSE(has_failed);
}

}  // namespace
}  // namespace cohort::stream::test
