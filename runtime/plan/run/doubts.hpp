#pragma once
/// Errors that may be the consequence of a loss: each waits for the word of the node, which watches
/// the processes. The first that has no excuse when its time is over is the cause that ends the
/// run. Pure. Owner: Run. Bound: the errors of verdict_wait_s.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/plan/run/events.hpp"

namespace cohort::plan::run {

/// The explanation of an error.
enum class Excuse : uint8_t {
  loss,   // a process that was lost around that time
  lease,  // the loss of the replica that had the lease
  none,   // nothing: it only leaves others the first word
};

struct Doubt {
  Failure failure;
  Excuse excuse = Excuse::none;
  uint64_t lease = 0;  // of Excuse::lease
  double since = 0;
};

class Doubts {
 public:
  explicit Doubts(double wait_s) : wait_s_(wait_s) {}
  void add(Doubt doubt) { doubts_.push_back(std::move(doubt)); }
  /// A process has ended by itself.
  void lost(double now) { last_loss_ = now; }
  /// Returns the first failure that nothing explains, of those whose time is over.
  std::optional<Failure> verdict(double now, const std::function<bool(uint64_t)>& is_open);
  /// Returns when verdict() has something to do.
  std::optional<double> due() const;

 private:
  double wait_s_;
  std::optional<double> last_loss_;
  std::vector<Doubt> doubts_;  // in the order in which they were told
};

}  // namespace cohort::plan::run
