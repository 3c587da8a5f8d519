#pragma once
/// A group of ranks whose bytes lie on devices, over an engine that exchanges them (NCCL, HCCL).
/// The engine starts an exchange and is asked whether it is done; waits, timeouts, who is missing
/// and what happens after an error are here, and alike for every engine (COLL-1, COLL-2). Private
/// to the folder; torch-free. Owner and threads: as Collectives.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/collectives/group_roll.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {

/// One exchange at a time. Spans are of the group's device; those of the own rank are empty.
class ExchangeEngine {
 public:
  virtual ~ExchangeEngine() = default;
  /// What the current thread's stream has to do comes before the exchange.
  virtual Expected<void> start(std::span<const std::span<const std::byte>> send,
                               std::span<const std::span<std::byte>> receive) = 0;
  /// True: what was received can be read by any stream.
  virtual Expected<bool> is_done() = 0;
  /// The group is of no more use, and its peers may be gone: must not wait for them.
  virtual void abandon() = 0;
};

/// Called when every rank has come; may itself talk to the others through options.rendezvous.
using EngineMaker =
    std::function<Expected<std::unique_ptr<ExchangeEngine>>(const GroupOptions& options)>;

class DeviceGroup final : public Collectives {
 public:
  /// Errc::timeout names the ranks that have not come. `make` is not called for a group of one.
  static Expected<std::unique_ptr<Collectives>> join(const GroupOptions& options,
                                                     const EngineMaker& make);
  ~DeviceGroup() override;

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  uint64_t bytes_sent() const override { return bytes_sent_; }
  Expected<void> all_to_all(std::span<const std::span<const std::byte>> send,
                            std::span<const std::span<std::byte>> receive) override;
  Expected<void> all_gather(std::span<const std::byte> mine,
                            std::span<const std::span<std::byte>> all) override;
  Expected<void> broadcast(std::span<std::byte> bytes, int root) override;
  Expected<void> barrier() override;
  void abort(const std::string& reason) override;

 private:
  explicit DeviceGroup(const GroupOptions& options) : options_(options), roll_(options_) {}
  Expected<void> connect(const EngineMaker& make);
  Expected<void> exchange(const char* what, std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive);
  Expected<void> wait(const char* what);
  std::optional<Error> error_so_far() const;
  Error lost(const char* what, Errc code, const std::string& text);

  GroupOptions options_;
  GroupRoll roll_;
  std::unique_ptr<ExchangeEngine> engine_;
  DeviceBlock marks_;  // of barriers: a byte to, and a byte from, every rank
  std::atomic<uint64_t> bytes_sent_{0};
  mutable std::mutex state_;
  std::optional<Error> error_;
};

}  // namespace cohort::compute
