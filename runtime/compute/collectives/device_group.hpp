#pragma once
/// A group of ranks whose bytes lie on devices, over an engine that exchanges them (NCCL, HCCL).
/// The engine starts an exchange and is asked whether it is done; waits, timeouts, who is missing
/// and what happens after an error are here, and alike for every engine (COLL-1, COLL-2). Private
/// to the folder; torch-free. Owner and threads: as Collectives.
#include <functional>
#include <memory>

#include "runtime/compute/collectives/group_roll.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {

/// One exchange at a time. Spans are of the group's device; those of the own rank are empty.
class ExchangeEngine {
 public:
  virtual ~ExchangeEngine() = default;
  /// What the current thread's stream has to do comes before the exchange.
  virtual Expected<void> start(Sent send, Received receive) = 0;
  /// True: what was received can be read by any stream.
  virtual Expected<bool> is_done() = 0;
  /// The group is of no more use, and its peers may be gone: must not wait for them.
  virtual void abandon() = 0;
};

/// Called when every rank has come; may itself talk to the others through options.rendezvous.
using EngineMaker =
    std::function<Expected<std::unique_ptr<ExchangeEngine>>(const GroupOptions& options)>;

/// Joins a group over an engine. Errc::timeout names the ranks that have not come. `make` is not
/// called for a group of one.
Expected<std::unique_ptr<Collectives>> join_devices(const GroupOptions& options,
                                                    const EngineMaker& make);

}  // namespace cohort::compute
