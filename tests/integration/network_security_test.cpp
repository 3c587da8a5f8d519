// Who reaches an actor of another process, and what those who do not can do: nothing but a line in
// the log (TLS-1, GATE-1..3, WIRE-1, WIRE-3).
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/control/network.hpp"
#include "tests/support/basp_bytes.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/raw_socket.hpp"
#include "tests/support/tap.hpp"
#include "tests/support/tls_stranger.hpp"

namespace cohort::control {
namespace {

using cohort::test::basp_header;
using cohort::test::basp_payload;
using cohort::test::direct_payload;
using cohort::test::first_words_over_tls;
using cohort::test::open_descriptors;
using cohort::test::RawSocket;
using cohort::test::resident_bytes;
using detail::BaspKind;
using Doubler = caf::typed_actor<caf::replies_to<act_atom, std::string>::with<std::string>>;

Doubler::behavior_type doubler(Doubler::pointer) {
  return {[](act_atom, const std::string& text) {
    return text == "much" ? std::string(900 << 10, 'x') : text + text;
  }};
}

/// An actor system with a network, as main makes it.
class Peer {
 public:
  explicit Peer(std::optional<Credentials> credentials, int peer_timeout_ms = 10000)
      : config_({.has_network = true,
                 .credentials = std::move(credentials),
                 .heartbeat_ms = peer_timeout_ms / 10,
                 .peer_timeout_ms = peer_timeout_ms}),
        system_(config_) {}
  ~Peer() {
    if (served_) caf::anon_send_exit(served_, caf::exit_reason::user_shutdown);
  }
  uint16_t serve() {
    served_ = system_.spawn(doubler);
    auto port = publish(system_, served_, {"127.0.0.1", 0});
    EXPECT_TRUE(port) << port.error().to_string();
    return port ? *port : uint16_t{0};
  }
  Expected<std::string> ask(uint16_t port, const std::string& text = "ab") {
    COHORT_ASSIGN(Doubler doubler, connect<Doubler>(system_, {"127.0.0.1", port}));
    Expected<std::string> answer = Error{Errc::timeout, "no answer"};
    caf::scoped_actor self{system_};
    self->request(doubler, std::chrono::seconds(20), act_atom::value, text)
        .receive([&](const std::string& x) { answer = x; },
                 [&](const caf::error& error) { answer = from_caf(error); });
    return answer;
  }
  caf::actor_system& system() { return system_; }

 private:
  SystemConfig config_;
  caf::actor_system system_;
  Doubler served_;
};

class NetworkSecurityTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<cohort::test::TempFolder>();
    ours_ = keys("ours");
    theirs_ = keys("theirs");
    const int64_t now = std::time(nullptr);
    const auto old = folder_->path() / "old";
    ASSERT_TRUE(make_credentials(old, {.valid_days = 1, .now = now - 10 * 86400}));
    expired_ = *ours_;  // loading them is refused: this peer does not ask
    expired_->ca_file = old / "ca.pem";
    expired_->certificate_file = old / "node.pem";
    expired_->key_file = old / "node.key";
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static std::optional<Credentials> keys(const char* name) {
    const auto folder = folder_->path() / name;
    EXPECT_TRUE(make_credentials(folder));
    auto loaded = load_credentials(folder);
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    return *loaded;
  }
  void SetUp() override { port_ = server_.serve(); }
  void TearDown() override {  // whatever happened, a member is served
    Peer member(ours_);
    auto answer = member.ask(port_);
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(*answer, "abab");
  }
  void expect_refused(std::optional<Credentials> credentials) {
    Peer stranger(std::move(credentials));
    auto answer = stranger.ask(port_);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::closed) << answer.error().to_string();
  }
  /// Opens and abandons connections, and returns how far resident memory rose after the first half.
  template <class F>
  static size_t growth_over(int rounds, F&& once) {
    for (int i = 0; i < rounds / 2; ++i) once();
    const size_t before = resident_bytes();
    for (int i = 0; i < rounds / 2; ++i) once();
    const size_t after = resident_bytes();
    return after > before ? after - before : 0;
  }

  inline static std::unique_ptr<cohort::test::TempFolder> folder_;
  inline static std::optional<Credentials> ours_, theirs_, expired_;
  Peer server_{ours_};
  uint16_t port_ = 0;
};

// Half of a TLS 1.3 ClientHello: a record that announces 512 bytes and brings 8.
constexpr std::string_view k_half_record("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00",
                                         13);

TEST_F(NetworkSecurityTest, MembersTalkInMessagesOfAnySizeOfOurs) {
  Peer member(ours_);
  const std::string text(200 << 10, 'x');
  auto answer = member.ask(port_, text);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(*answer, text + text);
}

TEST_F(NetworkSecurityTest, APlainPeerIsRefused) { expect_refused(std::nullopt); }
TEST_F(NetworkSecurityTest, AMemberOfAnotherClusterIsRefused) { expect_refused(theirs_); }

