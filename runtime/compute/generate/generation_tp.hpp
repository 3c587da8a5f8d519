#pragma once
/// The two kinds of lane in a tensor-parallel group. On rank 0 a GenerationLane computes through a
/// TpLeader, which announces each iteration first. On the other ranks a TpFollower is the lane: one
/// thread that computes what is announced, inside the ServeGate. Owner: the generation engine.
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/compute/generate/generation_lane.hpp"
#include "runtime/compute/generate/tp_link.hpp"

namespace cohort::compute {

struct TpHooks {
  std::function<TpState(int32_t block_count)> state;  // called inside the gate
  std::function<void(const Error&)> lost;             // the group is gone
};

/// A lane runner of rank 0. Thread: its lane.
class TpLeader final : public LaneRunner {
 public:
  TpLeader(TpLink& link, std::unique_ptr<LaneRunner> runner, int32_t block_count, TpHooks hooks);
  Expected<LogitsView> forward(std::span<const BatchChunk> batch) override;

 private:
  TpLink& link_;
  std::unique_ptr<LaneRunner> runner_;
  int32_t block_count_;
  TpHooks hooks_;
};

class TpFollower {
 public:
  TpFollower(TpLink& link, ServeGate& gate, TpHooks hooks);
  ~TpFollower();  // stops
  TpFollower(const TpFollower&) = delete;
  TpFollower& operator=(const TpFollower&) = delete;

  void start();
  /// Leaves the group, also in the middle of a wait. The leader finds a rank gone, unless it has
  /// ended the lane before.
  void request_stop();
  void join();
  /// REQUIRES: the gate is paused, or the thread has not started.
  void set_cache(std::unique_ptr<LaneRunner> runner, int32_t block_count);
  WorkerStats stats() const;

 private:
  void run();
  Expected<void> iterate(std::span<const BatchChunk> batch);

  TpLink& link_;
  ServeGate& gate_;
  TpHooks hooks_;
  std::unique_ptr<LaneRunner> runner_;
  int32_t block_count_ = 0;
  mutable std::mutex mutex_;
  WorkerStats stats_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace cohort::compute
