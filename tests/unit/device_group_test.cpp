// DeviceGroup and staging, on cpu devices: blocks of a cpu Device play the bytes of a card, and a
// group in memory plays NCCL, so that the waits, the roll call and the copies are the real ones.
#include "runtime/compute/collectives/device_group.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <thread>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "tests/support/ranks.hpp"

namespace cohort::compute {
namespace {

using tests::group_options;
using tests::on_threads;

/// An engine whose exchange runs on a thread of its own over a group in memory.
class ThreadEngine final : public ExchangeEngine {
 public:
  explicit ThreadEngine(std::unique_ptr<Collectives> group) : group_(std::move(group)) {}
  Expected<void> start(std::span<const std::span<const std::byte>> send,
                       std::span<const std::span<std::byte>> receive) override {
    is_done_ = false;
    thread_ = std::jthread([this, from = std::vector(send.begin(), send.end()),
                            to = std::vector(receive.begin(), receive.end())] {
      result_ = group_->all_to_all(from, to);
      is_done_ = true;
    });
    return {};
  }
  Expected<bool> is_done() override {
    if (!is_done_) return false;
    if (!result_) return result_.error();
    return true;
  }
  void abandon() override { group_->abort("abandoned"); }

 private:
  std::unique_ptr<Collectives> group_;
  std::atomic<bool> is_done_{false};
  Expected<void> result_;
  std::jthread thread_;
};

Expected<std::unique_ptr<ExchangeEngine>> make_engine(const GroupOptions& options) {
  GroupOptions inner = options;
  inner.name += ".engine";
  inner.timeout_ms = 60000;
  COHORT_ASSIGN(auto group, join_in_memory(inner));
  return std::unique_ptr<ExchangeEngine>(std::make_unique<ThreadEngine>(std::move(group)));
}

GroupOptions device_options(int rank, int size, const std::string& name,
                            const std::shared_ptr<Rendezvous>& table, int timeout_ms = 20000) {
  GroupOptions options = group_options(rank, size, name, table, timeout_ms);
  options.device = open_device(DeviceKind::cpu, 0).value();
  return options;
}

/// What rank `from` sends to rank `to`: sizes differ, some are empty.
std::vector<std::byte> message(int from, int to) {
  return std::vector<std::byte>(static_cast<size_t>((from * 5 + to * 3) % 7 * 100),
                                static_cast<std::byte>(from * 16 + to + 1));
}

/// Half of the messages on the device, half on the host.
void expect_all_to_all(Collectives& group, Device& device) {
  const int size = group.size(), rank = group.rank();
  std::vector<DeviceBlock> blocks;
  std::vector<std::vector<std::byte>> host;
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  host.reserve(static_cast<size_t>(2 * size));
  auto room = [&](std::vector<std::byte> bytes, bool on_device) -> std::span<std::byte> {
    if (!on_device) return host.emplace_back(std::move(bytes));
    blocks.push_back(device.allocate(bytes.size()).value());
    device.copy(blocks.back().data(), bytes.data(), bytes.size()).value();
    return {blocks.back().data(), bytes.size()};
  };
  for (int r = 0; r < size; ++r) {
    send.push_back(room(message(rank, r), r % 2 == 0));
    receive.push_back(room(std::vector<std::byte>(message(r, rank).size()), r % 2 == rank % 2));
  }
  auto done = group.all_to_all(send, receive);
  ASSERT_TRUE(done.has_value()) << done.error().detail;
  for (int r = 0; r < size; ++r) {
    const auto expected = message(r, rank);
    std::vector<std::byte> got(expected.size());
    device.copy(got.data(), receive[static_cast<size_t>(r)].data(), got.size()).value();
    EXPECT_EQ(got, expected) << r << " -> " << rank;
  }
}

void expect_gather_and_broadcast(Collectives& group, Device& device) {
  const auto size = static_cast<size_t>(group.size());
  const DeviceBlock mine = device.allocate(64).value();
  const std::vector<std::byte> filled(64, static_cast<std::byte>(group.rank() + 1));
  device.copy(mine.data(), filled.data(), 64).value();
  std::vector<std::vector<std::byte>> all(size, std::vector<std::byte>(64));
  std::vector<std::span<std::byte>> spans(all.begin(), all.end());
  ASSERT_TRUE(group.all_gather({mine.data(), 64}, spans).has_value());
  for (size_t r = 0; r < size; ++r)
    EXPECT_EQ(all[r], std::vector<std::byte>(64, static_cast<std::byte>(r + 1)));
  std::vector<std::byte> text(10, static_cast<std::byte>(group.rank()));
  ASSERT_TRUE(group.broadcast(text, 1).has_value());
  EXPECT_EQ(text, std::vector<std::byte>(10, std::byte{1}));
  ASSERT_TRUE(group.barrier().has_value());
}

TEST(DeviceGroup, ExchangesDeviceAndStagedHostBytes) {
  const auto table = Rendezvous::in_process();
  on_threads(3, [&](int rank) {
    const GroupOptions options = device_options(rank, 3, "g", table);
    auto group = stage_collectives(join_devices(options, make_engine).value(), options.device,
                                   /*takes_device=*/true);
    for (int i = 0; i < 3; ++i) expect_all_to_all(*group, *options.device);
    expect_gather_and_broadcast(*group, *options.device);
    EXPECT_GT(group->bytes_sent(), 0u);
  });
}

TEST(DeviceGroup, AGroupOfHostsStagesDeviceBytes) {
  const auto table = Rendezvous::in_process();
  on_threads(3, [&](int rank) {
    GroupOptions options = device_options(rank, 3, "g", table);
    options.backend = CollectiveBackend::memory;
    auto group = Collectives::join(options).value();
    expect_all_to_all(*group, *options.device);
    expect_gather_and_broadcast(*group, *options.device);
    EXPECT_EQ(options.device->memory().value().in_use_bytes, 0u) << "nothing stays staged";
  });
}

TEST(DeviceGroup, NcclJoinsTwoCudaDevices) {
  const auto devices = list_devices(DeviceKind::cuda);
  if (!devices || devices->size() < 2) GTEST_SKIP() << "needs two cuda devices";
  const auto table = Rendezvous::in_process();
  on_threads(2, [&](int rank) {
    GroupOptions options = group_options(rank, 2, "g", table, 60000);
    options.device = open_device(DeviceKind::cuda, rank).value();
    options.backend = options.device->collectives();
    auto group = Collectives::join(options).value();
    for (int i = 0; i < 3; ++i) expect_all_to_all(*group, *options.device);
    expect_gather_and_broadcast(*group, *options.device);
  });
}

TEST(DeviceGroup, ARankThatStaysAwayIsNamed) {  // COLL-2
  const auto table = Rendezvous::in_process();
  std::unique_ptr<Collectives> sleeper;
  on_threads(3, [&](int rank) {
    auto group =
        join_devices(device_options(rank, 3, "g", table, rank == 2 ? 20000 : 300), make_engine)
            .value();
    if (rank == 2) {
      sleeper = std::move(group);  // joined, and never calls again
      return;
    }
    const auto lost = group->barrier();
    ASSERT_FALSE(lost.has_value());
    EXPECT_NE(lost.error().detail.find("rank 2 (card 2)"), std::string::npos)
        << lost.error().detail;
    EXPECT_EQ(group->barrier().error().detail, lost.error().detail) << "of no more use";
  });
}

TEST(DeviceGroup, WhoDoesNotJoinIsNamed) {
  const auto absent =
      join_devices(device_options(0, 2, "g", Rendezvous::in_process(), 50), make_engine);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, Errc::timeout);
  EXPECT_NE(absent.error().detail.find("rank 1 (card 1) did not come"), std::string::npos);
}

TEST(DeviceGroup, AbortEndsTheWaitOfEveryRank) {
  const auto table = Rendezvous::in_process();
  std::latch joined(3);
  on_threads(3, [&](int rank) {
    auto group = join_devices(device_options(rank, 3, "g", table), make_engine).value();
    joined.arrive_and_wait();
    if (rank == 0) {
      group->abort("the run ends");
      EXPECT_EQ(group->barrier().error().code, Errc::cancelled);
      return;
    }
    const auto ended = group->barrier();
    ASSERT_FALSE(ended.has_value());
    EXPECT_NE(ended.error().detail.find("the run ends"), std::string::npos) << ended.error().detail;
  });
}

TEST(DeviceGroup, AnEngineThatCannotStartIsAnError) {
  const auto table = Rendezvous::in_process();
  on_threads(2, [&](int rank) {
    auto fails = [](const GroupOptions&) -> Expected<std::unique_ptr<ExchangeEngine>> {
      return Error{Errc::unsupported, "no library"};
    };
    const auto group = join_devices(device_options(rank, 2, "g", table), fails);
    EXPECT_EQ(group.error().code, Errc::unsupported);
    EXPECT_NE(group.error().detail.find("no library"), std::string::npos);
  });
}

TEST(Collectives, DeviceBackendsNeedADevice) {
  GroupOptions options = group_options(0, 1, "g", Rendezvous::in_process());
  options.backend = CollectiveBackend::nccl;
  EXPECT_EQ(Collectives::join(options).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace cohort::compute
