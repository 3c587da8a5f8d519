// Peers that break the rules: each is turned away by name, costs no memory, and disturbs nobody
// else.
#include "tests/support/link_peers.hpp"

namespace cohort::transport::test {
namespace {

class LinkHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    LinkOptions options = options_for("tcp://127.0.0.1:*", "consumer");
    options.credit_bytes = 1 << 20;
    consumer.open(context, options);
  }
  void TearDown() override {  // whatever happened, an honest producer is served
    LinkOptions options = options_for(consumer.receiver->endpoint(), "honest");
    producer.open(context, options);
    size_t before = consumer.count();
    ASSERT_TRUE(producer.send(make_message(1, 1000)));
    ASSERT_TRUE(consumer.wait_for(before + 1));
    EXPECT_EQ(consumer.deliveries.back().peer, "honest");
  }
  void expect_refused(RawProducer& raw, Errc code, const std::string& word) {
    std::string payload;
    ASSERT_TRUE(raw.receive(FrameKind::reject, payload));
    Error error = proto::decode_reject(std::as_bytes(std::span(payload)));
    EXPECT_EQ(error.code, code);
    EXPECT_NE(error.detail.find(word), std::string::npos) << error.detail;
    EXPECT_EQ(consumer.receiver->stats().rejected, 1u);
  }
  /// At its hello: the owner of the link has lost nobody.
  void expect_stranger_refused(RawProducer& raw, const std::string& word) {
    expect_refused(raw, Errc::protocol, word);
    EXPECT_TRUE(consumer.board.read([&] { return consumer.lost.empty(); }));
  }
  void expect_turned_away(RawProducer& raw, Errc code, const std::string& word) {
    expect_refused(raw, code, word);
    ASSERT_TRUE(consumer.wait_lost(1));
    EXPECT_EQ(consumer.lost[0].second.code, code);
    EXPECT_EQ(consumer.count(), 0u);
  }
  static FrameHeader data_header(uint64_t body_bytes) {
    FrameHeader header;
    header.seq = 1;
    header.chunk_count = 1;
    header.body_bytes = body_bytes;
    return header;
  }
  Context context;
  Consumer consumer;
  Producer producer;
};

TEST_F(LinkHostile, FutureProtocolOnly) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  auto hello = RawProducer::good_hello();
  hello.protocol_min = 7;
  hello.protocol_max = 9;
  raw.send_hello(hello);
  expect_stranger_refused(raw, "protocol 7 to 9");
}

TEST_F(LinkHostile, AbsurdChunkSize) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  auto hello = RawProducer::good_hello();
  hello.chunk_bytes = uint64_t{1} << 60;
  raw.send_hello(hello);
  expect_stranger_refused(raw, "chunks of");
}

TEST_F(LinkHostile, BodyBeyondAllCredit) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  raw.send_hello(RawProducer::good_hello());
  FrameHeader header = data_header(uint64_t{1} << 50);
  header.chunk_count = 1 << 30;
  raw.send_frame(header, {}, "x");
  expect_turned_away(raw, Errc::protocol, "exceeds the credit");
}

TEST_F(LinkHostile, MoreThanGranted) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  consumer.acks_at_once = false;
  raw.send_hello(RawProducer::good_hello());
  std::string body(600 << 10, 'x');
  FrameHeader header = data_header(body.size());
  header.body_checksum = tensor::checksum64(std::as_bytes(std::span(body)));
  raw.send_frame(header, {}, body);
  header.seq = 2;
  raw.send_frame(header, {}, body);
  std::string payload;
  ASSERT_TRUE(raw.receive(FrameKind::reject, payload));
  EXPECT_NE(payload.find("granted"), std::string::npos);
  EXPECT_EQ(consumer.count(), 1u);
  consumer.acks_at_once = true;
}

TEST_F(LinkHostile, SizesThatDisagree) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  raw.send_hello(RawProducer::good_hello());
  raw.send_frame(data_header(10), {}, "only a few");  // right size, wrong checksum: dropped
  std::string payload;
  ASSERT_TRUE(raw.receive(FrameKind::resend, payload));
  raw.send_frame(data_header(1000), {}, "only a few");
  expect_turned_away(raw, Errc::protocol, "expected 1000");
}

