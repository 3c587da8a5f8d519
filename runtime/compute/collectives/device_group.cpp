#include "runtime/compute/collectives/device_group.hpp"

namespace cohort::compute {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

constexpr Milliseconds k_watch(100);  // how often a long wait asks for a cause
constexpr Milliseconds k_spin(2);     // before a wait sleeps between its looks
constexpr std::chrono::microseconds k_sleep(50);

}  // namespace

Expected<std::unique_ptr<Collectives>> DeviceGroup::join(const GroupOptions& options,
                                                         const EngineMaker& make) {
  std::unique_ptr<DeviceGroup> group(new DeviceGroup(options));
  COHORT_TRY(group->connect(make));
  return std::unique_ptr<Collectives>(std::move(group));
}

DeviceGroup::~DeviceGroup() {
  if (engine_ && error_so_far()) engine_->abandon();
}

Expected<void> DeviceGroup::connect(const EngineMaker& make) {
  const Milliseconds timeout(options_.timeout_ms);
  COHORT_ASSIGN(std::vector<int> missing, roll_.missing_from("join", timeout));
  if (!missing.empty())
    return Error{Errc::timeout,
                 fmt::format("join of group {}: {} waited {} ms, {} did not come", options_.name,
                             roll_.name_of(rank()), options_.timeout_ms, roll_.names_of(missing))};
  if (size() == 1) return {};
  COHORT_ASSIGN(marks_, options_.device->allocate(2 * static_cast<uint64_t>(size())));
  auto engine = make(options_);
  if (!engine)
    return engine.error().with_context(fmt::format("join of group {} by {}: {}", options_.name,
                                                   to_string(options_.backend),
                                                   roll_.name_of(rank())));
  engine_ = std::move(*engine);
  return barrier();  // engines connect at the first exchange, in which every rank must take part
}

Expected<void> DeviceGroup::all_to_all(std::span<const Bytes> send,
                                       std::span<const MutableBytes> receive) {
  return exchange("all_to_all", send, receive);
}

Expected<void> DeviceGroup::all_gather(Bytes mine, std::span<const MutableBytes> all) {
  const std::vector<Bytes> send(static_cast<size_t>(size()), mine);
  return exchange("all_gather", send, all);
}

Expected<void> DeviceGroup::broadcast(MutableBytes bytes, int root) {
  std::vector<Bytes> send(static_cast<size_t>(size()));
  std::vector<MutableBytes> receive(static_cast<size_t>(size()));
  if (rank() == root) send.assign(send.size(), bytes);
  if (root >= 0 && root < size()) receive[static_cast<size_t>(root)] = bytes;
  return exchange("broadcast", send, receive);
}

Expected<void> DeviceGroup::barrier() {
  const auto ranks = static_cast<size_t>(size());
  std::vector<Bytes> send(ranks);
  std::vector<MutableBytes> receive(ranks);
  for (size_t r = 0; ranks > 1 && r < ranks; ++r) {
    send[r] = {marks_.data() + r, 1};
    receive[r] = {marks_.data() + ranks + r, 1};
  }
  return exchange("barrier", send, receive);
}

void DeviceGroup::abort(const std::string& reason) {
  std::lock_guard lock(state_);
  if (error_) return;
  roll_.agree_on(fmt::format("{} stopped: {}", roll_.name_of(rank()), reason));
  error_ = Error{Errc::cancelled,
                 fmt::format("group {} of {}: {}", options_.name, roll_.name_of(rank()), reason)};
}

Expected<void> DeviceGroup::exchange(const char* what, std::span<const Bytes> send,
                                     std::span<const MutableBytes> receive) {
  const auto ranks = static_cast<size_t>(size()), own = static_cast<size_t>(rank());
  if (send.size() != ranks || receive.size() != ranks || send[own].size() < receive[own].size())
    return Error{Errc::invalid_argument,
                 fmt::format("{} in group {}: {} ranks, {} spans to send and {} to receive, own "
                             "bytes must fit",
                             what, options_.name, ranks, send.size(), receive.size())};
  if (auto error = error_so_far()) return *error;
  if (receive[own].data() != send[own].data())
    COHORT_TRY(options_.device->copy(receive[own].data(), send[own].data(), receive[own].size()));
  if (size() == 1) return {};
  std::vector<Bytes> from(send.begin(), send.end());
  std::vector<MutableBytes> to(receive.begin(), receive.end());
  from[own] = {};
  to[own] = {};
  for (const Bytes& bytes : from) bytes_sent_ += bytes.size();
  if (auto started = engine_->start(from, to); !started)
    return lost(what, Errc::closed, started.error().detail);
  return wait(what);
}

Expected<void> DeviceGroup::wait(const char* what) {
  const auto begin = Clock::now();
  auto asked = begin;
  for (;;) {
    if (auto error = error_so_far()) return *error;
    const auto done = engine_->is_done();
    if (!done) return lost(what, Errc::closed, done.error().detail);
    if (*done) return {};
    const auto now = Clock::now();
    if (now - begin > Milliseconds(options_.timeout_ms))
      return lost(what, Errc::timeout, fmt::format("{} ms passed", options_.timeout_ms));
    if (now - asked > k_watch) {
      asked = now;
      if (const auto cause = roll_.cause()) return lost(what, Errc::closed, *cause);
    }
    if (now - begin > k_spin) std::this_thread::sleep_for(k_sleep);
  }
}

std::optional<Error> DeviceGroup::error_so_far() const {
  std::lock_guard lock(state_);
  return error_;
}

/// The engines do not say who is gone: a roll call does.
Error DeviceGroup::lost(const char* what, Errc code, const std::string& text) {
  std::string cause = text;
  if (!roll_.cause()) {
    roll_.call();
    const auto missing = roll_.missing_from("awake", Milliseconds(k_roll_call_ms));
    if (missing && !missing->empty())
      cause = fmt::format("{} did not answer ({})", roll_.names_of(*missing), text);
  }
  cause = roll_.agree_on(cause);
  std::lock_guard lock(state_);
  if (!error_)
    error_ = Error{code, fmt::format("{} in group {}, seen by {}: {}", what, options_.name,
                                     roll_.name_of(rank()), cause)};
  return *error_;
}

}  // namespace cohort::compute
