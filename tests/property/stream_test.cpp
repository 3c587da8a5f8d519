// The stream under every cut and every flipped byte, and while it is written; packed or not.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <thread>

#include "runtime/proto/codec.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/index.hpp"
#include "runtime/stream/index_proof.hpp"
#include "runtime/stream/packing.hpp"
#include "runtime/stream/segment_steps.hpp"
#include "tests/support/stream_folder.hpp"

namespace cohort::stream::test {
namespace {

class Stream : public ::testing::TestWithParam<Compression> {
 protected:
  static WriterOptions small(size_t segment_bytes = size_t{1} << 20) {
    return small_segments(segment_bytes, GetParam());
  }
};
class StreamIndex : public Stream {};
class StreamLive : public Stream {};

std::string name_of(const ::testing::TestParamInfo<Compression>& info) {
  return info.param == Compression::zstd ? "packed" : "plain";
}
constexpr auto k_both = [] { return ::testing::Values(Compression::none, Compression::zstd); };
INSTANTIATE_TEST_SUITE_P(As, Stream, k_both(), name_of);
INSTANTIATE_TEST_SUITE_P(As, StreamIndex, k_both(), name_of);
INSTANTIATE_TEST_SUITE_P(As, StreamLive, k_both(), name_of);

TEST_P(Stream, RoundTripOverSegments) {
  StreamFolder folder;
  fill(folder.path(), 6, small(2048));
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

TEST_P(Stream, ReopenedStreamGoesOn) {
  StreamFolder folder;
  fill(folder.path(), 2, small());
  auto writer = Writer::open(folder.path(), small());
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->recovered().is_reopened);
  EXPECT_EQ(writer->recovered().describe(), "");
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(9, 0, 0)));
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(read_all(folder.path()).back().info.number, 11U);
  EXPECT_TRUE(verify(folder.path())->is_clean());
}

TEST_P(Stream, CutAtEveryByteLeavesExactlyTheRecordsBefore) {  // STREAM-4
  StreamFolder folder;
  fill(folder.path(), 1, small(), false);  // it died before a sync(): no index knows of more
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
    auto writer = Writer::open(folder.path(), small());
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

TEST_P(Stream, AnyFlippedByteIsFoundAndNamed) {  // STREAM-2
  StreamFolder folder;
  fill(folder.path(), 1, small());
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

TEST_P(Stream, WriterLeavesDamageAndGoesOnBehindIt) {
  StreamFolder folder;
  fill(folder.path(), 1, small());
  auto records = infos_of(read_all(folder.path()));
  std::string bytes = read_bytes(folder.segment(0));
  bytes[records[2].id.offset + 100] ^= 1;
  write_bytes(folder.segment(0), bytes);
  {
    auto writer = Writer::open(folder.path(), small());
    ASSERT_TRUE(writer);
    EXPECT_NE(writer->recovered().damage.find("record 2"), std::string::npos);
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 0, 0)));
  }
  auto report = verify(folder.path());
  EXPECT_EQ(report->damage_count, 1U);
  EXPECT_EQ(report->damages.front().record, 2U);
  EXPECT_EQ(report->records, records.size());
}

TEST_P(Stream, MissingSegmentIsDamage) {
  StreamFolder folder;
  fill(folder.path(), 6, small(2048));
  std::filesystem::remove(folder.segment(1));
  auto report = verify(folder.path());
  ASSERT_TRUE(report);
  EXPECT_GE(report->damage_count, 1U);
  EXPECT_EQ(report->damages.front().id.segment, 1U);
}

/// What became of the last segment of a stream whose indexes are whole.
enum class Loss { missing, emptied, zeroed, cut_between_records, cut_inside_a_record };
constexpr std::array k_losses = {Loss::missing, Loss::emptied, Loss::zeroed,
                                 Loss::cut_between_records, Loss::cut_inside_a_record};