TEST_F(LinkHostile, GarbageIsDroppedAndCounted) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  raw.send_raw("");
  raw.send_raw("hello?");
  raw.send_raw(std::string(64, '\xff'), std::string(1000, 'x'));
  ASSERT_TRUE(eventually([&] { return consumer.receiver->stats().corrupt >= 3; }));
  FrameHeader header = data_header(1);
  raw.send_frame(header, {}, "x");  // data without a hello
  std::string payload;
  ASSERT_TRUE(raw.receive(FrameKind::unknown_session, payload));
  EXPECT_EQ(consumer.count(), 0u);
}

TEST_F(LinkHostile, EndlessCorruptionEndsTheSession) {
  RawProducer raw(consumer.receiver->endpoint(), 77);
  raw.send_hello(RawProducer::good_hello());
  for (int i = 0; i < 20; ++i)
    raw.send_frame(data_header(1), {}, "x");  // its checksum is never right
  expect_turned_away(raw, Errc::corrupt, "corrupt frames in a row");
}

TEST_F(LinkHostile, SilentProducerIsLost) {
  consumer.receiver.reset();
  LinkOptions options = options_for("tcp://127.0.0.1:*", "consumer");
  options.peer_timeout_ms = 120;
  consumer.open(context, options);
  RawProducer raw(consumer.receiver->endpoint(), 77);
  raw.send_hello(RawProducer::good_hello());
  ASSERT_TRUE(consumer.wait_lost(1));
  EXPECT_EQ(consumer.lost[0].first, "raw");
  EXPECT_EQ(consumer.lost[0].second.code, Errc::timeout);
  EXPECT_NE(consumer.lost[0].second.detail.find("tcp://127.0.0.1:"), std::string::npos);
}

TEST(LinkOptionsTest, WhatMakesNoSenseIsRefused) {
  Context context;
  auto code = [&](LinkOptions options) {
    auto opened = Receiver::open(context, options, [](Delivery) {}, {});
    return opened ? Errc::none : opened.error().code;
  };
  LinkOptions options = options_for("tcp://127.0.0.1:*", "consumer");
  EXPECT_EQ(code(options), Errc::none);
  options.chunk_bytes = 1;
  EXPECT_EQ(code(options), Errc::invalid_argument);
  EXPECT_EQ(code(options_for("udp://127.0.0.1:1", "x")), Errc::invalid_argument);
  EXPECT_EQ(code(options_for("tcp://0.0.0.0:*", "x")), Errc::invalid_argument);
  EXPECT_EQ(code(options_for("ipc:///no/such/folder/socket", "x")), Errc::io);
  auto first = Receiver::open(context, options_for("tcp://127.0.0.1:*", "a"), [](Delivery) {}, {});
  ASSERT_TRUE(first);
  EXPECT_EQ(code(options_for((*first)->endpoint(), "b")), Errc::io);
}

TEST(LinkCurve, EncryptsAndTurnsPlainPeersAway) {
  if (zmq_has("curve") == 0) GTEST_SKIP() << "libzmq without CURVE";
  std::array<char, 41> public_key{}, secret_key{};
  ASSERT_EQ(zmq_curve_keypair(public_key.data(), secret_key.data()), 0);
  Context context;
  Consumer consumer;
  LinkOptions options = options_for("tcp://127.0.0.1:*", "consumer");
  options.curve = {public_key.data(), secret_key.data(), {}};
  consumer.open(context, options);
  options.endpoint = consumer.receiver->endpoint();
  options.name = "producer";
  options.curve = {public_key.data(), secret_key.data(), public_key.data()};
  Producer producer, plain;
  producer.open(context, options);
  ASSERT_TRUE(producer.send(make_message(1, 3 << 20)));
  ASSERT_TRUE(consumer.wait_for(1));
  expect_message(consumer.deliveries[0].message, 1, 3 << 20);
  options.curve = {};
  options.peer_timeout_ms = 200;
  plain.open(context, options);
  ASSERT_TRUE(plain.send(make_message(1, 10)));
  ASSERT_TRUE(plain.wait_failed(1));
  EXPECT_EQ(plain.failures[0].code, Errc::timeout);
  EXPECT_EQ(consumer.count(), 1u);
}

}  // namespace
}  // namespace cohort::transport::test
