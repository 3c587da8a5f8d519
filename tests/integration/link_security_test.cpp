// Who gets into a link that has keys, and what those who do not can do: nothing but a line in the
// log (DOOR-1..3).
#include <poll.h>

#include <chrono>

#include "tests/support/link_peers.hpp"
#include "tests/support/raw_socket.hpp"

namespace cohort::transport::test {
namespace {

using cohort::test::open_descriptors;
using cohort::test::RawSocket;
using cohort::test::resident_bytes;

CurveKeys new_pair() {
  std::array<char, 41> open{}, secret{};
  EXPECT_EQ(zmq_curve_keypair(open.data(), secret.data()), 0);
  return {open.data(), secret.data(), open.data()};
}

// ZMTP 3.1: signature, version, mechanism CURVE, as-server 0, filler: what a client says first.
std::string greeting() {
  std::string text("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01", 12);
  text += "CURVE";
  text.resize(64);
  return text;
}

/// A command frame that announces `size` bytes.
std::string long_command(uint64_t size) {
  std::string text("\x06", 1);
  for (int shift = 56; shift >= 0; shift -= 8) text.push_back(static_cast<char>(size >> shift));
  return text;
}

/// Passes one connection on to a port and keeps what the client said.
class Tap {
 public:
  explicit Tap(uint16_t port) : port_(port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    own_port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tap() {
    ::shutdown(listener_, SHUT_RDWR);
    ::close(listener_);
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const { return own_port_; }
  /// What the client said; call after the connection has ended.
  std::string heard() {
    thread_.join();
    return heard_;
  }

 private:
  void run() {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    RawSocket server(port_);
    char buffer[65536];
    for (;;) {
      std::array<pollfd, 2> items{pollfd{client, POLLIN, 0}, pollfd{server.fd(), POLLIN, 0}};
      if (::poll(items.data(), 2, k_wait_ms) <= 0) break;
      const bool is_client = items[0].revents != 0;
      const ssize_t got = ::recv(is_client ? client : server.fd(), buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      const size_t size = static_cast<size_t>(got);
      if (is_client) heard_.append(buffer, size);
      if (::send(is_client ? server.fd() : client, buffer, size, MSG_NOSIGNAL) != got) break;
    }
    ::close(client);
  }
  const uint16_t port_;
  int listener_;
  uint16_t own_port_ = 0;
  std::string heard_;
  std::thread thread_;
};

class LinkSecurity : public ::testing::Test {
 protected:
  void SetUp() override {
    if (zmq_has("curve") == 0) GTEST_SKIP() << "libzmq without CURVE";
    LinkOptions options = options_for("tcp://127.0.0.1:*", "consumer");
    options.curve = pair_;
    consumer_.open(context_, options);
    const std::string endpoint = consumer_.receiver->endpoint();
    port_ = static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  }
  void TearDown() override {  // whatever happened, a member is served, and nobody else was
    if (consumer_.receiver == nullptr) return;
    expect_member_is_served();
    EXPECT_EQ(consumer_.count(), served_);
  }
  LinkOptions options_of(const char* name, const CurveKeys& keys) const {
    LinkOptions options = options_for("tcp://127.0.0.1:" + std::to_string(port_), name);
    options.curve = keys;
    return options;
  }
  void expect_member_is_served() {
    const auto begin = std::chrono::steady_clock::now();
    Producer member;
    member.open(context_, options_of("member", pair_));
    ASSERT_TRUE(member.send(make_message(1, 1000)));
    ASSERT_TRUE(consumer_.wait_for(served_ + 1));
    ++served_;
    EXPECT_EQ(consumer_.deliveries.back().peer, "member");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  }
  void expect_refused(LinkOptions options) {
    options.peer_timeout_ms = 300;
    Producer stranger;
    stranger.open(context_, options);
    ASSERT_TRUE(stranger.send(make_message(1, 10)));
    ASSERT_TRUE(stranger.wait_failed(1));
    EXPECT_EQ(stranger.failures[0].code, Errc::timeout);
  }
  const CurveKeys pair_ = new_pair();
  Context context_;
  Consumer consumer_;
  uint16_t port_ = 0;
  size_t served_ = 0;
};

TEST_F(LinkSecurity, WhoKnowsThePublicKeyButHasAnotherPairIsRefused) {
  CurveKeys stranger = new_pair();
  stranger.server_key = pair_.public_key;
  expect_refused(options_of("stranger", stranger));
}

TEST_F(LinkSecurity, AnotherClusterAndAPlainPeerAreRefused) {
  expect_refused(options_of("other cluster", new_pair()));
  expect_refused(options_of("plain", {}));
}

TEST_F(LinkSecurity, ReplayingAMembersWordsGetsNothing) {
  Tap tap(port_);
  {
    LinkOptions options = options_of("member", pair_);
    options.endpoint = "tcp://127.0.0.1:" + std::to_string(tap.port());
    Producer member;
    member.open(context_, options);
    ASSERT_TRUE(member.send(make_message(1, 1000)));
    ASSERT_TRUE(consumer_.wait_for(1));
    ++served_;
    ASSERT_TRUE(member.wait_acked(1));
  }
  const std::string heard = tap.heard();
  ASSERT_GT(heard.size(), 1000U) << "greeting, HELLO, INITIATE, READY and a message";
  for (int i = 0; i < 20; ++i) {
    RawSocket replay(port_);
    ASSERT_TRUE(replay.send(heard));
    bool was_closed = false;
    const std::string answer = replay.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed) << "the cookie in INITIATE is of another connection";
    EXPECT_LT(answer.size(), 400U) << "greeting and WELCOME, or an ERROR";
  }
}

TEST_F(LinkSecurity, GarbageBeforeAndAfterTheGreetingEndsTheConnection) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"), std::string(4096, 'x'),
        greeting() + std::string(300, 'x'), greeting() + long_command(uint64_t{1} << 40),
        greeting() + long_command(UINT64_MAX)}) {
    RawSocket socket(port_);
    ASSERT_TRUE(socket.is_open());
    socket.send(bytes);
    bool was_closed = false;
    socket.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed) << bytes.substr(0, 20);
  }
}