TEST_F(NetworkSecurityTest, ACertificateOfAnotherAuthorityGetsNoWord) {
  EXPECT_NE(first_words_over_tls(port_, &*ours_), "") << "a member is greeted";
  EXPECT_EQ(first_words_over_tls(port_, nullptr), "") << "no certificate";
  EXPECT_EQ(first_words_over_tls(port_, &*theirs_), "");
  EXPECT_EQ(first_words_over_tls(port_, &*expired_), "");
  EXPECT_EQ(first_words_over_tls(port_, &*ours_, TLS1_2_VERSION), "") << "TLS 1.3 or nothing";
}

TEST_F(NetworkSecurityTest, AnExpiredServerIsNotBelieved) {
  Peer server(expired_);
  const uint16_t port = server.serve();
  Peer member(ours_);
  auto answer = member.ask(port);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::closed) << answer.error().to_string();
}

TEST_F(NetworkSecurityTest, APlainServerIsNotBelieved) {
  Peer server(std::nullopt);
  const uint16_t port = server.serve();
  Peer member(ours_);
  EXPECT_FALSE(member.ask(port));
}

TEST_F(NetworkSecurityTest, GarbageIsAnsweredByTheEndOfTheConnection) {
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(64, '\xff'),
                                   std::string(1 << 16, 'x')}) {
    RawSocket socket(port_);
    ASSERT_TRUE(socket.is_open());
    socket.send(bytes);
    bool was_closed = false;
    const std::string answer = socket.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed);
    EXPECT_LE(answer.size(), 7U) << "no more than a TLS alert";
  }
}

TEST_F(NetworkSecurityTest, TwoThousandConnectionsThatNeverShakeHandsKeepNobodyOut) {
  ASSERT_TRUE(cohort::test::allow_descriptors(4096));
  const size_t memory = resident_bytes(), descriptors = open_descriptors();
  std::vector<RawSocket> strangers;
  for (int i = 0; i < 2000; ++i) {
    strangers.emplace_back(port_);
    ASSERT_TRUE(strangers.back().is_open()) << i;
    if (i % 2 == 0) strangers.back().send(k_half_record);
  }
  const auto begin = std::chrono::steady_clock::now();
  Peer member(ours_);
  auto answer = member.ask(port_);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4))
      << "it does not wait for the strangers' five seconds";
  // Ours hold 2,000; what listens holds 256 of theirs, and what a member takes.
  EXPECT_LT(open_descriptors(), descriptors + 2000 + 256 + 64);
  EXPECT_LT(resident_bytes(), memory + (40 << 20));
}

TEST_F(NetworkSecurityTest, StrangersLeaveNoMemoryBehind) {
  const size_t growth = growth_over(3000, [&] {
    RawSocket socket(port_);
    socket.send(k_half_record);
  });
  EXPECT_LT(growth, size_t{4} << 20);
  const size_t with_tls =
      growth_over(200, [&] { EXPECT_EQ(first_words_over_tls(port_, &*theirs_), ""); });
  EXPECT_LT(with_tls, size_t{4} << 20);
}

TEST(NetworkBounds, AHeaderThatAnnouncesGigabytesEndsItsConnection) {
  Peer server(std::nullopt);  // loopback without credentials: any local process may connect
  const uint16_t port = server.serve();
  const size_t memory = resident_bytes();
  for (int i = 0; i < 50; ++i) {
    RawSocket socket(port);
    // BASP: operation, padding, flags, payload_len (big endian), operation data, two actor ids
    std::string header(32, '\0');
    header[1] = 0;
    for (size_t at : {4U, 5U, 6U, 7U}) header[at] = '\xf0';
    socket.send(header);
    bool was_closed = false;
    socket.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed);
  }
  EXPECT_LT(resident_bytes(), memory + (16 << 20));
  Peer member(std::nullopt);
  EXPECT_TRUE(member.ask(port));
}

TEST(NetworkBounds, WhatNoMemberSaysEndsItsConnection) {
  Peer server(std::nullopt);
  const uint16_t port = server.serve();
  auto with_header = [](BaspKind kind, const std::string& payload) {
    return basp_header({.kind = kind,
                        .payload_bytes = static_cast<uint32_t>(payload.size()),
                        .to = kind == BaspKind::direct_message ? 1U : 0U}) +
           payload;
  };
  const std::string hello = with_header(BaspKind::client_handshake,
                                        basp_payload(server.system(), cohort::test::some_node()));
  std::string four_gib =
      with_header(BaspKind::direct_message,
                  direct_payload(server.system(), caf::make_message(std::vector<char>(5))));
  four_gib.replace(four_gib.size() - 6, 6, "\xff\xff\xff\xff\x0f");
  four_gib[7] = static_cast<char>(four_gib[7] - 1);
  std::string deep(1, '\0');  // no stages, then errors about errors: deeper than a stack
  for (int i = 0; i < 40000; ++i) deep += std::string("\0\0\x0a@<>+@error\x01\0\0\0\0\0\0\0\0", 22);
  deep = with_header(BaspKind::direct_message, deep);
  const size_t memory = resident_bytes();
  for (const std::string& bytes :
       {basp_header({.kind = BaspKind::client_handshake}), hello + four_gib, hello + deep}) {
    RawSocket socket(port);
    ASSERT_TRUE(socket.send(bytes));
    bool was_closed = false;
    socket.receive_all(10000, was_closed);
    EXPECT_TRUE(was_closed);
  }
  EXPECT_LT(resident_bytes(), memory + (64 << 20));
  Peer member(std::nullopt);
  auto answer = member.ask(port);
  EXPECT_TRUE(answer) << answer.error().to_string();
}

