// One suite for every kind of rank, threads of a process and forked processes (a card as a
// process), and every engine that joins them. COLL-1: bytes arrive as they were sent. COLL-2: a
// rank that dies, stops or never comes is named, in time.
#include "runtime/compute/collectives/collectives.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "runtime/base/clock.hpp"
#include "tests/support/control_table.hpp"
#include "tests/support/link_groups.hpp"
#include "tests/support/ranks.hpp"

namespace cohort::compute {
namespace {

using tests::connect_table;
using tests::ForkedRanks;
using tests::ForkedTable;
using tests::group_options;
using tests::on_threads;

std::byte pattern(int from, int to, size_t at) {
  return static_cast<std::byte>(
      (static_cast<size_t>(from) * 31 + static_cast<size_t>(to) * 7 + at) & 255);
}

std::vector<std::byte> message(int from, int to, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = pattern(from, to, i);
  return bytes;
}

struct Parcels {
  std::vector<std::vector<std::byte>> out, in;
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
};

/// Sizes differ by pair, some are 0.
size_t size_between(int from, int to, size_t unit) {
  return unit * static_cast<size_t>((from * 3 + to * 5) % 4);
}

Parcels parcels(int rank, int size, size_t unit) {
  Parcels p;
  for (int peer = 0; peer < size; ++peer) {
    p.out.push_back(message(rank, peer, size_between(rank, peer, unit)));
    p.in.emplace_back(size_between(peer, rank, unit));
  }
  for (auto& bytes : p.out) p.send.emplace_back(bytes);
  for (auto& bytes : p.in) p.receive.emplace_back(bytes);
  return p;
}

/// Returns the first thing that is wrong, or "".
std::string run_operations(Collectives& group) {
  const int rank = group.rank(), size = group.size();
  for (size_t unit : {size_t{1}, size_t{1000}, size_t{300'001}}) {
    Parcels p = parcels(rank, size, unit);
    if (auto done = group.all_to_all(p.send, p.receive); !done) return done.error().to_string();
    for (int peer = 0; peer < size; ++peer)
      if (p.in[static_cast<size_t>(peer)] != message(peer, rank, size_between(peer, rank, unit)))
        return "all_to_all: wrong bytes of rank " + std::to_string(peer);

    std::vector<std::vector<std::byte>> all;
    std::vector<std::span<std::byte>> spans;
    for (int peer = 0; peer < size; ++peer) all.emplace_back(unit * static_cast<size_t>(peer + 1));
    for (auto& bytes : all) spans.emplace_back(bytes);
    const auto mine = message(rank, 99, unit * static_cast<size_t>(rank + 1));
    std::memcpy(all[static_cast<size_t>(rank)].data(), mine.data(), mine.size());
    // mine is its place in `all` itself
    if (auto done = group.all_gather(spans[static_cast<size_t>(rank)], spans); !done)
      return done.error().to_string();
    for (int peer = 0; peer < size; ++peer)
      if (all[static_cast<size_t>(peer)] != message(peer, 99, unit * static_cast<size_t>(peer + 1)))
        return "all_gather: wrong bytes of rank " + std::to_string(peer);

    for (int root = 0; root < size; ++root) {
      auto bytes = rank == root ? message(root, 5, unit) : std::vector<std::byte>(unit);
      if (auto done = group.broadcast(bytes, root); !done) return done.error().to_string();
      if (bytes != message(root, 5, unit)) return "broadcast: wrong bytes";
    }
    if (auto done = group.barrier(); !done) return done.error().to_string();
  }
  return "";
}

/// Waits until every rank has come here: a rank's own barrier may be over before the others'.
bool all_come(Rendezvous& rendezvous, int rank, int size) {
  const auto key = [](int of) { return "come/" + std::to_string(of); };
  if (!rendezvous.put(key(rank), "yes")) return false;
  return test::wait_until(
      [&] {
        for (int other = 0; other < size; ++other)
          if (!rendezvous.get(key(other)).value()) return false;
        return true;
      },
      20000);
}

uint64_t bytes_sent_of(int rank, int size) {
  uint64_t sum = 0;
  for (size_t unit : {size_t{1}, size_t{1000}, size_t{300'001}}) {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank)
        sum += size_between(rank, peer, unit) + unit * static_cast<size_t>(rank + 1) + unit + 1;
  }
  return sum;
}

/// An engine, and what its links need.
struct Engine {
  const char* name;
  CollectiveBackend backend;
  bool has_keys = false;
};
constexpr Engine k_gloo{"gloo", CollectiveBackend::gloo};
constexpr Engine k_memory{"memory", CollectiveBackend::memory};
constexpr Engine k_links{"links", CollectiveBackend::links};
constexpr Engine k_curve{"links_with_keys", CollectiveBackend::links, true};

class OnEngine : public ::testing::TestWithParam<Engine> {
 protected:
  GroupOptions options_of(int rank, int size, const std::string& name,
                          std::shared_ptr<Rendezvous> rendezvous, int timeout_ms = 20000,
                          int peer_timeout_ms = 10000) const {
    auto options = group_options(rank, size, name, std::move(rendezvous), timeout_ms);
    options.backend = GetParam().backend;
    if (options.backend == CollectiveBackend::links)
      options.open = actors::link_groups(tests::link_group_options(keys_, peer_timeout_ms));
    return options;
  }
  const transport::CurveKeys keys_ =
      GetParam().has_keys ? tests::curve_keys() : transport::CurveKeys();
};
class ThreadRanks : public OnEngine {};
class ProcessRanks : public OnEngine {};
const auto name_of_engine = [](const auto& of) { return std::string(of.param.name); };
INSTANTIATE_TEST_SUITE_P(Engines, ThreadRanks,
                         ::testing::Values(k_gloo, k_memory, k_links, k_curve), name_of_engine);
INSTANTIATE_TEST_SUITE_P(Engines, ProcessRanks, ::testing::Values(k_gloo, k_links, k_curve),
                         name_of_engine);

TEST_P(ThreadRanks, ExchangeEveryByte) {  // COLL-1
  for (int size : {1, 2, 4}) {
    auto rendezvous = Rendezvous::in_process();
    on_threads(size, [&](int rank) {
      auto group = Collectives::join(options_of(rank, size, "g", rendezvous));
      ASSERT_TRUE(group) << group.error().to_string();
      EXPECT_EQ(run_operations(**group), "");
      EXPECT_EQ((*group)->bytes_sent(), bytes_sent_of(rank, size));
    });
  }
}

TEST_P(ProcessRanks, ExchangeEveryByte) {  // COLL-1
  for (int size : {2, 4}) {
    ForkedTable table;
    ForkedRanks ranks(size, [&](int rank) {
      auto rendezvous = connect_table(table.port());
      auto group = Collectives::join(options_of(rank, size, "g", rendezvous)).value();
      const std::string wrong = run_operations(*group);
      if (!wrong.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, wrong.c_str());
      return wrong.empty() && group->bytes_sent() == bytes_sent_of(rank, size) ? 0 : 1;
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
  }
}

TEST_P(ProcessRanks, AKilledOneIsNamedByAllOthers) {  // COLL-2
  constexpr int k_size = 4, k_victim = 2;
  ForkedTable table;
  ForkedRanks ranks(k_size, [&](int rank) {
    auto rendezvous = connect_table(table.port());
    auto group = Collectives::join(options_of(rank, k_size, "actor_train", rendezvous)).value();
    if (!group->barrier() || !all_come(*rendezvous, rank, k_size)) return 3;
    if (rank == k_victim) {
      rendezvous->put("ready", "yes").value();
      for (;;) ::pause();
    }
    std::vector<std::byte> bytes(1000);
    std::vector<std::span<std::byte>> all(k_size, std::span(bytes));
    auto done = group->all_gather(bytes, all);
    if (done) return 1;
    const std::string text = done.error().to_string();
    const bool is_named = done.error().code == Errc::closed &&
                          text.find("all_gather in group actor_train") != std::string::npos &&
                          text.find("rank 2 (card 2) is gone") != std::string::npos;
    if (!is_named) std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    const bool is_over =
        !group->barrier() && group->barrier().error().detail == done.error().detail;
    return is_named && is_over ? 0 : 2;
  });
  auto rendezvous = connect_table(table.port());
  ASSERT_TRUE(
      test::wait_until([&] { return rendezvous->get("ready").value().has_value(); }, 20000));
  const double begin = now_seconds();
  ranks.kill(k_victim);
  for (int rank : {0, 1, 3}) EXPECT_EQ(ranks.wait(rank), 0) << rank;
  EXPECT_LT(now_seconds() - begin, 10);
  EXPECT_EQ(ranks.wait(k_victim), -SIGKILL);
}

TEST_P(ProcessRanks,
       TheOneThatKeepsTheTableDies) {  // COLL-2: nobody is left to ask, the cause still has a name
  int port_pipe[2] = {};
  ASSERT_EQ(::pipe(port_pipe), 0);
  test::TempFolder folder;
  const std::string ready = (folder.path() / "ready").string();
  ForkedRanks ranks(3, [&](int rank) {
    std::unique_ptr<tests::TableKeeper> keeper;
    std::shared_ptr<Rendezvous> rendezvous;
    if (rank == 0) {
      keeper = std::make_unique<tests::TableKeeper>();
      rendezvous = keeper->rendezvous();
      const uint16_t port = keeper->port();
      for (int i = 0; i < 2; ++i)
        if (::write(port_pipe[1], &port, sizeof port) < 0) return 3;
    } else {
      uint16_t port = 0;
      if (::read(port_pipe[0], &port, sizeof port) != sizeof port) return 3;
      rendezvous = connect_table(port);
    }
    auto group = Collectives::join(options_of(rank, 3, "g", rendezvous)).value();
    if (!group->barrier() || !all_come(*rendezvous, rank, 3)) return 4;
    if (rank == 0) {
      // The others have to see it before the table is gone.
      if (!test::wait_until(
              [&] {
                return rendezvous->get("seen/1").value() && rendezvous->get("seen/2").value();
              },
              20000))
        return 5;
      std::ofstream(ready) << "yes";
      for (;;) ::pause();
    }
    // Its answer may be lost with the keeper, which waits for the word and is killed then.
    (void)rendezvous->put("seen/" + std::to_string(rank), "yes");
    auto done = group->barrier();
    if (!done && done.error().detail.find("rank 0 (card 0) is gone") != std::string::npos) return 0;
    std::fprintf(stderr, "rank %d: %s\n", rank, done ? "" : done.error().to_string().c_str());
    return 1;
  });
  ASSERT_TRUE(test::wait_until([&] { return std::filesystem::exists(ready); }, 20000));
  ranks.kill(0);
  EXPECT_EQ(ranks.wait(1), 0);
  EXPECT_EQ(ranks.wait(2), 0);
  ::close(port_pipe[0]);
  ::close(port_pipe[1]);
}

TEST_P(ThreadRanks, WhoDoesNotJoinIsNamed) {  // COLL-2
  auto rendezvous = Rendezvous::in_process();
  on_threads(4, [&](int rank) {
    if (rank == 1 || rank == 3) return;
    auto group = Collectives::join(options_of(rank, 4, "late", rendezvous, 300));
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::timeout);
    EXPECT_NE(group.error().detail.find("rank 1 (card 1), rank 3 (card 3) did not come"),
              std::string::npos)
        << group.error().detail;
  });
}

TEST_P(ThreadRanks, WhoStaysAwayIsNamed) {  // COLL-2: alive, but does not call
  auto rendezvous = Rendezvous::in_process();
  std::atomic<int> failed = 0;
  on_threads(3, [&](int rank) {
    auto group = Collectives::join(options_of(rank, 3, "away", rendezvous, 500)).value();
    if (rank == 1) {
      EXPECT_TRUE(test::wait_until([&] { return failed == 2; }, 20000));
      return;
    }
    auto done = group->barrier();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().detail.find("rank 1 (card 1) did not answer within 500 ms"),
              std::string::npos)
        << done.error().detail;
    ++failed;
  });
}

TEST_P(ThreadRanks, AbortEndsAWaitAndTellsTheOthers) {  // COLL-2
  auto rendezvous = Rendezvous::in_process();
  std::atomic<int> waiting = 0, joined = 0;
  on_threads(3, [&](int rank) {
    auto group = Collectives::join(options_of(rank, 3, "stop", rendezvous)).value();
    ++joined;         // a rank that is told while it still joins could not
    if (rank == 2) {  // never calls; waits for the others to be told
      EXPECT_TRUE(test::wait_until([&] { return waiting == 4; }, 20000));
      return;
    }
    std::jthread other;
    if (rank == 0)
      other = std::jthread([&] {
        EXPECT_TRUE(test::wait_until([&] { return joined == 3 && waiting == 2; }, 20000));
        group->abort("the run was cancelled");
      });
    ++waiting;
    auto done = group->barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, rank == 0 ? Errc::cancelled : Errc::closed);
    EXPECT_NE(done.error().detail.find("the run was cancelled"), std::string::npos)
        << done.error().detail;
    ++waiting;
  });
}

TEST_P(ThreadRanks, WhoLeavesIsNamedByThoseWhoWaitForIt) {  // COLL-2
  auto rendezvous = Rendezvous::in_process();
  std::atomic<int> arrived = 0;
  on_threads(3, [&](int rank) {
    auto group = Collectives::join(options_of(rank, 3, "leave", rendezvous)).value();
    ASSERT_TRUE(group->barrier());
    // A rank that leaves while others are still in the barrier would be missed there already.
    ++arrived;
    if (rank == 1) {
      EXPECT_TRUE(test::wait_until([&] { return arrived == 3; }, 20000));
      return;
    }
    auto done = group->barrier();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().detail.find("rank 1 (card 1) is gone"), std::string::npos)
        << done.error().detail;
  });
}

TEST_P(ProcessRanks, AStoppedOneIsNamed) {  // COLL-2: alive, but silent
  ForkedTable table;
  ForkedRanks ranks(3, [&](int rank) {
    auto rendezvous = connect_table(table.port());
    auto group = Collectives::join(options_of(rank, 3, "g", rendezvous, 4000, 2000)).value();
    if (!group->barrier() || !all_come(*rendezvous, rank, 3)) return 1;
    if (rank == 1) {
      rendezvous->put("stops", "yes").value();
      for (;;) ::pause();
    }
    // Rank 0 waits for rank 2 only, which waits for the stopped one.
    std::vector<std::byte> bytes(100'000);
    std::vector<std::span<const std::byte>> send(3);
    std::vector<std::span<std::byte>> receive(3);
    receive[rank == 0 ? 2 : 1] = bytes;
    auto done = group->all_to_all(send, receive);
    const std::string text = done ? "no error" : done.error().to_string();
    if (text.find("rank 1 (card 1)") != std::string::npos) return 0;
    std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
    return 2;
  });
  auto rendezvous = connect_table(table.port());
  ASSERT_TRUE(
      test::wait_until([&] { return rendezvous->get("stops").value().has_value(); }, 20000));
  ranks.signal(1, SIGSTOP);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

// FLOW-4: 48 MiB to a rank that is late is more than its credit. What nobody takes is not in the
// way of what comes after it, and an error leaves nothing that reads the sender's bytes.
TEST_P(ThreadRanks, BodiesBeyondTheCreditArriveAndMismatchesAreNamed) {  // COLL-1
  auto rendezvous = Rendezvous::in_process();
  const auto big = message(0, 1, size_t{48} << 20);
  on_threads(2, [&](int rank) {
    auto group = Collectives::join(options_of(rank, 2, "big", rendezvous)).value();
    if (rank == 0) {
      auto mine = big;
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(group->broadcast(mine, 0));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the credit is used up
      std::vector<std::byte> got(big.size());
      for (int i = 0; i < 2; ++i) {
        std::fill(got.begin(), got.end(), std::byte{0});
        ASSERT_TRUE(group->broadcast(got, 0));
        EXPECT_TRUE(got == big);
      }
    }
    if (GetParam().backend == CollectiveBackend::gloo) return;  // does not check sizes
    std::vector<std::byte> bytes(rank == 0 ? size_t{1} << 20 : size_t{1} << 19);
    auto done = group->broadcast(bytes, 0);
    if (done) done = group->barrier();  // memory: who sends does not wait
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().detail.find("rank 0 (card 0) sent 1048576 bytes in broadcast"),
              std::string::npos)
        << done.error().detail;
  });
}

TEST_P(ThreadRanks, ACallWithoutASpanPerRankIsRefused) {
  auto rendezvous = Rendezvous::in_process();
  on_threads(2, [&](int rank) {
    auto group = Collectives::join(options_of(rank, 2, "g", rendezvous)).value();
    const auto wrong = group->all_to_all({}, {});
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Errc::invalid_argument);
    EXPECT_NE(wrong.error().detail.find("2 ranks, 0 spans to send"), std::string::npos);
    EXPECT_TRUE(group->barrier()) << "nothing was begun";
  });
}

TEST(Collectives, MemoryJoinsOneProcessOnly) {
  tests::TableKeeper keeper;
  GroupOptions options = group_options(0, 1, "g", connect_table(keeper.port()));
  options.backend = CollectiveBackend::memory;
  EXPECT_EQ(Collectives::join(options).error().code, Errc::unsupported);
}

TEST(Collectives, OptionsAreChecked) {
  GroupOptions options = group_options(0, 1, "g", Rendezvous::in_process());
  options.rank = 1;
  EXPECT_EQ(Collectives::join(options).error().code, Errc::invalid_argument);
  options.rank = 0;
  options.backend = CollectiveBackend::links;
  EXPECT_EQ(Collectives::join(options).error().code, Errc::invalid_argument);
}

TEST(ControlRendezvous, KeepsTheKeysOfOthersWithinItsBounds) {
  ForkedTable keeper;
  auto one = connect_table(keeper.port()), other = connect_table(keeper.port());
  EXPECT_FALSE(one->get("a").value().has_value());
  ASSERT_TRUE(one->put("a", std::string("x\0y", 3)).has_value());
  EXPECT_EQ(*other->get("a").value(), std::string("x\0y", 3));
  EXPECT_EQ(other->put_if_absent("a", "other").value(), std::string("x\0y", 3));
  EXPECT_EQ(other->put_if_absent("b", "").value(), "");
  EXPECT_EQ(one->put("k", std::string(1 << 20, 'v')).error().code, Errc::capacity);
  on_threads(4, [&](int thread) {  // any thread may ask
    const std::string key = "t" + std::to_string(thread);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(one->put_if_absent(key, key).value(), key);
  });
  keeper.end();
  const double begin = now_seconds();
  EXPECT_EQ(one->get("a").error().code, Errc::closed);
  EXPECT_EQ(one->get("a").error().code, Errc::closed);
  EXPECT_LT(now_seconds() - begin, 2);
}

}  // namespace
}  // namespace cohort::compute
