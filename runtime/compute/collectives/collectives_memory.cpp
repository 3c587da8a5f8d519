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

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {
namespace {

using Clock = std::chrono::steady_clock;
using Sent = std::span<const std::span<const std::byte>>;
using Received = std::span<const std::span<std::byte>>;

/// What a rank sends in one operation. It lies in the meeting, not with the rank: a reader may be
/// at it when the rank has given up and gone.
struct Box {
  const char* what = "";
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

class MemoryGroup final : public Collectives {
 public:
  MemoryGroup(GroupOptions options, std::shared_ptr<Meeting> meeting)
      : options_(std::move(options)), meeting_(std::move(meeting)) {}
  ~MemoryGroup() override {
    std::lock_guard lock(meeting_->mutex);
    if (!has_met_) return;  // the others name who did not come, not who gave up first
    self().presence = Member::Presence::gone;
    meeting_->changed.notify_all();
  }

  /// Waits for all ranks to come.
  Expected<void> meet();

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  uint64_t bytes_sent() const override { return bytes_sent_; }
  Expected<void> all_to_all(Sent send, Received receive) override {
    return exchange("all_to_all", send, receive);
  }
  Expected<void> all_gather(std::span<const std::byte> mine, Received all) override {
    const std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()), mine);
    return exchange("all_gather", send, all);
  }
  Expected<void> broadcast(std::span<std::byte> bytes, int root) override;
  Expected<void> barrier() override;
  void abort(const std::string& reason) override;

 private:
  Member& self() { return meeting_->members[static_cast<size_t>(rank())]; }
  std::string name_of(int rank) const;
  std::string names_of(const std::vector<int>& ranks) const;
  Expected<void> exchange(const char* what, Sent send, Received receive);
  static void fill(Box& box, const char* what, Sent send);
  Expected<void> check_received(const char* what, uint64_t operation, Received receive);
  template <class IsReady>
  Expected<std::vector<int>> missing(std::unique_lock<std::mutex>& lock, const char* what,
                                     IsReady is_ready);
  template <class IsReady>
  Expected<void> wait(std::unique_lock<std::mutex>& lock, const char* what, IsReady is_ready);
  Error lost(Errc code, const char* what, const std::string& cause);

  GroupOptions options_;
  std::shared_ptr<Meeting> meeting_;
  bool has_met_ = false;
  uint64_t operations_ = 0;
  uint64_t bytes_sent_ = 0;
  std::optional<Error> error_;  // under the meeting's lock
};

std::string MemoryGroup::name_of(int rank) const {
  const auto at = static_cast<size_t>(rank);
  if (at >= options_.labels.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({})", rank, options_.labels[at]);
}

std::string MemoryGroup::names_of(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (int one : ranks) names.push_back(name_of(one));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Tells everybody the cause, unless another was first. REQUIRES: the lock.
Error MemoryGroup::lost(Errc code, const char* what, const std::string& cause) {
  if (!meeting_->cause) meeting_->cause = cause;
  if (!error_)
    error_ = Error{code, fmt::format("{} in group {}, seen by {}: {}", what, options_.name,
                                     name_of(rank()), *meeting_->cause)};
  meeting_->changed.notify_all();
  return *error_;
}

/// Sleeps until is_ready(rank, member) holds for all other ranks, or one of them is gone, or the
/// time is over. Returns those it does not hold for.
template <class IsReady>
Expected<std::vector<int>> MemoryGroup::missing(std::unique_lock<std::mutex>& lock,
                                                const char* what, IsReady is_ready) {
  const auto end = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
  for (bool is_over = false;;) {
    if (error_) return *error_;
    if (meeting_->cause) return lost(Errc::closed, what, *meeting_->cause);
    std::vector<int> ranks;
    for (int other = 0; other < size(); ++other) {
      const Member& member = meeting_->members[static_cast<size_t>(other)];
      if (other == rank() || is_ready(other, member)) continue;
      if (member.presence == Member::Presence::gone)
        return lost(Errc::closed, what, fmt::format("{} is gone", name_of(other)));
      ranks.push_back(other);
    }
    if (ranks.empty() || is_over) return ranks;
    is_over = meeting_->changed.wait_until(lock, end) == std::cv_status::timeout;
  }
}

/// The same, where a rank that does not come in time is the end of the group.
template <class IsReady>
Expected<void> MemoryGroup::wait(std::unique_lock<std::mutex>& lock, const char* what,
                                 IsReady is_ready) {
  COHORT_ASSIGN(const std::vector<int> ranks, missing(lock, what, is_ready));
  if (ranks.empty()) return {};
  return lost(Errc::timeout, what,
              fmt::format("{} did not answer within {} ms", names_of(ranks), options_.timeout_ms));
}

Expected<void> MemoryGroup::meet() {
  std::unique_lock lock(meeting_->mutex);
  if (meeting_->members.size() != static_cast<size_t>(size()) ||
      self().presence != Member::Presence::expected)
    return Error{Errc::invalid_argument,
                 fmt::format("join of group {}: {} of {} has joined before, or with another size",
                             options_.name, name_of(rank()), size())};
  self().presence = Member::Presence::here;
  meeting_->changed.notify_all();
  COHORT_ASSIGN(const std::vector<int> ranks, missing(lock, "join", [](int, const Member& member) {
                  return member.presence == Member::Presence::here;
                }));
  has_met_ = ranks.empty();
  if (has_met_) return {};
  return Error{Errc::timeout,
               fmt::format("join of group {}: {} waited {} ms, {} did not come", options_.name,
                           name_of(rank()), options_.timeout_ms, names_of(ranks))};
}

/// Copies what is sent to the box of the operation, what goes to several ranks once. Nobody reads
/// that box now.
void MemoryGroup::fill(Box& box, const char* what, Sent send) {
  const auto is_repeat = [&](size_t r) { return r > 0 && send[r].data() == send[r - 1].data(); };
  size_t total = 0;
  for (size_t r = 0; r < send.size(); ++r) total += is_repeat(r) ? 0 : send[r].size();
  box.bytes.resize(total);
  box.parcels.assign(send.size(), {});
  box.what = what;
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
Expected<void> MemoryGroup::check_received(const char* what, uint64_t operation, Received receive) {
  const auto me = static_cast<size_t>(rank());
  for (size_t r = 0; r < receive.size(); ++r) {
    if (r == me || receive[r].empty()) continue;
    const Box& box = meeting_->members[r].boxes[operation % 2];
    const size_t found = box.parcels[me].size();
    if (found == receive[r].size() && std::strcmp(box.what, what) == 0) continue;
    return lost(
        Errc::protocol, what,
        fmt::format("{} sent {} bytes in {}, {} expects {} in {}", name_of(static_cast<int>(r)),
                    found, box.what, name_of(rank()), receive[r].size(), what));
  }
  return {};
}

Expected<void> MemoryGroup::exchange(const char* what, Sent send, Received receive) {
  const uint64_t operation = operations_++;
  const auto me = static_cast<size_t>(rank());
  std::unique_lock lock(meeting_->mutex);
  // The box of this parity is free once everybody has read what was in it two operations ago.
  COHORT_TRY(wait(lock, what, [operation](int, const Member& member) {
    return operation < 2 || member.done + 1 >= operation;
  }));
  lock.unlock();
  fill(self().boxes[operation % 2], what, send);
  for (size_t r = 0; r < send.size(); ++r) bytes_sent_ += r == me ? 0 : send[r].size();
  lock.lock();
  self().posted = operation + 1;
  meeting_->changed.notify_all();
  COHORT_TRY(wait(lock, what, [&](int other, const Member& member) {
    return receive[static_cast<size_t>(other)].empty() || member.posted > operation;
  }));
  COHORT_TRY(check_received(what, operation, receive));
  lock.unlock();
  for (size_t r = 0; r < receive.size(); ++r) {
    if (receive[r].empty() || (r == me && send[r].data() == receive[r].data())) continue;
    const auto from = r == me ? send[r] : meeting_->members[r].boxes[operation % 2].parcels[me];
    std::memcpy(receive[r].data(), from.data(), receive[r].size());
  }
  lock.lock();
  self().done = operation + 1;
  meeting_->changed.notify_all();
  return {};
}

Expected<void> MemoryGroup::broadcast(std::span<std::byte> bytes, int root) {
  std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()));
  std::vector<std::span<std::byte>> receive(static_cast<size_t>(size()));
  if (rank() == root) send.assign(send.size(), bytes);
  if (root >= 0 && root < size()) receive[static_cast<size_t>(root)] = bytes;
  return exchange("broadcast", send, receive);
}

Expected<void> MemoryGroup::barrier() {
  const std::byte mine{1};
  std::vector<std::byte> theirs(static_cast<size_t>(size()));
  std::vector<std::span<std::byte>> all;
  for (std::byte& one : theirs) all.emplace_back(&one, 1);
  const std::vector<std::span<const std::byte>> send(all.size(), std::span(&mine, 1));
  return exchange("barrier", send, all);
}

void MemoryGroup::abort(const std::string& reason) {
  std::lock_guard lock(meeting_->mutex);
  if (error_) return;
  if (!meeting_->cause) meeting_->cause = fmt::format("{} stopped: {}", name_of(rank()), reason);
  error_ = Error{Errc::cancelled,
                 fmt::format("group {} of {}: {}", options_.name, name_of(rank()), reason)};
  meeting_->changed.notify_all();
}

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