/// Makes a stream of several segments with that loss; returns how many records are left.
size_t lose(const StreamFolder& folder, Loss loss, const WriterOptions& options) {
  fill(folder.path(), 6, options);
  const uint32_t last = list_segments(folder.path())->back();
  EXPECT_GT(last, 1U);
  std::vector<RecordInfo> inside;
  size_t before = 0;
  for (const RecordInfo& info : infos_of(read_all(folder.path())))
    if (info.id.segment == last)
      inside.push_back(info);
    else
      ++before;
  const std::string bytes = read_bytes(folder.segment(last));
  const size_t end = inside.back().id.offset;
  if (loss == Loss::missing) std::filesystem::remove(folder.segment(last));
  if (loss == Loss::emptied) write_bytes(folder.segment(last), "");
  if (loss == Loss::zeroed) write_bytes(folder.segment(last), std::string(bytes.size(), '\0'));
  if (loss == Loss::cut_between_records) write_bytes(folder.segment(last), bytes.substr(0, end));
  if (loss == Loss::cut_inside_a_record)
    write_bytes(folder.segment(last), bytes.substr(0, end + 70));
  return before + (loss < Loss::cut_between_records ? 0 : inside.size() - 1);
}

// STREAM-7: an index names what was on the disk, so it proves a loss; with either index gone too.
TEST_P(Stream, AnEndThatAnIndexProvesIsDamage) {
  for (const Loss loss : k_losses)
    for (const char* gone : {"", "steps.index"}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(loss)) + gone);
      StreamFolder folder;
      const size_t left = lose(folder, loss, small(2048));
      if (gone == std::string("steps.index")) std::filesystem::remove(folder.path() / gone);
      const auto report = verify(folder.path());
      ASSERT_TRUE(report) << report.error().detail;
      EXPECT_EQ(report->damage_count, 1U);
      EXPECT_EQ(report->records, left);
      EXPECT_EQ(Index::load(folder.path())->damages().size(), 1U);
      size_t damages = 0;
      EXPECT_EQ(read_all(folder.path(), &damages).size(), left);
      EXPECT_EQ(damages, 1U);
    }
}

TEST_P(Stream, AWriterTellsALossAndKeepsItsNumbers) {
  for (const Loss loss : k_losses) {
    SCOPED_TRACE(static_cast<int>(loss));
    StreamFolder folder;
    const size_t left = lose(folder, loss, small(2048));
    {
      auto writer = Writer::open(folder.path(), small(2048));
      ASSERT_TRUE(writer) << writer.error().detail;
      EXPECT_NE(writer->recovered().describe().find("lost"), std::string::npos)
          << writer->recovered().describe();
      ASSERT_TRUE(writer->append_trajectory(small_trajectory(9, 0, 0)));
      ASSERT_TRUE(writer->close());
    }
    size_t damages = 0;
    const auto records = read_all(folder.path(), &damages);
    ASSERT_EQ(records.size(), left + 1);
    EXPECT_EQ(records.back().info.number, 31U) << "those before it are the lost ones'";
    EXPECT_GE(damages, 1U);
    EXPECT_GE(verify(folder.path())->damage_count, 1U);
  }
}

TEST_P(Stream, RepairGivesALostEndUp) {
  for (const Loss loss : k_losses) {
    SCOPED_TRACE(static_cast<int>(loss));
    StreamFolder folder;
    const size_t left = lose(folder, loss, small(2048));
    const auto repaired = repair(folder.path());
    ASSERT_TRUE(repaired) << repaired.error().detail;
    EXPECT_TRUE(repaired->is_end_given_up);
    EXPECT_EQ(verify(folder.path())->damage_count, 0U);
    EXPECT_EQ(read_all(folder.path()).size(), left);
  }
}

TEST_P(Stream, AnIndexSaysWhatASyncHasBroughtToTheDisk) {  // STREAM-7
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), small(2048));
  ASSERT_TRUE(writer);
  const auto proven = [&] {
    const IndexProof proof =
        IndexProof::read(folder.path(), probe_stream(folder.path())->stream_id);
    uint64_t records = 0;
    const std::vector<uint32_t> segments = list_segments(folder.path()).value();
    for (const uint32_t segment : segments)
      records = std::max(records, proof.next_record_in(segment));
    return records;
  };
  for (uint32_t i = 0; i < 8; ++i)
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, i, 0)));
  ASSERT_GT(list_segments(folder.path())->size(), 1U);
  EXPECT_EQ(proven(), 0U);
  ASSERT_TRUE(writer->sync());
  EXPECT_EQ(proven(), 8U);
  ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, 8, 0)));
  EXPECT_EQ(proven(), 8U);
}

