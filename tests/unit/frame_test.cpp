// Frames and the consumer's view of a session, without a socket.
#include "runtime/transport/frame.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/receiver_session.hpp"

namespace cohort::transport {
namespace {

using detail::Part;
using detail::Session;

constexpr uint64_t k_chunk = 1024, k_credit = 10000;

Session make_session(uint64_t first_seq = 1, uint64_t first_position = 0) {
  return Session(1, 1, {1, 1, "run", "p", first_seq, first_position, k_chunk, 1000}, k_credit,
                 true);
}

FrameHeader header_of(uint64_t seq, uint64_t body_bytes, uint32_t chunk = 0) {
  FrameHeader header;
  header.seq = seq;
  header.body_bytes = body_bytes;
  header.chunk = chunk;
  header.chunk_count = static_cast<uint32_t>(chunk_count_of(body_bytes, k_chunk));
  return header;
}

/// Feeds one chunk whose bytes are all `fill`.
Expected<Session::Outcome> feed(Session& session, FrameHeader header, int fill = 1) {
  Part part(chunk_size_of(header.body_bytes, k_chunk, header.chunk));
  std::memset(part.mutable_bytes().data(), fill, part.bytes().size());
  header.body_checksum = tensor::checksum64(part.bytes());
  return session.on_data(header, {}, std::move(part));
}

TEST(Frame, GoldenBytes) {  // docs/wire.md; a change here is a new protocol version
  FrameHeader header;
  header.kind = FrameKind::data;
  header.session = 0x1122334455667788;
  header.seq = 3;
  header.chunk = 1;
  header.chunk_count = 2;
  header.body_bytes = 1500;
  header.header_bytes = 7;
  header.type = 9;
  header.body_checksum = 0xaabbccddeeff0011;
  std::array<std::byte, 64> part{};
  seal(header, part);
  std::string hex;
  for (std::byte x : part) {
    std::array<char, 3> text{};
    std::snprintf(text.data(), text.size(), "%02x", std::to_integer<unsigned>(x));
    hex += text.data();
  }
  EXPECT_EQ(hex.substr(16),
            "43484631010400008877665544332211030000000000000001000000"
            "02000000dc0500000000000007000000090000001100ffeeddccbbaa");
  EXPECT_TRUE(unseal(part));
}

TEST(Frame, AnyFlippedBitIsSeen) {
  std::array<std::byte, 80> part{};
  seal({}, part);
  ASSERT_TRUE(unseal(part));
  for (size_t bit = 0; bit < part.size() * 8; ++bit) {
    part[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(unseal(part)) << bit;
    part[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_FALSE(unseal(std::span(part).first(63)));
}

TEST(Frame, ChunksCoverTheBody) {
  for (uint64_t size : {0u, 1u, 1023u, 1024u, 1025u, 5000u}) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < chunk_count_of(size, k_chunk); ++i)
      sum += chunk_size_of(size, k_chunk, i);
    EXPECT_EQ(sum, size);
  }
}

TEST(SessionOrder, DuplicatesAndGapsAreToldApart) {  // LINK-1
  Session session = make_session();
  EXPECT_EQ(*feed(session, header_of(2, 10)), Session::Outcome::gap);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 1)), Session::Outcome::gap);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 0), 5), Session::Outcome::progress);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 0)), Session::Outcome::duplicate);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 1), 5), Session::Outcome::message);
  Message message = session.take();
  ASSERT_EQ(message.body.size_bytes(), 2000u);
  for (std::byte x : message.body.bytes()) ASSERT_EQ(x, std::byte{5});
  EXPECT_EQ(*feed(session, header_of(1, 2000, 1)), Session::Outcome::duplicate);
  EXPECT_EQ(session.next_seq(), 2u);
}

TEST(SessionOrder, LostAssemblyStartsOver) {
  Session session = make_session();
  ASSERT_EQ(*feed(session, header_of(1, 2000, 0)), Session::Outcome::progress);
  session.drop_assembly();
  EXPECT_EQ(*feed(session, header_of(1, 2000, 1)), Session::Outcome::gap);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 0)), Session::Outcome::progress);
  EXPECT_EQ(*feed(session, header_of(1, 2000, 1)), Session::Outcome::message);
}

TEST(SessionAcks, CumulativeWhateverTheOrder) {  // LINK-2
  Session session = make_session(5, 700);
  for (uint64_t seq = 5; seq < 8; ++seq)
    ASSERT_EQ(*feed(session, header_of(seq, 100)), Session::Outcome::message);
  uint64_t cost = cost_of(0, 100);
  EXPECT_EQ(session.granted(), 700 + k_credit);
  session.ack(7);
  session.ack(7);
  session.ack(99);
  EXPECT_EQ(session.acked_seq(), 4u);
  EXPECT_EQ(session.granted(), 700 + k_credit + cost);  // its bytes are free all the same
  session.ack(5);
  EXPECT_EQ(session.acked_seq(), 5u);
  session.ack(6);
  EXPECT_EQ(session.acked_seq(), 7u);
  EXPECT_EQ(session.granted(), 700 + k_credit + 3 * cost);
}

TEST(SessionCredit, MoreThanGrantedIsAProtocolError) {  // LINK-3
  Session session = make_session();
  ASSERT_TRUE(feed(session, header_of(1, 1000)));
  auto big = feed(session, header_of(2, 9500));
  ASSERT_FALSE(big);
  EXPECT_EQ(big.error().code, Errc::protocol);
  session.ack(1);
  EXPECT_TRUE(feed(session, header_of(2, 9500)));
}

TEST(SessionReturn, OnlyWithItsOwnHistory) {
  Session session = make_session();
  ASSERT_TRUE(feed(session, header_of(1, 10)));
  EXPECT_TRUE(session.check_return({1, 1, "run", "p", 1, 0, k_chunk, 1000}));
  EXPECT_FALSE(session.check_return({1, 1, "run", "p", 2, 0, k_chunk, 1000}));  // 1 was not acked
  EXPECT_FALSE(session.check_return({1, 1, "run", "q", 1, 0, k_chunk, 1000}));
  EXPECT_FALSE(session.check_return({1, 1, "run", "p", 1, 0, 2 * k_chunk, 1000}));
}

}  // namespace
}  // namespace cohort::transport
