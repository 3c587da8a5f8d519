// Closing links while bytes are under way must not end a process. Eight processes, each with a
// consumer and a producer to every other, close in any order; in every other round one of them is
// killed instead. link_close_test --rounds 1000 is the whole; without the flag a slice runs.
// COHORT_SEED sets the first round.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "tests/support/link_peers.hpp"

namespace cohort::transport::test {
namespace {

constexpr int k_processes = 8;
constexpr int k_limit_ms = 20000;  // a round takes a fraction of a second
int rounds = 25;

/// Where the processes of a round meet: memory that all of them map.
struct Meeting {
  struct Seat {
    std::atomic<bool> is_open{false};
    std::array<char, 128> endpoint{};
  };
  std::array<Seat, k_processes> seats;
  std::atomic<int> fed{0};  // producers and consumers that have bytes under way
};

class SharedMeeting {
 public:
  SharedMeeting()
      : memory_(::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)),
        meeting_(new (memory_) Meeting) {}
  ~SharedMeeting() { ::munmap(memory_, sizeof(Meeting)); }
  SharedMeeting(const SharedMeeting&) = delete;
  SharedMeeting& operator=(const SharedMeeting&) = delete;
  Meeting& operator*() { return *meeting_; }

 private:
  void* memory_;
  Meeting* meeting_;
};

LinkOptions options_of(const std::string& endpoint, const std::string& name) {
  LinkOptions options = options_for(endpoint, name);
  options.heartbeat_ms = 10;
  options.chunk_bytes = 16 << 10;
  return options;
}

/// One process of a round. Returns its exit status: 0 closed in order, 1 could not begin.
int close_amid_traffic(Meeting& meeting, int self, const std::string& wire, Rng rng, bool dies) {
  Context context;
  Consumer consumer;
  consumer.acks_at_once = false;
  Meeting::Seat& seat = meeting.seats[static_cast<size_t>(self)];
  consumer.open(context, options_of(fresh_endpoint(wire), "consumer"));
  if (consumer.receiver == nullptr) return 1;
  consumer.receiver->endpoint().copy(seat.endpoint.data(), seat.endpoint.size() - 1);
  seat.is_open = true;
  std::vector<std::unique_ptr<Producer>> producers;
  for (int other = 0; other < k_processes; ++other) {
    if (other == self) continue;
    const Meeting::Seat& peer = meeting.seats[static_cast<size_t>(other)];
    if (!eventually([&] { return peer.is_open.load(); }, k_limit_ms)) return 1;
    producers.push_back(std::make_unique<Producer>());
    producers.back()->open(context, options_of(peer.endpoint.data(), std::to_string(self)));
    Message message;
    message.body = tensor::Buffer::allocate(size_t{1} << 20);
    for (int i = 0; i < 4; ++i)
      if (!producers.back()->send(message)) return 1;
  }
  if (!consumer.wait_for(1)) return 1;
  ++meeting.fed;
  if (!eventually([&] { return meeting.fed.load() == k_processes; }, k_limit_ms)) return 1;
  ::usleep(static_cast<useconds_t>(rng.below(20000)));
  if (dies) ::raise(SIGKILL);
  const size_t consumer_is = rng.below(producers.size() + 1);  // its place in the order
  for (size_t i = 0; i <= producers.size(); ++i) {
    if (i == consumer_is) consumer.receiver.reset();
    if (i < producers.size()) producers[i]->sender.reset();
    if (rng.below(4) == 0) ::usleep(static_cast<useconds_t>(rng.below(30000)));
  }
  return 0;
}

struct Tally {
  int closed = 0, killed = 0, failed = 0, aborted = 0;
};

void run_round(uint64_t seed, Tally& tally) {
  SharedMeeting meeting;
  const Rng rng(seed);
  const std::string wire = seed % 2 == 0 ? "ipc" : "tcp";
  const int victim = seed / 2 % 2 == 0 ? static_cast<int>(rng.fork(99).below(k_processes)) : -1;
  for (int i = 0; i < k_processes; ++i) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(2 * k_limit_ms / 1000);  // a process that hangs ends by a signal
    const Rng own = rng.fork(static_cast<uint64_t>(i));
    ::_exit(close_amid_traffic(*meeting, i, wire, own, i == victim));
  }
  int status = 0;
  while (::wait(&status) > 0) {
    if (WIFEXITED(status))
      ++(WEXITSTATUS(status) == 0 ? tally.closed : tally.failed);
    else if (WTERMSIG(status) == SIGKILL)
      ++tally.killed;
    else
      ++tally.aborted;
  }
}

TEST(LinkClose, EightProcessesCloseAmidTraffic) {
  const char* text = std::getenv("COHORT_SEED");
  const uint64_t first = text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
  Tally tally;
  int killed = 0;
  for (int i = 0; i < rounds; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    const int before = tally.aborted + tally.failed;
    run_round(seed, tally);
    if (seed / 2 % 2 == 0) ++killed;
    if (tally.aborted + tally.failed > before)
      std::fprintf(stderr, "round of COHORT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  }
  std::printf("%d rounds of %d processes: %d closed, %d killed, %d aborted, %d failed\n", rounds,
              k_processes, tally.closed, tally.killed, tally.aborted, tally.failed);
  EXPECT_EQ(tally.closed, rounds * k_processes - killed);
  EXPECT_EQ(tally.killed, killed);
  EXPECT_EQ(tally.aborted, 0);
  EXPECT_EQ(tally.failed, 0);
}

}  // namespace

void set_rounds(int count) { rounds = count; }

}  // namespace cohort::transport::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string_view(argv[1]) == "--rounds")
    cohort::transport::test::set_rounds(std::atoi(argv[2]));
  return RUN_ALL_TESTS();
}
