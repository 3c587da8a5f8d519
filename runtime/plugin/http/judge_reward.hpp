#pragma once
/// llm_judge behind its options: rows become chat completions, replies become scores. Equal
/// requests are asked once: while one is under way the others wait for it, later ones find its
/// score in a cache. Errors are not cached. Thread-safe. Bound: cache_rows results, the oldest goes
/// first. Internal to runtime/plugin.
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plugin/http/http_workers.hpp"
#include "runtime/plugin/http/judge_text.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

struct JudgeOptions {
  std::string model;
  std::string system;  // text of a system message; empty: none
  double temperature = 0;
  uint32_t max_tokens = 512;
  double scale = 0;             // of "Score: x"; 0: ROLL's rule
  uint32_t cache_rows = 65536;  // 0: no cache
};

class JudgeReward final : public tasks::Reward {
 public:
  JudgeReward(JudgeOptions options, JudgeTemplate prompt, HttpPoolOptions server,
              const HttpWorkersOptions& workers);
  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override;
  uint32_t concurrency() const override { return workers_.workers(); }
  void stop() override { workers_.stop(); }

 private:
  using Key = std::array<uint64_t, 2>;  // xxh3-128 of the request
  struct Waiter {
    tasks::RewardResult* result = nullptr;
    size_t* left = nullptr;  // results that its score() still waits for
  };
  std::string request_of(const tasks::RewardRow& row) const;
  tasks::RewardResult result_of(const Expected<std::string>& reply) const;
  /// Returns whether the request is to be sent; otherwise it is answered, or will be.
  bool begin(const Key& key, Waiter waiter);
  void finish(const Key& key, const Expected<std::string>& reply);

  JudgeOptions options_;
  JudgeTemplate prompt_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<Key, std::vector<Waiter>> asked_;
  std::map<Key, tasks::RewardResult> cache_;
  std::deque<Key> cached_;  // oldest first
  HttpWorkers workers_;     // last: its threads use all of the above
};

}  // namespace cohort::plugin