// A live search does not scan a segment: what has no proof has entries all the same.
TEST_P(Stream, EntriesAreWrittenBeforeASync) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), {});
  ASSERT_TRUE(writer);
  constexpr uint32_t k_records = 1100;
  for (uint32_t i = 0; i < k_records; ++i)
    ASSERT_TRUE(writer->append_trajectory(small_trajectory(1, i, 0)));
  const uint64_t stream_id = probe_stream(folder.path())->stream_id;
  EXPECT_EQ(read_sidecar(folder.path(), 0, stream_id).size(), 1024U);
  EXPECT_EQ(IndexProof::read(folder.path(), stream_id).next_record(), 0U);
  ASSERT_TRUE(writer->sync());
  EXPECT_EQ(read_sidecar(folder.path(), 0, stream_id).size(), k_records);
  EXPECT_EQ(IndexProof::read(folder.path(), stream_id).next_record(), k_records);
}

// A segment before others: each way of reading says it once.
TEST_P(Stream, AMissingSegmentIsSaidByEachReader) {
  for (const uint32_t missing : {0U, 1U}) {
    SCOPED_TRACE(missing);
    StreamFolder folder;
    fill(folder.path(), 6, small(2048));
    std::filesystem::remove(folder.segment(missing));
    EXPECT_EQ(Index::load(folder.path())->damages().size(), 1U);
    size_t damages = 0;
    read_all(folder.path(), &damages);
    EXPECT_EQ(damages, 1U);
  }
}

TEST(StreamFile, AFifoIsRefusedAtOnce) {
  StreamFolder folder;
  ASSERT_EQ(::mkfifo(folder.segment(0).c_str(), 0600), 0);
  const auto read = Reader::open(folder.path());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().detail.find("not a regular file"), std::string::npos);
  EXPECT_FALSE(verify(folder.path()));
}

TEST_P(Stream, ASegmentReservesNoMoreThanIsExpected) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), {.expected_bytes = size_t{1} << 20});
  ASSERT_TRUE(writer);
  struct stat status {};
  ASSERT_EQ(::stat(folder.segment(0).c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 2 << 20) << "of 64 MiB that a segment may have";
}

TEST_P(Stream, RepairCutsTornTailAndDamagedEndOnly) {
  StreamFolder folder;
  fill(folder.path(), 1, small());
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

TEST_P(Stream, NewerFormatIsAClearError) {
  StreamFolder folder;
  auto bytes = encode_segment_header({.version = k_format_version_max + 1, .stream_id = 1});
  write_bytes(folder.segment(0), std::string(reinterpret_cast<char*>(bytes.data()), bytes.size()));
  EXPECT_EQ(Reader::open(folder.path()).error().code, Errc::protocol);
  EXPECT_EQ(verify(folder.path()).error().code, Errc::protocol);
  EXPECT_EQ(Writer::open(folder.path()).error().code, Errc::protocol);
}

// Each record that has grown smaller, and no other; what reads it again is what was written.
TEST(StreamPacking, PacksWhatGrowsSmaller) {
  StreamFolder plain, packed;
  fill(plain.path(), 3, small_segments());
  fill(packed.path(), 3, small_segments(size_t{1} << 20, Compression::zstd));
  const auto expected = read_all(plain.path()), found = read_all(packed.path());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const RecordInfo& info = found[i].info;
    EXPECT_EQ(info.is_packed, info.type == RecordType::trajectory) << i;
    EXPECT_LE(info.size_bytes(), expected[i].info.size_bytes());
    EXPECT_EQ(info.header_bytes, expected[i].info.header_bytes);
    const auto a = found[i].body.bytes(), b = expected[i].body.bytes();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
    EXPECT_EQ(found[i].columns().size(), expected[i].columns().size());
  }
  const auto version = [](const StreamFolder& folder) {
    return static_cast<int>(read_bytes(folder.segment(0))[8]);
  };
  EXPECT_EQ(version(plain), 1) << "older programs read it";
  EXPECT_EQ(version(packed), 2);
}

