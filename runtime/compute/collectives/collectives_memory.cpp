// Collectives of ranks that are threads of one process: bytes are copied from rank to rank in
// memory, under one lock and one condition, without a socket or a thread of its own. A rank that
// waits sleeps, so that ranks may outnumber the cores. What is sent is copied twice, so that a
// sender does not wait for its readers: the ranks meet once an operation. Bound: two boxes a rank,
// each of the largest operation.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/collectives/group_roll.hpp"

namespace cohort::compute {
namespace {

using Clock = std::chrono::steady_clock;

/// What a rank sends in one operation. It lies in the meeting, not with the rank: a reader may be
/// at it when the rank has given up and gone.
struct Box {
  Collective operation = Collective::barrier;
  std::vector<std::byte> bytes;
  std::vector<std::span<const std::byte>> parcels;  // by receiver
};

struct Member {
  enum class Presence : uint8_t { expected, here, gone };
  Presence presence = Presence::expected;
  uint64_t posted = 0;  // operations whose box it has filled
  uint64_t done = 0;    // operations that it has read all of
  Box boxes[2];         // by parity of the operation: a rank may be one ahead of its readers
};

struct Meeting {
  explicit Meeting(int size) : members(static_cast<size_t>(size)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members;
  std::optional<std::string> cause;  // the first loss; no operation succeeds after it
};

class MemoryGroup final : public RollGroup {
 public:
  MemoryGroup(GroupOptions options, std::shared_ptr<Meeting> meeting)
      : RollGroup(std::move(options)), meeting_(std::move(meeting)) {}
  ~MemoryGroup() override {
    std::lock_guard lock(meeting_->mutex);
    if (!has_met_) return;  // the others name who did not come, not who gave up first
    self().presence = Member::Presence::gone;
    meeting_->changed.notify_all();
  }

  /// Waits for all ranks to come.
  Expected<void> meet() {
    std::unique_lock lock(meeting_->mutex);
    if (meeting_->members.size() != static_cast<size_t>(size()) ||
        self().presence != Member::Presence::expected)
      return Error{Errc::invalid_argument,
                   fmt::format("join of group {}: {} of {} has joined before, or with another size",
                               options_.name, roll_.name_of(rank()), size())};
    self().presence = Member::Presence::here;
    meeting_->changed.notify_all();
    COHORT_ASSIGN(const std::vector<int> ranks,
                  missing(lock, "join", [](int, const Member& member) {
                    return member.presence == Member::Presence::here;
                  }));
    has_met_ = ranks.empty();
    return has_met_ ? Expected<void>() : roll_.not_come(ranks);
  }

  Expected<void> exchange(Collective operation, Sent send, Received receive) override {
    COHORT_TRY(roll_.check(operation, send, receive));
    const uint64_t number = operations_++;
    const auto me = static_cast<size_t>(rank());
    std::unique_lock lock(meeting_->mutex);
    // The box of this parity is free once everybody has read what was in it two operations ago.
    COHORT_TRY(wait(lock, operation, [number](int, const Member& member) {
      return number < 2 || member.done + 1 >= number;
    }));
    lock.unlock();
    fill(self().boxes[number % 2], operation, send);
    for (size_t r = 0; r < send.size(); ++r) bytes_sent_ += r == me ? 0 : send[r].size();
    lock.lock();
    self().posted = number + 1;
    meeting_->changed.notify_all();
    COHORT_TRY(wait(lock, operation, [&](int other, const Member& member) {
      return receive[static_cast<size_t>(other)].empty() || member.posted > number;
    }));
    COHORT_TRY(check_received(operation, number, receive));
    lock.unlock();
    for (size_t r = 0; r < receive.size(); ++r) {
      if (receive[r].empty() || (r == me && send[r].data() == receive[r].data())) continue;
      const auto from = r == me ? send[r] : meeting_->members[r].boxes[number % 2].parcels[me];
      std::memcpy(receive[r].data(), from.data(), receive[r].size());
    }
    lock.lock();
    self().done = number + 1;
    meeting_->changed.notify_all();
    return {};
  }

