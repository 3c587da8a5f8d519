#include "runtime/compute/collectives/device_group.hpp"

#include <mutex>

namespace cohort::compute {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds k_watch(100);  // how often a long wait asks for a cause
constexpr Milliseconds k_spin(2);     // before a wait sleeps between its looks
constexpr std::chrono::microseconds k_sleep(50);

class DeviceGroup final : public RollGroup {
 public:
  explicit DeviceGroup(const GroupOptions& options) : RollGroup(options) {}
  ~DeviceGroup() override {
    if (engine_ && error_so_far()) engine_->abandon();
  }

  Expected<void> connect(const EngineMaker& make) {
    COHORT_TRY(roll_.meet());
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

  Expected<void> barrier() override {
    const auto ranks = static_cast<size_t>(size());
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    for (size_t r = 0; ranks > 1 && r < ranks; ++r) {
      send[r] = {marks_.data() + r, 1};
      receive[r] = {marks_.data() + ranks + r, 1};
    }
    return exchange(Collective::barrier, send, receive);
  }

  void abort(const std::string& reason) override {
    std::lock_guard lock(state_);
    if (error_) return;
    roll_.agree_on(roll_.stopped(reason));
    error_ = roll_.cancelled(reason);
  }

  Expected<void> exchange(Collective operation, Sent send, Received receive) override {
    COHORT_TRY(roll_.check(operation, send, receive));
    const auto own = static_cast<size_t>(rank());
    if (auto error = error_so_far()) return *error;
    if (receive[own].data() != send[own].data())
      COHORT_TRY(options_.device->copy(receive[own].data(), send[own].data(), receive[own].size()));
    if (size() == 1) return {};
    std::vector<std::span<const std::byte>> from(send.begin(), send.end());
    std::vector<std::span<std::byte>> to(receive.begin(), receive.end());
    from[own] = {};
    to[own] = {};
    for (const auto& bytes : from) bytes_sent_ += bytes.size();
    if (auto started = engine_->start(from, to); !started)
      return lost(operation, Errc::closed, started.error().detail);
    return wait(operation);
  }

 private:
  Expected<void> wait(Collective operation) {
    const auto begin = Clock::now();
    auto asked = begin;
    for (;;) {
      if (auto error = error_so_far()) return *error;
      const auto done = engine_->is_done();
      if (!done) return lost(operation, Errc::closed, done.error().detail);
      if (*done) return {};
      const auto now = Clock::now();
      if (now - begin > Milliseconds(options_.timeout_ms))
        return lost(operation, Errc::timeout, fmt::format("{} ms passed", options_.timeout_ms));
      if (now - asked > k_watch) {
        asked = now;
        if (const auto cause = roll_.cause()) return lost(operation, Errc::closed, *cause);
      }
      if (now - begin > k_spin) std::this_thread::sleep_for(k_sleep);
    }
  }

  std::optional<Error> error_so_far() const {
    std::lock_guard lock(state_);
    return error_;
  }

  /// The engines do not say who is gone: a roll call does.
  Error lost(Collective operation, Errc code, const std::string& text) {
    std::string cause = text;
    if (!roll_.cause()) {
      roll_.call();
      const auto missing = roll_.missing_from("awake", Milliseconds(k_roll_call_ms));
      if (missing && !missing->empty())
        cause = fmt::format("{} did not answer ({})", roll_.names_of(*missing), text);
    }
    cause = roll_.agree_on(cause);
    std::lock_guard lock(state_);
    if (!error_) error_ = roll_.seen(code, to_string(operation), cause);
    return *error_;
  }

  std::unique_ptr<ExchangeEngine> engine_;
  DeviceBlock marks_;  // of barriers: a byte to, and a byte from, every rank
  mutable std::mutex state_;
  std::optional<Error> error_;
};

}  // namespace

Expected<std::unique_ptr<Collectives>> join_devices(const GroupOptions& options,
                                                    const EngineMaker& make) {
  auto group = std::make_unique<DeviceGroup>(options);
  COHORT_TRY(group->connect(make));
  return std::unique_ptr<Collectives>(std::move(group));
}

}  // namespace cohort::compute
