// What every link promises (runtime/transport/link.hpp, LINK-1 to LINK-3), on each wire.
#include <chrono>
#include <thread>

#include "tests/support/link_peers.hpp"

namespace cohort::transport::test {
namespace {

class LinkConformance : public ::testing::TestWithParam<const char*> {
 protected:
  void connect(const std::function<void(LinkOptions&)>& tune = [](LinkOptions&) {}) {
    LinkOptions options = options_for(fresh_endpoint(GetParam()), "consumer");
    tune(options);
    ASSERT_NO_FATAL_FAILURE(consumer.open(context, options));
    options.endpoint = consumer.receiver->endpoint();
    options.name = "producer";
    producer_options = options;
    ASSERT_NO_FATAL_FAILURE(producer.open(context, options));
  }
  Context context;
  LinkOptions producer_options;
  Consumer consumer;
  Producer producer;
};

TEST_P(LinkConformance, DeliversInOrderExactlyOnce) {
  connect([](LinkOptions& x) { x.chunk_bytes = 16 << 10; });
  constexpr uint64_t k_count = 300;
  auto size_of = [](uint64_t i) { return i % 7 == 0 ? 0 : (i * 7919) % 100000; };
  for (uint64_t i = 1; i <= k_count; ++i) {
    auto sent = producer.send(make_message(i, size_of(i)));
    ASSERT_TRUE(sent) << sent.error().to_string();
    EXPECT_EQ(*sent, i);
  }
  ASSERT_TRUE(producer.sender->wait_drained(k_wait_ms));
  ASSERT_TRUE(consumer.wait_for(k_count));
  ASSERT_EQ(consumer.count(), k_count);
  for (uint64_t i = 1; i <= k_count; ++i) {
    const Delivery& delivery = consumer.deliveries[i - 1];
    EXPECT_EQ(delivery.seq, i);
    EXPECT_EQ(delivery.peer, "producer");
    expect_message(delivery.message, i, size_of(i));
  }
  ASSERT_TRUE(producer.wait_acked(k_count));
  for (uint64_t i = 0; i < k_count; ++i) EXPECT_EQ(producer.acked[i], i + 1);
  EXPECT_EQ(producer.sender->stats().resent, 0u);
  EXPECT_EQ(consumer.receiver->stats().messages, k_count);
}

TEST_P(LinkConformance, WireAckIsCumulativeWhateverTheOrder) {  // LINK-2
  connect();
  consumer.acks_at_once = false;
  for (uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(producer.send(make_message(i, 1000)));
  ASSERT_TRUE(consumer.wait_for(10));
  uint64_t seen = producer.sender->stats().acks;
  for (size_t i = 9; i >= 1; --i) {
    consumer.deliveries[i].ack();
    consumer.deliveries[i].ack();  // idempotent
  }
  // Two more ack frames (heartbeats bring them) have told all there was to tell.
  ASSERT_TRUE(eventually([&] { return producer.sender->stats().acks >= seen + 3; }));
  EXPECT_EQ(producer.acked_count(), 0u);
  consumer.deliveries[0].ack();
  ASSERT_TRUE(producer.wait_acked(10));
  EXPECT_EQ(producer.sender->pending_bytes(), 0u);
  EXPECT_EQ(producer.sender->stats().resent, 0u);
}

TEST_P(LinkConformance, FullQueueIsBackpressureUntilAnAck) {  // FLOW-4
  connect([](LinkOptions& x) { x.queue_bytes = 1 << 20; });
  consumer.acks_at_once = false;
  uint64_t sent = 0;
  Error error;
  for (;;) {
    auto result = producer.send(make_message(sent + 1, 100000));
    if (!result) {
      error = result.error();
      break;
    }
    ++sent;
  }
  EXPECT_EQ(error.code, Errc::backpressure);
  EXPECT_EQ(sent, (size_t{1} << 20) / (100000 + 8 + k_message_overhead_bytes));
  EXPECT_LE(producer.sender->pending_bytes(), producer_options.queue_bytes);
  EXPECT_FALSE(producer.sender->wait_drained(1));
  ASSERT_TRUE(consumer.wait_for(sent));
  consumer.deliveries[0].ack();
  ASSERT_TRUE(producer.wait_acked(1));
  EXPECT_TRUE(producer.send(make_message(sent + 1, 100000)));
  EXPECT_EQ(producer.send(make_message(9, 2 << 20)).error().code, Errc::capacity);
}

TEST_P(LinkConformance, CreditBoundsWhatASlowConsumerHolds) {  // LINK-3
  constexpr size_t k_credit = 256 << 10, k_body = 30000, k_count = 400;
  connect([](LinkOptions& x) { x.credit_bytes = k_credit; });
  consumer.acks_at_once = false;
  std::thread feeder([&] {
    for (uint64_t i = 1; i <= k_count; ++i) producer.send_when_room(make_message(i, k_body));
  });
  size_t fits = k_credit / (k_body + k_message_overhead_bytes + 10);
  ASSERT_TRUE(consumer.wait_for(fits));
  uint64_t seen = producer.sender->stats().acks;
  ASSERT_TRUE(eventually([&] { return producer.sender->stats().acks >= seen + 2; }));
  EXPECT_EQ(consumer.count(), fits);
  for (size_t done = 0; done < k_count; ++done) {  // each ack lets in at most one more
    ASSERT_TRUE(consumer.wait_for(done + 1));
    EXPECT_LE(consumer.count() - done, fits);
    Delivery delivery = consumer.board.read([&] { return std::move(consumer.deliveries[done]); });
    expect_message(delivery.message, done + 1, k_body);
    delivery.ack();
  }
  feeder.join();
  EXPECT_TRUE(producer.sender->wait_drained(k_wait_ms));
}

TEST_P(LinkConformance, BigBodiesArriveWhole) {
  connect();
  for (uint64_t i = 1; i <= 3; ++i)
    ASSERT_TRUE(producer.send(make_message(i, (size_t{4} << 20) * i + i)));
  ASSERT_TRUE(consumer.wait_for(3));
  for (uint64_t i = 1; i <= 3; ++i)
    expect_message(consumer.deliveries[i - 1].message, i, (size_t{4} << 20) * i + i);
  EXPECT_EQ(consumer.receiver->stats().chunks, 5u + 9u + 13u);
}

TEST_P(LinkConformance, AProducerOfAnotherRunHearsWhyAndIsNoLossOfTheConsumer) {
  LinkOptions options = options_for(fresh_endpoint(GetParam()), "consumer");
  consumer.open(context, options);
  options.endpoint = consumer.receiver->endpoint();
  options.name = "stranger";
  options.run_id = "run-2";
  producer.open(context, options);
  ASSERT_TRUE(producer.wait_failed(1));
  for (const char* word : {"run-1", "run-2"})
    EXPECT_NE(producer.failures[0].detail.find(word), std::string::npos)
        << producer.failures[0].detail;
  EXPECT_EQ(producer.failures[0].code, Errc::protocol);
  EXPECT_NE(producer.failures[0].detail.find(options.endpoint), std::string::npos);
  EXPECT_EQ(consumer.receiver->stats().rejected, 1u);
  EXPECT_TRUE(consumer.board.read([&] { return consumer.lost.empty(); }));
  EXPECT_EQ(producer.send(make_message(1, 10)).error().code, Errc::closed);
}

TEST_P(LinkConformance, RestartedConsumerGetsWhatWasNotAcknowledged) {
  connect();
  consumer.acks_at_once = false;
  for (uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(producer.send(make_message(i, 5000)));
  ASSERT_TRUE(consumer.wait_for(10));
  for (size_t i = 0; i < 4; ++i) consumer.deliveries[i].ack();
  consumer.deliveries[6].ack();  // out of order: known to the old consumer only
  ASSERT_TRUE(producer.wait_acked(4));
  consumer.receiver.reset();
  ASSERT_TRUE(producer.send(make_message(11, 5000)));
  Consumer next;
  LinkOptions options = producer_options;
  options.name = "consumer";
  next.open(context, options);
  ASSERT_TRUE(next.wait_for(7));
  ASSERT_TRUE(producer.wait_acked(11));
  EXPECT_EQ(next.count(), 7u);
  for (uint64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(next.deliveries[i].seq, 5 + i);
    expect_message(next.deliveries[i].message, 5 + i, 5000);
  }
  EXPECT_EQ(producer.acked_count(), 11u);
  consumer.deliveries[9].ack();  // its receiver is gone: no effect, no crash
}

TEST_P(LinkConformance, NobodyThereIsReportedOnceAndRecovered) {
  LinkOptions options = options_for(fresh_endpoint(GetParam()), "producer");
  if (options.endpoint.starts_with("tcp")) {  // a port that was free a moment ago
    consumer.open(context, options);
    options.endpoint = consumer.receiver->endpoint();
    consumer.receiver.reset();
  }
  options.peer_timeout_ms = 150;
  producer.open(context, options);
  ASSERT_TRUE(producer.send(make_message(1, 100)));
  ASSERT_TRUE(producer.wait_failed(1));
  EXPECT_EQ(producer.failures[0].code, Errc::timeout);
  EXPECT_NE(producer.failures[0].detail.find(options.endpoint), std::string::npos);
  EXPECT_NE(producer.failures[0].detail.find("producer"), std::string::npos);
  consumer.open(context, options);
  ASSERT_TRUE(consumer.wait_for(1));
  EXPECT_TRUE(producer.sender->wait_drained(k_wait_ms));
  EXPECT_EQ(producer.failures.size(), 1u);
}

TEST_P(LinkConformance, ManyProducersKeepTheirOwnOrder) {
  connect();
  constexpr uint64_t k_producers = 6, k_count = 100;
  std::vector<Producer> producers(k_producers);
  for (uint64_t p = 0; p < k_producers; ++p) {
    LinkOptions options = producer_options;
    options.name = "producer." + std::to_string(p);
    producers[p].open(context, options);
  }
  for (uint64_t i = 1; i <= k_count; ++i)
    for (uint64_t p = 0; p < k_producers; ++p)
      ASSERT_TRUE(producers[p].send(make_message(i, 500 * p, p)));
  ASSERT_TRUE(consumer.wait_for(k_producers * k_count));
  std::map<std::string, uint64_t> last;
  for (const Delivery& delivery : consumer.deliveries) {
    EXPECT_EQ(delivery.seq, ++last[delivery.peer]);
    uint64_t p = static_cast<uint64_t>(delivery.peer.back() - '0');
    expect_message(delivery.message, delivery.seq, 500 * p, p);
  }
}

TEST_P(LinkConformance, EndsFastWithMessagesPending) {
  connect();
  consumer.acks_at_once = false;
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(producer.send(make_message(i, 1 << 20)));
  auto begin = std::chrono::steady_clock::now();
  producer.sender.reset();
  consumer.receiver.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

INSTANTIATE_TEST_SUITE_P(Wires, LinkConformance, ::testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& x) { return std::string(x.param); });

}  // namespace
}  // namespace cohort::transport::test