// A segment that older programs read gets no packed record; a later plain one is at home anywhere.
TEST(StreamPacking, AWriterThatPacksBeginsASegment) {
  StreamFolder folder;
  fill(folder.path(), 1, small_segments());
  fill(folder.path(), 1, small_segments(size_t{1} << 20, Compression::zstd));
  fill(folder.path(), 1, small_segments());
  const auto records = read_all(folder.path());
  ASSERT_EQ(records.size(), 18U);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].info.id.segment, i < 6 ? 0U : 1U) << i;
    if (records[i].info.is_packed) {
      EXPECT_TRUE(i >= 6 && i < 12) << i;
    }
  }
  EXPECT_TRUE(verify(folder.path())->is_clean());
}

TEST(StreamPacking, AFrameThatIsNoneIsCorrupt) {
  const auto trajectory = small_trajectory(1, 0, 0);
  const proto::Encoded encoded = proto::encode_batch({&trajectory, 1});
  const auto header = std::as_bytes(std::span(encoded.header));
  const auto packed = pack(header, encoded.columns.bytes());
  const std::vector<std::byte> frame(packed.begin(), packed.end());
  ASSERT_FALSE(frame.empty());
  ASSERT_TRUE(unpack(frame, header.size()));
  for (size_t cut = 0; cut < frame.size(); ++cut)
    EXPECT_EQ(unpack(std::span(frame).first(cut), header.size()).error().code, Errc::corrupt);
  EXPECT_EQ(unpack(frame, uint64_t{1} << 40).error().code, Errc::corrupt);
  // A frame of 24 bytes that says it holds 2^40: nothing so large is asked for.
  std::vector<std::byte> huge(24);
  const uint32_t magic = 0xFD2FB528;
  const uint64_t size = uint64_t{1} << 40;
  std::memcpy(huge.data(), &magic, sizeof magic);
  huge[4] = std::byte{0xE0};  // a single segment with a content size of 8 bytes
  std::memcpy(huge.data() + 5, &size, sizeof size);
  EXPECT_EQ(unpack(huge, 10).error().code, Errc::corrupt);
  EXPECT_TRUE(pack({}, {}).empty());
}

TEST_P(Stream, SecondWriterAndForeignRunAreRefused) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), small());
  ASSERT_TRUE(writer);
  EXPECT_EQ(Writer::open(folder.path(), small()).error().code, Errc::closed);
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(writer->append_json(RecordType::event, "{}").error().code, Errc::closed);
  EXPECT_EQ(Writer::open(folder.path(), {.run_id = "other"}).error().code, Errc::invalid_argument);
}

TEST_P(Stream, ReservedSpaceIsGivenBackAtClose) {  // STREAM-6
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

TEST_P(StreamIndex, NewestRecordOfAKeyWins) {  // INDEX-1
  StreamFolder folder;
  fill(folder.path(), 2, small());
  auto writer = Writer::open(folder.path(), small());
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
TEST_P(StreamIndex, AnswersDoNotDependOnTheSidecar) {  // INDEX-2
  StreamFolder folder;
  fill(folder.path(), 2, small());
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

TEST_P(StreamIndex, StaleEntryIsNotReadAsAnotherRecord) {
  StreamFolder folder;
  fill(folder.path(), 1, small());
  auto reader = Reader::open(folder.path());
  RecordInfo info = (*reader->index())->records()[2];
  info.key.attempt = 7;
  EXPECT_EQ(reader->read(info).error().code, Errc::corrupt);
}

/// Given four writing threads and a reader: it sees every record once, in order, whole.
TEST_P(StreamLive, ReaderFollowsWriters) {
  StreamFolder folder;
  auto writer = Writer::open(folder.path(), small(size_t{64} << 10));
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
