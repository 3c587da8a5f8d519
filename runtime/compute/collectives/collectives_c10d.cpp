// Collectives on c10d's Gloo. Every operation is made of c10d's send and recv straight between the
// callers' bytes: nothing is staged, and a wait is for one known rank, so that its loss has a name.
// The first rank to see a loss writes it to the rendezvous and closes its connections, which wakes
// the others; they read the cause there instead of blaming who woke them.
#define USE_C10D_GLOO
#include "runtime/tensor/torch.hpp"
// torch.hpp first: ivalue.h before any other header of ATen
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "runtime/base/text.hpp"
#include "runtime/compute/collectives/c10d_store.hpp"
#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/collectives/group_roll.hpp"

namespace cohort::compute {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Work = c10::intrusive_ptr<c10d::Work>;

constexpr int k_watch_ms = 100;   // how often a long wait asks for a cause
constexpr int k_settle_ms = 100;  // how long a loss may look like somebody's timeout

/// c10d wants tensors that can be written; what is sent is only read.
std::vector<at::Tensor> as_tensors(std::span<const std::byte> bytes) {
  return {at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<int64_t>(bytes.size())},
                        at::dtype(at::kByte))};
}

class C10dGroup final : public RollGroup {
 public:
  explicit C10dGroup(GroupOptions options) : RollGroup(std::move(options)) {}

