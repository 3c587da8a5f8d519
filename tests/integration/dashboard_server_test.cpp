// The dashboard over real sockets: who is answered, and what clients that misbehave cost. The
// client is cpp-httplib's, apart from our reading of HTTP.
#include "tools/actor-node/dashboard_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/base/clock.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/dashboard_sample.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_socket.hpp"

namespace cohort {
namespace {

using test::RawSocket;

constexpr std::string_view k_get_metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::unique_ptr<DashboardServer> open(const std::string& host, const ClusterAccess& access = {}) {
  auto server = DashboardServer::open({host, 0}, access);
  EXPECT_TRUE(server) << server.error().to_string();
  if (!server) return nullptr;
  observe::sample::publish_run((*server)->board(), 20);
  return std::move(*server);
}

uint16_t port_of(const DashboardServer& server) {
  const std::string& url = server.url();
  return static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string answer_to(uint16_t port, std::string_view bytes) {
  RawSocket socket(port);
  bool was_closed = false;
  EXPECT_TRUE(socket.send(bytes));
  std::string all = socket.receive_all(10000, was_closed);
  EXPECT_TRUE(was_closed);
  return all;
}

/// An address of this host that others could reach, or "".
std::string address_beyond_loopback() {
  auto address = control::address_towards({"192.0.2.1", 9});
  return address && !is_loopback(*address) ? *address : "";
}

class DashboardServerTest : public testing::Test {
 protected:
  ClusterAccess keys() {
    const std::string folder = (folder_.path() / "keys").string();
    auto made = control::make_credentials(folder);
    EXPECT_TRUE(made) << made.error().to_string();
    ClusterAccess access;
    access.keys = folder;
    return access;
  }
  std::string token() {
    std::string text = test::slurp(folder_.path() / "keys/dashboard.token");
    return text.substr(0, text.find('\n'));
  }
  test::TempFolder folder_;
};

TEST_F(DashboardServerTest, OnLoopbackEveryPathIsServedToOneWhoAsks) {
  auto server = open("127.0.0.1");
  EXPECT_TRUE(server->url().starts_with("http://127.0.0.1:")) << server->url();
  httplib::Client client("127.0.0.1", port_of(*server));
  for (const char* path : {"/", "/live", "/metrics", "/status.json", "/healthz"}) {
    auto reply = client.Get(path);
    ASSERT_TRUE(reply) << path;
    EXPECT_EQ(reply->status, 200) << path;
    auto head = client.Head(path);
    ASSERT_TRUE(head) << path;
    EXPECT_EQ(head->body, "");
  }
  EXPECT_EQ(test::read_prometheus(client.Get("/metrics")->body).samples.at("cohort_steps_total"),
            20);
  EXPECT_EQ(client.Get("/etc/passwd")->status, 404);
  EXPECT_EQ(client.Post("/", "x", "text/plain")->status, 405);
  EXPECT_EQ(client.Get("/", {{"Host", "evil.example"}})->status, 421);
}

TEST_F(DashboardServerTest, ATakenPortIsRefusedWithAWayOut) {
  auto first = open("127.0.0.1");
  auto second = DashboardServer::open({"127.0.0.1", port_of(*first)}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::io);
  EXPECT_NE(second.error().detail.find("Address already in use"), std::string::npos)
      << second.error().detail;
  EXPECT_NE(second.error().detail.find("DASHBOARD_PORT"), std::string::npos);
}

TEST_F(DashboardServerTest, BeyondLoopbackNothingListensWithoutKeys) {
  const std::string host = address_beyond_loopback();
  if (host.empty()) GTEST_SKIP() << "this host has loopback alone";
  ::unsetenv("COHORT_KEYS");
  for (const std::string& each : {host, std::string("0.0.0.0")}) {
    auto server = DashboardServer::open({each, 0}, {});
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Errc::denied);
    EXPECT_NE(server.error().detail.find("actor-node keys new DIR"), std::string::npos);
  }
  ClusterAccess insecure;
  insecure.is_insecure = true;
  auto open_to_all = open(host, insecure);
  EXPECT_EQ(httplib::Client(host, port_of(*open_to_all)).Get("/metrics")->status, 200);
}

TEST_F(DashboardServerTest, BeyondLoopbackKeysMeanTlsAndTheToken) {
  const std::string host = address_beyond_loopback();
  if (host.empty()) GTEST_SKIP() << "this host has loopback alone";
  auto server = open(host, keys());
  EXPECT_TRUE(server->url().starts_with("https://")) << server->url();
  httplib::SSLClient client(host, port_of(*server));
  client.enable_server_certificate_verification(false);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  EXPECT_EQ(client.Get("/metrics")->status, 401);
  EXPECT_EQ(client.Get("/metrics")->get_header_value("WWW-Authenticate").substr(0, 5), "Basic");
  client.set_bearer_token_auth("wrong");
  EXPECT_EQ(client.Get("/metrics")->status, 401);
  client.set_bearer_token_auth(token());
  EXPECT_EQ(client.Get("/metrics")->status, 200);
  httplib::SSLClient browser(host, port_of(*server));
  browser.enable_server_certificate_verification(false);
  browser.set_basic_auth("anyone", token());
  EXPECT_NE(browser.Get("/")->body.find("frozen_lake"), std::string::npos);
  // Plain words to the TLS port.
  RawSocket plain(port_of(*server));
  EXPECT_FALSE(httplib::Client(host, port_of(*server)).Get("/metrics"));
}

TEST_F(DashboardServerTest, ACertificateCanBeCheckedByItsName) {
  const std::string host = address_beyond_loopback();
  if (host.empty()) GTEST_SKIP() << "this host has loopback alone";
  const ClusterAccess access = keys();
  auto server = open(host, access);
  httplib::SSLClient client("cohort", port_of(*server));
  client.set_hostname_addr_map({{"cohort", host}});
  client.set_ca_cert_path(access.keys + "/ca.pem");
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  std::filesystem::remove(access.keys + "/dashboard.token");
  auto without = DashboardServer::open({host, 0}, access);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().detail.find("dashboard.token"), std::string::npos);
}

TEST_F(DashboardServerTest, WhatIsNoRequestGetsAStatusAndTheEnd) {
  auto server = open("127.0.0.1");
  const uint16_t port = port_of(*server);
  EXPECT_TRUE(answer_to(port, "\x16\x03\x01garbage\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(answer_to(port, std::string(9000, 'a')).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(
      answer_to(port, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789")
          .starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(answer_to(port, k_get_metrics).starts_with("HTTP/1.1 200 "));
}

TEST_F(DashboardServerTest, ARequestInSmallPiecesIsOne) {
  auto server = open("127.0.0.1");
  RawSocket socket(port_of(*server));
  for (const char& byte : k_get_metrics) ASSERT_TRUE(socket.send({&byte, 1}));
  bool was_closed = false;
  EXPECT_TRUE(socket.receive_all(10000, was_closed).starts_with("HTTP/1.1 200 "));
}

// HTTP-2: they hold a place each for at most five seconds, and the oldest makes room.
TEST_F(DashboardServerTest, TwoHundredThatNeverFinishDelayNobody) {
  auto server = open("127.0.0.1");
  const uint16_t port = port_of(*server);
  const size_t before = test::open_descriptors();
  std::vector<RawSocket> slow;
  for (int i = 0; i < 200; ++i) {
    slow.emplace_back(port);
    ASSERT_TRUE(slow.back().is_open());
    ASSERT_TRUE(slow.back().send("GET / HTTP/1.1\r\nX: "));
  }
  double longest = 0;
  for (int i = 0; i < 20; ++i) {
    for (const RawSocket& each : slow) each.send("y");
    const double began = now_seconds();
    EXPECT_TRUE(answer_to(port, k_get_metrics).starts_with("HTTP/1.1 200 "));
    longest = std::max(longest, now_seconds() - began);
  }
  EXPECT_LT(longest, 2.0);
  EXPECT_LE(test::open_descriptors(), before + 200 + control::k_http_connections + 1);
  bool was_closed = false;
  for (const RawSocket& each : slow) each.receive_all(8000, was_closed);
  EXPECT_TRUE(was_closed) << "the last one was dropped in its time";
}

TEST_F(DashboardServerTest, AReplyThatNobodyReadsHoldsNobodyUp) {
  auto server = open("127.0.0.1");
  const uint16_t port = port_of(*server);
  std::vector<RawSocket> deaf;
  for (int i = 0; i < 40; ++i) {
    deaf.emplace_back(port);
    const int small = 1024;
    ::setsockopt(deaf.back().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    ASSERT_TRUE(deaf.back().send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  EXPECT_TRUE(answer_to(port, k_get_metrics).starts_with("HTTP/1.1 200 "));
}

TEST_F(DashboardServerTest, StrangersLeaveNoMemoryBehind) {
  auto server = open("127.0.0.1");
  const uint16_t port = port_of(*server);
  auto storm = [port](int count) {
    for (int i = 0; i < count; ++i) {
      RawSocket socket(port);
      socket.send(i % 2 == 0 ? std::string(8192, 'a') : std::string("GET / HTT"));
    }
  };
  storm(500);
  answer_to(port, k_get_metrics);
  const size_t before = test::resident_bytes();
  storm(1500);
  answer_to(port, k_get_metrics);
  EXPECT_LT(test::resident_bytes(), before + (4U << 20));
}

TEST_F(DashboardServerTest, TheEndOfARunIsToldToAPageThatIsWatched) {
  auto server = open("127.0.0.1");
  const double began = now_seconds();
  server->linger();
  EXPECT_LT(now_seconds() - began, 0.5) << "nobody watches";
  httplib::Client client("127.0.0.1", port_of(*server));
  ASSERT_EQ(client.Get("/live")->status, 200);
  std::string last;
  std::jthread page([&] {
    while (last.find("data-over") == std::string::npos) last = client.Get("/live")->body;
  });
  server->board().set_state(observe::RunState::failed, "card 1 fell off");
  server->linger();
  page.join();
  EXPECT_NE(last.find("card 1 fell off"), std::string::npos);
  EXPECT_LT(now_seconds() - began, 5);
}

TEST(DashboardAddress, IsAPortOrMore) {
  ::unsetenv("DASHBOARD_PORT");
  EXPECT_FALSE(dashboard_address("", true)->has_value());
  EXPECT_EQ((*dashboard_address("8265", true))->host, "127.0.0.1");
  EXPECT_EQ((*dashboard_address("0", true))->port, 0);
  EXPECT_EQ((*dashboard_address("0.0.0.0:1", true))->host, "0.0.0.0");
  EXPECT_EQ((*dashboard_address("[::1]:7", true))->host, "::1");
  for (const char* wrong : {"x", "65536", ":1", "-1", "a:b:1", "1 "})
    EXPECT_FALSE(dashboard_address(wrong, true)) << wrong;
  ::setenv("DASHBOARD_PORT", "8265", 1);
  EXPECT_EQ((*dashboard_address("", true))->port, 8265);
  EXPECT_EQ((*dashboard_address("9", true))->port, 9) << "what is said counts";
  EXPECT_FALSE(dashboard_address("", false)->has_value()) << "a head does not read it";
  ::setenv("DASHBOARD_PORT", "http", 1);
  auto wrong = dashboard_address("", true);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().detail.find("DASHBOARD_PORT"), std::string::npos);
  ::unsetenv("DASHBOARD_PORT");
}

}  // namespace
}  // namespace cohort