TEST(NetworkBounds, AnInfinityArrives) {
  using Reporter = caf::typed_actor<caf::replies_to<update_atom>::with<UpdateReport>>;
  const double infinity = std::numeric_limits<double>::infinity();
  Peer server(std::nullopt);
  auto reporter = server.system().spawn([=](Reporter::pointer) -> Reporter::behavior_type {
    return {[=](update_atom) {
      return UpdateReport{1, 2, 0.5, 3, {{"actor/ratio_max", infinity}}};
    }};
  });
  auto port = publish(server.system(), reporter, {"127.0.0.1", 0});
  ASSERT_TRUE(port) << port.error().to_string();
  Peer member(std::nullopt);
  auto far = connect<Reporter>(member.system(), {"127.0.0.1", *port});
  ASSERT_TRUE(far) << far.error().to_string();
  caf::scoped_actor self{member.system()};
  double arrived = 0;
  self->request(*far, std::chrono::seconds(20), update_atom::value)
      .receive([&](const UpdateReport& report) { arrived = report.metrics.at(0).second; },
               [&](const caf::error& error) { FAIL() << from_caf(error).to_string(); });
  EXPECT_EQ(arrived, infinity);
  caf::anon_send_exit(reporter, caf::exit_reason::user_shutdown);
}

TEST(NetworkBounds, APeerThatDoesNotReadIsCutOff) {
  Peer server(std::nullopt);
  cohort::test::Tap tap(server.serve());
  Peer member(std::nullopt);
  auto doubling = connect<Doubler>(member.system(), {"127.0.0.1", tap.port()});
  ASSERT_TRUE(doubling) << doubling.error().to_string();
  tap.let_pass(cohort::test::Tap::Passes::to_server);
  caf::scoped_actor self{member.system()};
  for (int i = 0; i < 200; ++i)  // 180 MB of answers
    self->request(*doubling, std::chrono::seconds(20), act_atom::value, "much");
  EXPECT_TRUE(cohort::test::wait_until([&] { return tap.is_cut_off(); }, 20000));
}

TEST(NetworkBounds, ASilentConnectionCountsAsLost) {
  Peer server(std::nullopt, 500);
  cohort::test::Tap tap(server.serve());
  Peer member(std::nullopt, 500);
  auto doubling = connect<Doubler>(member.system(), {"127.0.0.1", tap.port()});
  ASSERT_TRUE(doubling) << doubling.error().to_string();
  caf::scoped_actor self{member.system()};
  self->monitor(*doubling);
  bool is_lost = false;
  auto wait_ms = [&](int limit_ms) {
    self->receive([&](const caf::down_msg&) { is_lost = true; },
                  caf::after(std::chrono::milliseconds(limit_ms)) >> [] {});
  };
  wait_ms(1500);
  EXPECT_FALSE(is_lost) << "heartbeats keep an idle connection";
  tap.let_pass(cohort::test::Tap::Passes::none);
  wait_ms(10000);
  EXPECT_TRUE(is_lost);
}

TEST(NetworkBounds, NothingListensBeyondLoopbackWithoutCredentials) {
  Peer plain(std::nullopt);
  auto doubling = plain.system().spawn(doubler);
  auto port = publish(plain.system(), doubling, {"0.0.0.0", 0});
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, Errc::denied);
  EXPECT_NE(port.error().detail.find("actor-node keys new DIR"), std::string::npos);
  EXPECT_NE(port.error().detail.find("--insecure"), std::string::npos);
  SystemConfig config({.has_network = true, .credentials = {}, .is_insecure = true});
  caf::actor_system insecure(config);
  EXPECT_TRUE(check_listen(insecure, "0.0.0.0"));
  caf::anon_send_exit(doubling, caf::exit_reason::user_shutdown);
}

TEST(NetworkBounds, WhoIsNotThereIsSaidSoon) {
  Peer member(std::nullopt);
  auto nobody = connect<Doubler>(member.system(), {"127.0.0.1", 1});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Errc::closed);
  EXPECT_NE(nobody.error().detail.find("127.0.0.1:1"), std::string::npos) << nobody.error().detail;
  auto nowhere = connect<Doubler>(member.system(), {"no-such-host.invalid", 1});
  ASSERT_FALSE(nowhere);
}

}  // namespace
}  // namespace cohort::control
