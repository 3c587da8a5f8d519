// LINK-1 to LINK-3 when the wire loses, doubles, swaps and damages frames, and when either end is
// killed. Seeds: COHORT_SEED sets the first of them. The binary also plays the processes that get
// killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/link_peers.hpp"
#include "tests/support/lossy_proxy.hpp"

namespace cohort::transport::test {
namespace {

uint64_t base_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

struct FaultCase {
  std::string name;
  Harm harm;
};

class LinkFaults : public ::testing::TestWithParam<FaultCase> {};

/// Sends 200 messages of mixed size through the proxy while acknowledgements come late and in any
/// order.
void run_faults(const Harm& harm, uint64_t seed) {
  SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
  constexpr uint64_t k_count = 200;
  Context context;
  Consumer consumer;
  Producer producer;
  LinkOptions options = options_for(fresh_endpoint(seed % 2 == 0 ? "ipc" : "tcp"), "consumer");
  options.heartbeat_ms = 20;
  options.peer_timeout_ms = 15000;
  options.credit_bytes = options.queue_bytes = 256 << 10;
  options.chunk_bytes = 4 << 10;
  consumer.acks_at_once = false;
  consumer.open(context, options);
  LossyProxy proxy(fresh_endpoint("ipc"), consumer.receiver->endpoint(), harm, seed);
  options.endpoint = proxy.endpoint();
  options.name = "producer";
  producer.open(context, options);
  auto size_of = [&](uint64_t i) { return Rng(seed).fork(i).below(i % 10 == 0 ? 60000 : 3000); };
  std::thread feeder([&] {
    for (uint64_t i = 1; i <= k_count; ++i)
      producer.send_when_room(make_message(i, size_of(i), seed));
  });
  Rng rng(seed);
  std::vector<Delivery> held;
  for (uint64_t i = 1; i <= k_count && !::testing::Test::HasFatalFailure(); ++i) {
    EXPECT_TRUE(consumer.wait_for(i)) << i;
    if (consumer.count() < i) break;
    Delivery delivery = consumer.board.read([&] { return std::move(consumer.deliveries[i - 1]); });
    EXPECT_EQ(delivery.seq, i);
    expect_message(delivery.message, i, size_of(i), seed);
    held.push_back(std::move(delivery));
    while (held.size() > 2 || (i == k_count && !held.empty())) {  // 2 x 60 KB stay below the credit
      size_t pick = rng.below(held.size());
      held[pick].ack();
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  feeder.join();
  EXPECT_TRUE(producer.sender->wait_drained(k_wait_ms));
  EXPECT_EQ(consumer.count(), k_count);
  EXPECT_EQ(producer.acked_count(), k_count);
  EXPECT_TRUE(producer.failures.empty());
  EXPECT_GT(proxy.harmed(), 0u);
}

TEST_P(LinkFaults, EachMessageOnceAndInOrder) {
  for (uint64_t seed = base_seed(); seed < base_seed() + 3; ++seed)
    run_faults(GetParam().harm, seed);
}

INSTANTIATE_TEST_SUITE_P(Harms, LinkFaults,
                         ::testing::Values(FaultCase{"drop", {0.05, 0, 0, 0}},
                                           FaultCase{"repeat", {0, 0.1, 0, 0}},
                                           FaultCase{"swap", {0, 0, 0.1, 0}},
                                           FaultCase{"flip", {0, 0, 0, 0.05}},
                                           FaultCase{"all", {0.02, 0.02, 0.02, 0.02}}),
                         [](const auto& x) { return x.param.name; });

/// A process that is killed; reaped in the destructor.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Child() { kill_now(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST(LinkKill, KilledProducerIsReportedAndItsSuccessorServed) {
  Context context;
  Consumer consumer;
  LinkOptions options = options_for(fresh_endpoint("ipc"), "consumer");
  options.peer_timeout_ms = 300;
  consumer.open(context, options);
  Child first({"--producer", options.endpoint, "100000"});
  ASSERT_TRUE(consumer.wait_for(500));
  first.kill_now();
  ASSERT_TRUE(consumer.wait_lost(1));
  EXPECT_EQ(consumer.lost[0].first, "child");
  EXPECT_EQ(consumer.lost[0].second.code, Errc::timeout);
  size_t before = consumer.count();
  for (size_t i = 0; i < before; ++i) ASSERT_EQ(consumer.deliveries[i].seq, i + 1);
  Child second({"--producer", options.endpoint, "200"});
  ASSERT_TRUE(consumer.wait_for(before + 200));
  EXPECT_NE(consumer.deliveries[before].session, consumer.deliveries[0].session);
  for (size_t i = 0; i < 200; ++i) ASSERT_EQ(consumer.deliveries[before + i].seq, i + 1);
}

TEST(LinkKill, KilledConsumerLosesNothingThatWasNotAcknowledged) {
  std::string endpoint = fresh_endpoint("ipc");
  std::string log = "/tmp/cohort-link-log-" + std::to_string(::getpid());
  std::filesystem::remove(log);
  constexpr uint64_t k_count = 3000;
  Context context;
  Producer producer;
  LinkOptions options = options_for(endpoint, "producer");
  producer.open(context, options);
  auto child = std::make_unique<Child>(std::vector<std::string>{"--consumer", endpoint, log});
  for (uint64_t i = 1; i <= k_count; ++i) {
    if (i % 1000 == 0) {  // in the middle of the flow
      child->kill_now();
      child = std::make_unique<Child>(std::vector<std::string>{"--consumer", endpoint, log});
    }
    producer.send_when_room(make_message(i, 2000));
  }
  ASSERT_TRUE(producer.sender->wait_drained(k_wait_ms));
  child.reset();
  std::ifstream file(log);
  uint64_t seq = 0, last = 0, lives = 1;
  while (file >> seq) {
    ASSERT_LE(seq, last + 1);  // no hole
    lives += seq <= last ? 1 : 0;
    last = seq;
  }
  EXPECT_EQ(last, k_count);
  EXPECT_LE(lives, 4u);  // a step back only where a consumer was killed
  EXPECT_EQ(producer.acked_count(), k_count);
  std::filesystem::remove(log);
}

int play_producer(const std::string& endpoint, uint64_t count) {
  Context context;
  Producer producer;
  LinkOptions options = options_for(endpoint, "child");
  producer.open(context, options);
  for (uint64_t i = 1; i <= count; ++i) producer.send_when_room(make_message(i, 1000));
  return producer.sender->wait_drained(k_wait_ms) ? 0 : 1;
}

int play_consumer(const std::string& endpoint, const std::string& path) {
  Context context;
  int file = ::open(path.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600);
  auto receiver = Receiver::open(
      context, options_for(endpoint, "child"),
      [file](Delivery delivery) {
        std::string line = std::to_string(delivery.seq) + "\n";
        if (::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()))
          delivery.ack();
      },
      {});
  if (receiver) ::pause();
  return 1;
}

}  // namespace

int play(int argc, char** argv) {
  std::string role = argc == 4 ? argv[1] : "";
  if (role == "--producer") return play_producer(argv[2], std::strtoull(argv[3], nullptr, 10));
  if (role == "--consumer") return play_consumer(argv[2], argv[3]);
  return -1;
}

}  // namespace cohort::transport::test

int main(int argc, char** argv) {
  if (int code = cohort::transport::test::play(argc, argv); code >= 0) return code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
