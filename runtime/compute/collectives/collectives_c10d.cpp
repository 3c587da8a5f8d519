// Collectives on c10d's Gloo. Every operation is made of c10d's send and recv straight between the
// callers' bytes: nothing is staged, and a wait is for one known rank, so that its loss has a name.
// The first rank to see a loss writes it to the rendezvous and closes its connections, which wakes
// the others; they read the cause there instead of blaming who woke them.
#define USE_C10D_GLOO
#include "runtime/tensor/torch.hpp"
// torch.hpp first: ivalue.h before any other header of ATen
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

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

class C10dGroup final : public Collectives {
 public:
  explicit C10dGroup(GroupOptions options) : options_(std::move(options)), roll_(options_) {}

  Expected<void> connect() {
    const Milliseconds timeout(options_.timeout_ms);
    COHORT_ASSIGN(std::vector<int> missing, roll_.missing_from("join", timeout));
    if (!missing.empty())
      return Error{Errc::timeout, fmt::format("join of group {}: {} waited {} ms, {} did not come",
                                              options_.name, roll_.name_of(rank()),
                                              options_.timeout_ms, roll_.names_of(missing))};
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
                               options_.interface, roll_.name_of(rank()), first_line(e))};
    }
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    return {};
  }

  ~C10dGroup() override {
    watcher_.request_stop();
    if (watcher_.joinable()) watcher_.join();
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  uint64_t bytes_sent() const override { return bytes_sent_; }

  Expected<void> all_to_all(std::span<const std::span<const std::byte>> send,
                            std::span<const std::span<std::byte>> receive) override {
    return exchange("all_to_all", send, receive);
  }

  Expected<void> all_gather(std::span<const std::byte> mine,
                            std::span<const std::span<std::byte>> all) override {
    std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()), mine);
    return exchange("all_gather", send, all);
  }

  Expected<void> broadcast(std::span<std::byte> bytes, int root) override {
    std::vector<std::span<const std::byte>> send(static_cast<size_t>(size()));
    std::vector<std::span<std::byte>> receive(static_cast<size_t>(size()));
    if (rank() == root) {
      send.assign(send.size(), bytes);
      receive[static_cast<size_t>(root)] = bytes;
    } else if (root >= 0 && root < size()) {
      receive[static_cast<size_t>(root)] = bytes;
    }
    return exchange("broadcast", send, receive);
  }

  Expected<void> barrier() override {
    std::byte mine{1};
    std::vector<std::byte> theirs(static_cast<size_t>(size()));
    std::vector<std::span<std::byte>> all;
    for (std::byte& one : theirs) all.emplace_back(&one, 1);
    std::vector<std::span<const std::byte>> send(all.size(), std::span(&mine, 1));
    return exchange("barrier", send, all);
  }

  void abort(const std::string& reason) override {
    std::lock_guard lock(state_);
    if (error_) return;
    roll_.agree_on(fmt::format("{} stopped: {}", roll_.name_of(rank()), reason));
    error_ = Error{Errc::cancelled,
                   fmt::format("group {} of {}: {}", options_.name, roll_.name_of(rank()), reason)};
    if (waited_for_) waited_for_->abort();
    if (!is_busy_) group_.reset();
  }

 private:
  Expected<void> exchange(const char* what, std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive) {
    const auto ranks = static_cast<size_t>(size()), own = static_cast<size_t>(rank());
    if (send.size() != ranks || receive.size() != ranks || send[own].size() < receive[own].size())
      return Error{Errc::invalid_argument,
                   fmt::format("{} in group {}: {} ranks, {} spans to send and {} to receive, own "
                               "{} and {} bytes",
                               what, options_.name, ranks, send.size(), receive.size(),
                               send[own].size(), receive[own].size())};
    {
      std::lock_guard lock(state_);
      if (error_) return *error_;
      is_busy_ = true;
      what_ = what;
    }
    if (receive[own].data() != send[own].data() && !receive[own].empty())
      std::memmove(receive[own].data(), send[own].data(), receive[own].size());
    Expected<void> done = ranks == 1 ? Expected<void>() : exchange_with_peers(what, send, receive);
    std::lock_guard lock(state_);
    is_busy_ = false;
    if (error_) {  // aborted meanwhile, or failed just now
      group_.reset();
      return *error_;
    }
    return done;
  }

  /// One operation in flight to or from one rank.
  struct Pending {
    Work work;
    int peer = 0;
  };

  /// Nearest ranks first, each starting with its next one, so that no rank is everybody's first.
  Expected<void> exchange_with_peers(const char* what,
                                     std::span<const std::span<const std::byte>> send,
                                     std::span<const std::span<std::byte>> receive) {
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
      return lost(what, peer, first_line(e));
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
      error_ = with_cause(Errc::closed, what_, *cause);
      waited_for_->abort();
    }
  }

  Error with_cause(Errc code, const char* what, const std::string& cause) const {
    return {code, fmt::format("{} in group {}, seen by {}: {}", what, options_.name,
                              roll_.name_of(rank()), cause)};
  }

  /// Finds out what happened, tells the others, and only then closes the connections (exchange).
  Error lost(const char* what, int peer, const std::string& text) {
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
      error_ = with_cause(is_timeout ? Errc::timeout : Errc::closed, what,
                          fmt::format("{} ({})", cause, text));
    return *error_;
  }

  GroupOptions options_;
  GroupRoll roll_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::atomic<uint64_t> bytes_sent_{0};
  uint64_t operations_ = 0;
  std::mutex state_;
  bool is_busy_ = false;
  const char* what_ = "";
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
