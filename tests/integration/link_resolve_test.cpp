// Links whose consumer is looked up: it may appear later, and come back elsewhere (LINK-1 holds).
#include "tests/support/link_peers.hpp"

namespace cohort::transport::test {
namespace {

/// What a run's node keeps: where each consumer is.
struct Table {
  Board board;
  std::string endpoint;
  int asked = 0;
  void put(const std::string& x) {
    board.change([&] { endpoint = x; });
  }
  std::string get() {
    std::string found;
    board.change([&] {
      ++asked;
      found = endpoint;
    });
    return found;
  }
};

class LinkResolve : public ::testing::TestWithParam<const char*> {
 protected:
  LinkOptions consumer_options() {
    LinkOptions options = options_for(fresh_endpoint(GetParam()), "consumer");
    options.announce = [this](const std::string& endpoint) { table.put(endpoint); };
    return options;
  }
  LinkOptions producer_options() {
    LinkOptions options = options_for({}, "producer");
    options.resolve = [this] { return table.get(); };
    return options;
  }
  Context context;
  Table table;
  Consumer consumer;
  Producer producer;
};

TEST_P(LinkResolve, AConsumerNobodyKnowsYetIsAwaited) {
  producer.open(context, producer_options());
  for (uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(producer.send(make_message(i, 5000)));
  ASSERT_TRUE(table.board.wait([&] { return table.asked >= 3; }));
  EXPECT_GT(producer.sender->pending_bytes(), 25000u);
  consumer.open(context, consumer_options());
  EXPECT_EQ(table.get(), consumer.receiver->endpoint());
  ASSERT_TRUE(producer.sender->wait_drained(k_wait_ms));
  ASSERT_TRUE(consumer.wait_for(5));
  for (uint64_t i = 1; i <= 5; ++i) expect_message(consumer.deliveries[i - 1].message, i, 5000);
  EXPECT_TRUE(producer.failures.empty());
}

TEST_P(LinkResolve, AConsumerThatComesBackElsewhereIsFound) {
  consumer.open(context, consumer_options());
  std::string first = consumer.receiver->endpoint();
  producer.open(context, producer_options());
  consumer.acks_at_once = false;
  for (uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(producer.send(make_message(i, 5000)));
  ASSERT_TRUE(consumer.wait_for(10));
  for (size_t i = 0; i < 4; ++i) consumer.deliveries[i].ack();
  ASSERT_TRUE(producer.wait_acked(4));
  Consumer next;
  next.open(context, consumer_options());  // the old port is still taken
  ASSERT_NE(next.receiver->endpoint(), first);
  consumer.receiver.reset();
  ASSERT_TRUE(next.wait_for(6));
  ASSERT_TRUE(producer.wait_acked(10));
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(next.deliveries[i].seq, 5 + i);
  EXPECT_EQ(producer.acked_count(), 10u);
  EXPECT_EQ(producer.sender->stats().reconnects, 1u);
}

TEST_P(LinkResolve, AConsumerThatDiedWithoutAWordIsFoundElsewhere) {
  if (std::string_view(GetParam()) == "inproc") GTEST_SKIP() << "inproc ends with its process";
  auto dead = std::make_unique<RawConsumer>(fresh_endpoint(GetParam()));
  table.put(dead->endpoint());
  producer.open(context, producer_options());
  ASSERT_TRUE(producer.send(make_message(1, 100)));
  ASSERT_NO_FATAL_FAILURE(dead->welcome_and_take_data());
  dead.reset();
  consumer.open(context, consumer_options());
  ASSERT_TRUE(producer.send(make_message(2, 100)));
  ASSERT_TRUE(consumer.wait_for(2));
  for (uint64_t i = 1; i <= 2; ++i) expect_message(consumer.deliveries[i - 1].message, i, 100);
  EXPECT_TRUE(producer.sender->wait_drained(k_wait_ms));
}

INSTANTIATE_TEST_SUITE_P(Wires, LinkResolve, ::testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& x) { return std::string(x.param); });

TEST(LinkResolveRules, AnEndpointIsCheckedWhenItIsKnown) {
  Context context;
  LinkOptions options = options_for({}, "producer");
  options.resolve = [] { return std::string("tcp://192.0.2.1:7"); };
  auto opened = Sender::open(context, options, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::invalid_argument);
  EXPECT_NE(opened.error().detail.find("192.0.2.1"), std::string::npos) << opened.error().detail;
  options.resolve = {};
  EXPECT_FALSE(Sender::open(context, options, {}));  // neither an endpoint nor a way to find one
}

}  // namespace
}  // namespace cohort::transport::test