  Expected<void> connect() {
    const Milliseconds timeout(options_.timeout_ms);
    COHORT_TRY(roll_.meet());
    if (size() == 1) return {};
    try {
      auto store =
          c10::make_intrusive<GroupStore>(options_.rendezvous, options_.name + "/gloo/", timeout);
      auto options = c10d::ProcessGroupGloo::Options::create(timeout);
      options->threads = 1;
      options->devices = {c10d::ProcessGroupGloo::createDeviceForInterface(options_.interface)};
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank(), size(), options);
    } catch (const std::exception& e) {
      return Error{Errc::closed,
                   fmt::format("join of group {} over interface {}: {}: {}", options_.name,
                               options_.interface, roll_.name_of(rank()), first_line(e.what()))};
    }
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    return {};
  }

  ~C10dGroup() override {
    watcher_.request_stop();
    if (watcher_.joinable()) watcher_.join();
  }

  void abort(const std::string& reason) override {
    std::lock_guard lock(state_);
    if (error_) return;
    roll_.agree_on(roll_.stopped(reason));
    error_ = roll_.cancelled(reason);
    if (waited_for_) waited_for_->abort();
    if (!is_busy_) group_.reset();
  }

  Expected<void> exchange(Collective operation, Sent send, Received receive) override {
    COHORT_TRY(roll_.check(operation, send, receive));
    const auto own = static_cast<size_t>(rank());
    {
      std::lock_guard lock(state_);
      if (error_) return *error_;
      is_busy_ = true;
      operation_ = to_string(operation);
    }
    if (receive[own].data() != send[own].data() && !receive[own].empty())
      std::memmove(receive[own].data(), send[own].data(), receive[own].size());
    Expected<void> done = size() == 1 ? Expected<void>() : exchange_with_peers(send, receive);
    std::lock_guard lock(state_);
    is_busy_ = false;
    if (error_) {  // aborted meanwhile, or failed just now
      group_.reset();
      return *error_;
    }
    return done;
  }

 private:
  /// One operation in flight to or from one rank.
  struct Pending {
    Work work;
    int peer = 0;
  };

  /// Nearest ranks first, each starting with its next one, so that no rank is everybody's first.
  Expected<void> exchange_with_peers(Sent send, Received receive) {
    const int tag = static_cast<int>(operations_++ & 0x3FFFFFFF);
    std::vector<Pending> pending;
    int peer = rank();
    try {
      for (int i = 1; i < size(); ++i) {
        peer = (rank() + size() - i) % size();
        const auto to = receive[static_cast<size_t>(peer)];
        if (to.empty()) continue;
        auto tensors = as_tensors(to);
        pending.push_back({group_->recv(tensors, peer, tag), peer});
      }
      for (int i = 1; i < size(); ++i) {
        peer = (rank() + i) % size();
        const auto from = send[static_cast<size_t>(peer)];
        if (from.empty()) continue;
        auto tensors = as_tensors(from);
        pending.push_back({group_->send(tensors, peer, tag), peer});
        bytes_sent_ += from.size();
      }
      for (const Pending& one : pending) {
        peer = one.peer;
        if (!wait(one.work)) return {};  // aborted: error_ says why
      }
    } catch (const std::exception& e) {
      pending.clear();
      return lost(peer, first_line(e.what()));
    }
    return {};
  }

  bool wait(const Work& work) {
    {
      std::lock_guard lock(state_);
      if (error_) return false;
      waited_for_ = work;
      ++waits_;
    }
    struct Reset {
      C10dGroup& group;
      ~Reset() {
        std::lock_guard lock(group.state_);
        group.waited_for_.reset();
      }
    } reset{*this};
    return work->wait(Milliseconds(options_.timeout_ms));
  }

  /// Ends a long wait when another rank has told a cause: the ranks that are waited for may be
  /// alive. Looks now and then instead of being woken by every wait.
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(state_);
    uint64_t seen = 0;
    for (;;) {
      changed_.wait_for(lock, stop, Milliseconds(k_watch_ms), [] { return false; });
      if (stop.stop_requested()) return;
      const bool is_long = waited_for_ && waits_ == seen;
      seen = waits_;
      if (!is_long || error_) continue;
      lock.unlock();
      const auto cause = roll_.cause();
      lock.lock();
      if (!cause || error_ || !waited_for_) continue;
      error_ = roll_.seen(Errc::closed, operation_, *cause);
      waited_for_->abort();
    }
  }

  /// Finds out what happened, tells the others, and only then closes the connections (exchange).
  Error lost(int peer, const std::string& text) {
    {
      std::lock_guard lock(state_);
      if (error_) return *error_;
    }
    bool is_timeout =
        text.find("imed out") != std::string::npos || text.find("timeout") != std::string::npos;
    if (!is_timeout) is_timeout = roll_.is_called_within(Milliseconds(k_settle_ms));
    std::string cause = fmt::format("{} is gone", roll_.name_of(peer));
    if (is_timeout) {
      roll_.call();
      auto missing = roll_.missing_from("awake", Milliseconds(k_roll_call_ms));
      const bool is_known = missing && !missing->empty();
      cause = fmt::format("{} did not answer within {} ms",
                          is_known ? roll_.names_of(*missing) : roll_.name_of(peer),
                          options_.timeout_ms);
    }
    cause = roll_.agree_on(cause);
    std::lock_guard lock(state_);
    if (!error_)
      error_ = roll_.seen(is_timeout ? Errc::timeout : Errc::closed, operation_,
                          fmt::format("{} ({})", cause, text));
    return *error_;
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  uint64_t operations_ = 0;
  std::mutex state_;
  bool is_busy_ = false;
  std::string_view operation_;
  Work waited_for_;
  uint64_t waits_ = 0;
  std::optional<Error> error_;
  std::condition_variable_any changed_;
  std::jthread watcher_;
};

/// Gloo writes to sockets without MSG_NOSIGNAL and expects Python's setting, where the loss of a
/// peer is an error of the write and not the end of the process.
void ignore_sigpipe() {
  struct sigaction action = {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

Expected<std::unique_ptr<Collectives>> join_gloo(const GroupOptions& options) {
  ignore_sigpipe();
  auto group = std::make_unique<C10dGroup>(options);
  COHORT_TRY(group->connect());
  return std::unique_ptr<Collectives>(std::move(group));
}

}  // namespace cohort::compute
