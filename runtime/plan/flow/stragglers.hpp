#pragma once
/// Groups that are open for too long, and replicas that others outrun. Pure: the time is an
/// argument. Owner: the driver. Bound: GroupClock: the groups of a round; SlowReplicas: two numbers
/// a replica.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace cohort::plan {

struct StragglerOptions {
  double factor = 3;   // times the median; 0: nothing is ever late
  double floor_s = 1;  // and not before
};

/// How long the groups of one round take.
/// STRAGGLER-1: nothing is late before a group of the round has ended.
class GroupClock {
 public:
  explicit GroupClock(StragglerOptions options) : options_(options) {}
  void opened(uint64_t group, double now) { open_[group] = now; }
  /// It has been played, at last.
  void ended(uint64_t group, double now);
  /// It was taken back, and waits.
  void closed(uint64_t group) { open_.erase(group); }
  /// Returns the groups that have been open for longer than factor times the median of those that
  /// ended, and floor_s; those that are open longest first.
  std::vector<uint64_t> late(double now) const;
  /// Returns how long the middle one of those that ended took; 0: none has.
  double median_s() const;

 private:
  StragglerOptions options_;
  std::map<uint64_t, double> open_;  // since when
  std::vector<double> took_s_;       // ascending
};

/// Which replicas get no groups for a while.
/// STRAGGLER-2: a replica rests after k_rounds rounds in a row in which another has finished first
/// what it had, for k_rest_rounds rounds; then it begins anew.
class SlowReplicas {
 public:
  static constexpr uint32_t k_rounds = 3;
  static constexpr uint32_t k_rest_rounds = 10;

  explicit SlowReplicas(size_t replicas) : replicas_(replicas) {}
  /// Another replica has finished a group first that this one has.
  void outrun(size_t replica) { replicas_.at(replica).is_outrun = true; }
  /// A new process has its place.
  void renew(size_t replica) { replicas_.at(replica) = {}; }
  bool is_resting(size_t replica) const { return replicas_.at(replica).rest_rounds > 0; }
  /// Returns those that rest from now on. `has_played`: by replica.
  std::vector<size_t> end_round(const std::vector<bool>& has_played);

 private:
  struct Replica {
    bool is_outrun = false;      // in this round
    uint32_t outrun_rounds = 0;  // in a row
    uint32_t rest_rounds = 0;    // still to come
  };
  std::vector<Replica> replicas_;
};

}  // namespace cohort::plan
