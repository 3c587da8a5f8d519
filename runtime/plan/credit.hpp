#pragma once
/// A window of bytes between a producer and a slow consumer. Pure; one actor owns it.
///
/// FLOW-4: what is taken and not given back never exceeds the limit; taking and giving back are
/// idempotent per id, so a retried message neither leaks nor doubles credit. Bound: one entry per
/// outstanding id.
#include <cstdint>
#include <map>

#include "runtime/base/error.hpp"

namespace cohort::plan {

class CreditWindow {
 public:
  explicit CreditWindow(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  /// Returns Errc::backpressure if the bytes do not fit now, Errc::capacity if they never can, and
  /// Errc::invalid_argument for a known id with other bytes.
  Expected<void> take(uint64_t id, uint64_t bytes);
  /// Returns the bytes that came free, 0 for an id that is not outstanding.
  uint64_t give_back(uint64_t id);
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t free_bytes() const { return limit_bytes_ - used_bytes_; }
  size_t outstanding() const { return taken_.size(); }
  /// Aborts the process if FLOW-4 does not hold.
  void assert_invariants() const;

 private:
  uint64_t limit_bytes_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> taken_;
};

}  // namespace cohort::plan