TEST_F(LinkSecurity, WhoSendsTooMuchBeforeItsKeysIsCutOff) {
  const size_t memory = resident_bytes();
  std::vector<RawSocket> strangers;
  // Each announces a command as long as the longest frame, and means to send all of it.
  for (int i = 0; i < 100; ++i) {
    strangers.emplace_back(port_);
    strangers.back().send(greeting() + long_command(4 << 20) + std::string(64 << 10, 'x'));
  }
  for (const RawSocket& stranger : strangers) {
    bool was_closed = false;
    stranger.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed);
  }
  EXPECT_LT(resident_bytes(), memory + (40 << 20));
}

TEST_F(LinkSecurity, TwoThousandConnectionsThatNeverShakeHandsKeepNobodyOut) {
  ASSERT_TRUE(cohort::test::allow_descriptors(8192));
  expect_member_is_served();  // what a first member costs is no stranger's
  const size_t memory = resident_bytes(), descriptors = open_descriptors();
  std::vector<RawSocket> strangers;
  for (int i = 0; i < 2000; ++i) {
    strangers.emplace_back(port_);
    ASSERT_TRUE(strangers.back().is_open()) << i;
    if (i % 2 == 0) strangers.back().send(greeting());
  }
  expect_member_is_served();
  // Ours hold 2,000; the consumer comes down to 256 of theirs.
  EXPECT_TRUE(eventually([&] { return open_descriptors() < descriptors + 2000 + 256 + 32; }, 4000))
      << open_descriptors() - descriptors;
  EXPECT_LT(resident_bytes(), memory + (64 << 20));
}

TEST_F(LinkSecurity, StrangersLeaveNoMemoryBehind) {
  auto visit = [&] {
    RawSocket socket(port_);
    socket.send(greeting() + std::string(300, 'x'));
    bool was_closed = false;
    socket.receive_all(10000, was_closed);
    ASSERT_TRUE(was_closed);
  };
  for (int i = 0; i < 500; ++i) visit();
  const size_t before = resident_bytes();
  for (int i = 0; i < 1500; ++i) visit();
  EXPECT_LT(resident_bytes(), before + (8 << 20));
}

}  // namespace
}  // namespace cohort::transport::test
