#include <gtest/gtest.h>

#include "runtime/stream/format.hpp"

namespace cohort::stream {
namespace {

RecordInfo sample_info() {
  RecordInfo info;
  info.id = {3, 4096};
  info.number = 77;
  info.type = RecordType::trajectory;
  info.header_bytes = 130;
  info.columns_bytes = 640;
  info.key = {9, proto::TrajectoryKey{proto::TrajectoryKind::val, 9, 4, 2}, 1};
  return info;
}

TEST(StreamFormat, PrefixRoundTrips) {
  RecordInfo info = sample_info();
  auto decoded = decode_prefix(encode_prefix(info, 0xABCD, 5), 5);
  ASSERT_TRUE(decoded);
  decoded->info.id = info.id;
  EXPECT_EQ(decoded->info, info);
  EXPECT_EQ(decoded->body_checksum, 0xABCDU);
}

TEST(StreamFormat, PrefixOfAnotherStreamIsNoPrefix) {  // STREAM-3
  EXPECT_FALSE(decode_prefix(encode_prefix(sample_info(), 0, 5), 6));
}

TEST(StreamFormat, AnyFlippedBitOfAPrefixShows) {  // STREAM-2
  Block block = encode_prefix(sample_info(), 0xABCD, 5);
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    Block flipped = block;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode_prefix(flipped, 5)) << bit;
  }
}

TEST(StreamFormat, IndexEntryRoundTrips) {
  RecordInfo info = sample_info();
  IndexHeader header{3, 5, 7};
  auto decoded = decode_index_entry(encode_index_entry(info, 5), header);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, info);
  auto again = decode_index_header(encode_index_header(header));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->segment, 3U);
  EXPECT_EQ(again->stream_id, 5U);
  EXPECT_EQ(again->proven, 7U);
}

TEST(StreamFormat, NewerVersionIsToldFromDamage) {
  SegmentHeader header{.segment = 2, .first_record = 8, .stream_id = 5, .run_id = "r"};
  auto bytes = encode_segment_header(header);
  auto decoded = decode_segment_header(bytes);
  EXPECT_FALSE(decoded.is_damaged || decoded.is_newer);
  EXPECT_EQ(decoded.header.run_id, "r");
  EXPECT_EQ(decoded.header.first_record, 8U);
  header.version = k_format_version_max + 1;
  auto newer = decode_segment_header(encode_segment_header(header));
  EXPECT_TRUE(newer.is_newer);
  EXPECT_FALSE(newer.is_damaged);
  bytes[8] ^= std::byte{2};
  EXPECT_TRUE(decode_segment_header(bytes).is_damaged);
}

TEST(StreamFormat, RecordsCoverWholeBlocks) {  // STREAM-1
  EXPECT_EQ(record_bytes(0, 0), 64U);
  EXPECT_EQ(record_bytes(1, 0), 128U);
  EXPECT_EQ(record_bytes(64, 65), 256U);
}

TEST(StreamFormat, KeyOfRefusesWhatTheTypeDoesNotAllow) {
  auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(key_of(RecordType::event, bytes(R"({"step":4})"), {})->step, 4U);
  EXPECT_FALSE(key_of(RecordType::event, bytes(R"({"kind":"drop"})"), {})->step);
  EXPECT_FALSE(key_of(RecordType::event, bytes("not json"), {}));
  EXPECT_FALSE(key_of(RecordType::event, bytes("{}"), bytes("columns")));
  EXPECT_FALSE(key_of(RecordType::trajectory, bytes("{}"), {}));
}

}  // namespace
}  // namespace cohort::stream
