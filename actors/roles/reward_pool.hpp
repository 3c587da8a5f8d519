#pragma once
/// Threads that call one reward which waits for something outside: a child process, a server. Jobs
/// are taken in order, several at once when many wait. Owner: the reward actor. Thread-safe.
/// Bound: what waits is at most what the actor's unacknowledged frames hold (FLOW-4). REWARD-2
/// makes every job end; the destructor stops the reward, and what has not begun is dropped.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/tasks/text_reward.hpp"

namespace cohort::actors {

/// Where a result belongs: the frame, the trajectory in it, the reward.
struct ScorePlace {
  uint64_t frame = 0;
  size_t trajectory = 0;
  size_t reward = 0;
};

struct ScoreJob {
  ScorePlace place;
  tasks::RewardRow row;
};

struct Scored {
  ScorePlace place;
  tasks::RewardResult result;
};

class RewardPool {
 public:
  /// `name` is the reward's, for its waits. `on_scored` runs on a thread of the pool: it only sends
  /// a message.
  RewardPool(std::string name, std::shared_ptr<tasks::Reward> reward,
             std::function<void(std::vector<Scored>)> on_scored);
  ~RewardPool();
  RewardPool(const RewardPool&) = delete;
  RewardPool& operator=(const RewardPool&) = delete;
  void submit(std::vector<ScoreJob> jobs);

 private:
  static constexpr size_t k_call_rows_max = 32;
  void run();
  std::vector<ScoreJob> take();

  const std::string name_;
  std::shared_ptr<tasks::Reward> reward_;
  std::function<void(std::vector<Scored>)> on_scored_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ScoreJob> waiting_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cohort::actors