  void abort(const std::string& reason) override {
    std::lock_guard lock(meeting_->mutex);
    if (error_) return;
    if (!meeting_->cause) meeting_->cause = roll_.stopped(reason);
    error_ = roll_.cancelled(reason);
    meeting_->changed.notify_all();
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Member& self() { return meeting_->members[static_cast<size_t>(rank())]; }

  /// Copies what is sent to the box of the operation, what goes to several ranks once. Nobody reads
  /// that box now.
  static void fill(Box& box, Collective operation, Sent send) {
    const auto is_repeat = [&](size_t r) { return r > 0 && send[r].data() == send[r - 1].data(); };
    size_t total = 0;
    for (size_t r = 0; r < send.size(); ++r) total += is_repeat(r) ? 0 : send[r].size();
    box.bytes.resize(total);
    box.parcels.assign(send.size(), {});
    box.operation = operation;
    size_t at = 0;
    for (size_t r = 0; r < send.size(); ++r) {
      if (send[r].empty()) continue;
      if (is_repeat(r)) at -= send[r].size();
      box.parcels[r] = std::span(box.bytes).subspan(at, send[r].size());
      std::memcpy(box.bytes.data() + at, send[r].data(), send[r].size());
      at += send[r].size();
    }
  }

  /// REQUIRES: the lock, and that every rank that is read from has posted.
  Expected<void> check_received(Collective operation, uint64_t number, Received receive) {
    const auto me = static_cast<size_t>(rank());
    for (size_t r = 0; r < receive.size(); ++r) {
      if (r == me || receive[r].empty()) continue;
      const Box& box = meeting_->members[r].boxes[number % 2];
      const size_t found = box.parcels[me].size();
      if (found == receive[r].size() && box.operation == operation) continue;
      return lost(Errc::protocol, to_string(operation),
                  fmt::format("{} sent {} bytes in {}, {} expects {} in {}",
                              roll_.name_of(static_cast<int>(r)), found, to_string(box.operation),
                              roll_.name_of(rank()), receive[r].size(), to_string(operation)));
    }
    return {};
  }

  /// Sleeps until is_ready(rank, member) holds for all other ranks, or one of them is gone, or the
  /// time is over. Returns those it does not hold for.
  template <class IsReady>
  Expected<std::vector<int>> missing(Lock& lock, std::string_view what, IsReady is_ready) {
    const auto end = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
    for (bool is_over = false;;) {
      if (error_) return *error_;
      if (meeting_->cause) return lost(Errc::closed, what, *meeting_->cause);
      std::vector<int> ranks;
      for (int other = 0; other < size(); ++other) {
        const Member& member = meeting_->members[static_cast<size_t>(other)];
        if (other == rank() || is_ready(other, member)) continue;
        if (member.presence == Member::Presence::gone)
          return lost(Errc::closed, what, fmt::format("{} is gone", roll_.name_of(other)));
        ranks.push_back(other);
      }
      if (ranks.empty() || is_over) return ranks;
      is_over = meeting_->changed.wait_until(lock, end) == std::cv_status::timeout;
    }
  }

  /// The same, where a rank that does not come in time is the end of the group.
  template <class IsReady>
  Expected<void> wait(Lock& lock, Collective operation, IsReady is_ready) {
    COHORT_ASSIGN(const std::vector<int> ranks, missing(lock, to_string(operation), is_ready));
    if (ranks.empty()) return {};
    return lost(
        Errc::timeout, to_string(operation),
        fmt::format("{} did not answer within {} ms", roll_.names_of(ranks), options_.timeout_ms));
  }

  /// Tells everybody the cause, unless another was first. REQUIRES: the lock.
  Error lost(Errc code, std::string_view what, const std::string& cause) {
    if (!meeting_->cause) meeting_->cause = cause;
    if (!error_) error_ = roll_.seen(code, what, *meeting_->cause);
    meeting_->changed.notify_all();
    return *error_;
  }

  std::shared_ptr<Meeting> meeting_;
  bool has_met_ = false;
  uint64_t operations_ = 0;
  std::optional<Error> error_;  // under the meeting's lock
};

}  // namespace

Expected<std::unique_ptr<Collectives>> join_in_memory(const GroupOptions& options) {
  auto meeting = std::static_pointer_cast<Meeting>(options.rendezvous->share(
      options.name, [&] { return std::make_shared<Meeting>(options.size); }));
  if (meeting == nullptr)
    return Error{Errc::unsupported,
                 fmt::format("group {}: backend memory joins threads of one process; ranks in "
                             "several processes choose gloo",
                             options.name)};
  auto group = std::make_unique<MemoryGroup>(options, std::move(meeting));
  COHORT_TRY(group->meet());
  return std::unique_ptr<Collectives>(std::move(group));
}

}  // namespace cohort::compute
