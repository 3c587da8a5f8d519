#include "actors/roles/reward_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/waits.hpp"

namespace cohort::actors {

RewardPool::RewardPool(std::string name, std::shared_ptr<tasks::Reward> reward,
                       std::function<void(std::vector<Scored>)> on_scored)
    : name_(std::move(name)), reward_(std::move(reward)), on_scored_(std::move(on_scored)) {
  for (uint32_t i = 0; i < std::max(1U, reward_->concurrency()); ++i)
    threads_.emplace_back([this] { run(); });
}

RewardPool::~RewardPool() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  reward_->stop();
  for (std::thread& thread : threads_) thread.join();
}

void RewardPool::submit(std::vector<ScoreJob> jobs) {
  {
    std::lock_guard lock(mutex_);
    for (ScoreJob& job : jobs) waiting_.push_back(std::move(job));
  }
  changed_.notify_all();
}

// An even share of what waits: a call with many rows costs less per row, and no thread idles.
std::vector<ScoreJob> RewardPool::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
  std::vector<ScoreJob> jobs;
  if (is_stopping_) return jobs;
  size_t share = (waiting_.size() + threads_.size() - 1) / threads_.size();
  for (size_t i = std::min(share, k_call_rows_max); i > 0; --i) {
    jobs.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return jobs;
}

void RewardPool::run() {
  for (;;) {
    std::vector<ScoreJob> jobs = take();
    if (jobs.empty()) return;
    std::vector<tasks::RewardRow> rows;
    for (ScoreJob& job : jobs) rows.push_back(std::move(job.row));
    Wait wait({WaitLevel::role, "reward " + name_,
               fmt::format("{} {} in flight", rows.size(), rows.size() == 1 ? "row" : "rows"),
               "their scores"});
    std::vector<tasks::RewardResult> results = reward_->score(rows);
    wait.end();
    std::vector<Scored> scored;
    for (size_t i = 0; i < jobs.size(); ++i) {
      Scored each{jobs[i].place, {}};
      if (i < results.size())
        each.result = std::move(results[i]);
      else
        each.result.error = "the reward gave fewer results than rows";
      scored.push_back(std::move(each));
    }
    on_scored_(std::move(scored));
  }
}

}  // namespace cohort::actors
