// What CAF may read of another process (WIRE-3): headers and payloads that our nodes send pass, and
// what made CAF crash, spin or allocate does not.
#include "runtime/control/wire_check.hpp"

#include <gtest/gtest.h>

#include <set>

#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"
#include "tests/support/basp_bytes.hpp"

namespace cohort::control::detail {
namespace {

using test::basp_header;
using test::basp_payload;
using test::direct_payload;
using test::some_node;

class WireCheckTest : public testing::Test {
 protected:
  void expect_refused(BaspKind kind, const std::string& payload, const std::string& why) {
    auto fine = check_payload(system_, kind, payload);
    ASSERT_FALSE(fine) << why;
    EXPECT_EQ(fine.error().code, Errc::protocol);
    EXPECT_NE(fine.error().detail.find(why), std::string::npos) << fine.error().detail;
  }
  void expect_refused(const caf::message& message, const std::string& why) {
    expect_refused(BaspKind::direct_message, direct_payload(system_, message), why);
  }
  SystemConfig config_{{.scheduler_threads = 1, .is_test = true}};
  caf::actor_system system_{config_};
  const caf::node_id node_ = some_node();
  const caf::message lease_ = caf::make_message(
      lease_atom::value,
      Lease{TrajectoryKind::val, 2, 3, {1, 2, 3}, 5, {6, 7}, 8, {"a", "b"}, 0.5, {{1}, {0, 2}}});
};

TEST_F(WireCheckTest, WhatNodesSayToEachOtherPasses) {
  const std::vector<caf::strong_actor_ptr> nobody;
  const caf::message ping = caf::make_message(ping_atom::value, uint64_t{1});
  const std::set<std::string> signatures = {"a", "b"};
  const caf::error lost(caf::exit_reason::remote_link_unreachable);
  for (const auto& [kind, payload] : std::vector<std::pair<BaspKind, std::string>>{
           {BaspKind::server_handshake,
            basp_payload(system_, node_, std::vector<std::string>{"generic-caf-app"},
                         caf::actor_id{9}, signatures)},
           {BaspKind::client_handshake, basp_payload(system_, node_)},
           {BaspKind::direct_message, direct_payload(system_, ping)},
           {BaspKind::direct_message, direct_payload(system_, caf::message{})},
           {BaspKind::routed_message, basp_payload(system_, node_, node_, nobody, ping)},
           {BaspKind::monitor_message, basp_payload(system_, node_, node_)},
           {BaspKind::down_message, basp_payload(system_, node_, node_, lost)},
           {BaspKind::direct_message,
            direct_payload(system_, caf::make_message(to_caf({Errc::timeout, "no answer"})))}}) {
    auto fine = check_payload(system_, kind, payload);
    EXPECT_TRUE(fine) << static_cast<int>(kind) << ": " << fine.error().to_string();
  }
}

TEST_F(WireCheckTest, ALengthIsNotBelieved) {
  std::string lease = direct_payload(system_, lease_);
  const size_t at = lease.find(std::string("\x03\0\0\0\x01", 5));
  ASSERT_NE(at, std::string::npos);
  lease.replace(at, 1, "\xff\xff\xff\xff\x0f");  // 2^32 - 1 groups
  expect_refused(BaspKind::direct_message, lease, "a sequence longer than what came");
}

TEST_F(WireCheckTest, EveryPieceOfAMessageIsRefused) {
  const caf::error error(1, caf::atom("outer"), lease_);
  const std::string whole = direct_payload(system_, caf::make_message(error));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(check_payload(system_, BaspKind::direct_message, whole.substr(0, size))) << size;
}

TEST_F(WireCheckTest, MessagesInMessagesEnd) {
  caf::message nested = caf::make_message(std::string("in the middle"));
  auto nest = [&] { nested = caf::make_message(caf::error(1, caf::atom("outer"), nested)); };
  for (int i = 1; i < k_max_nested; ++i) nest();
  EXPECT_TRUE(check_payload(system_, BaspKind::direct_message, direct_payload(system_, nested)));
  nest();
  expect_refused(nested, "without end");
  for (int i = 0; i < 1000; ++i) nest();
  expect_refused(nested, "without end");
}

TEST_F(WireCheckTest, TypesThatWeDoNotSendAreRefused) {
  expect_refused(caf::make_message(std::vector<char>(8)), "@charbuf");
  expect_refused(caf::make_message(caf::config_value(1)), "@config_value");
  expect_refused(caf::make_message(caf::group{}), "@group");
  expect_refused(caf::make_message(0.5), "double");
  std::string lease = direct_payload(system_, lease_);
  lease.replace(lease.find("Lease"), 5, "Lodge");
  expect_refused(BaspKind::direct_message, lease, "Lodge");
  expect_refused(caf::make_message(0.5L), "@ldouble");
}

TEST_F(WireCheckTest, WhatCafWouldTakeForAProxyIsRefused) {
  caf::scoped_actor ours{system_};  // known to the registry as soon as it was written
  const caf::strong_actor_ptr handle = ours->ctrl();
  expect_refused(caf::make_message(caf::link_atom::value, handle), "a link to an actor");
  EXPECT_TRUE(check_payload(system_, BaspKind::direct_message,
                            direct_payload(system_, caf::make_message(ping_atom::value, handle))));
  expect_refused(BaspKind::direct_message,
                 basp_payload(system_, std::vector<caf::strong_actor_ptr>{handle},
                              caf::make_message(ping_atom::value)),
                 "by way of other actors");
}

TEST_F(WireCheckTest, AHeaderFitsItsOperation) {
  const std::string ping =
      direct_payload(system_, caf::make_message(ping_atom::value, uint64_t{1}));
  const auto size = static_cast<uint32_t>(ping.size());
  auto named = [&](const std::string& name) {
    return basp_header({.flags = 1,
                        .payload_bytes = size,
                        .to = static_cast<uint64_t>(caf::atom_from_string(name))});
  };
  const std::string heartbeat = basp_header({.kind = BaspKind::heartbeat});
  {
    WireCheck check;
    for (const std::string& bytes : {heartbeat, basp_header({.payload_bytes = size, .to = 1}), ping,
                                     heartbeat, named("SpawnServ"), ping})
      EXPECT_TRUE(check.take(system_, bytes));
  }
  for (const std::string& bytes :
       {std::string(31, '\0'), basp_header({.kind = static_cast<BaspKind>(7)}),
        basp_header({.kind = BaspKind::client_handshake}),  // CAF reads what is not there
        basp_header({.kind = BaspKind::server_handshake, .data = 3}),
        basp_header({.kind = BaspKind::heartbeat, .payload_bytes = 1}), named("ConfigServ"),
        named("cohortnet")}) {
    WireCheck check;
    EXPECT_FALSE(check.take(system_, bytes));
  }
}

}  // namespace
}  // namespace cohort::control::detail
