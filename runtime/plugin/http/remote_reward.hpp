#pragma once
/// remote: rows go to a server as JSON, scores come back. Thread-safe. Internal to runtime/plugin.
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/plugin/http/http_workers.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

class RemoteReward final : public tasks::Reward {
 public:
  RemoteReward(uint32_t batch_rows, HttpPoolOptions server, const HttpWorkersOptions& workers);
  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override;
  uint32_t concurrency() const override { return workers_.workers(); }
  void stop() override { workers_.stop(); }

 private:
  uint32_t batch_rows_;
  std::mutex mutex_;
  std::condition_variable answered_;
  HttpWorkers workers_;  // last: its threads use all of the above
};

/// The body of a request: {"rows": [{id, response, prompt, messages, ground_truth, data_source,
/// columns, response_tokens, is_finished}, …]}.
std::string remote_request(std::span<const tasks::RewardRow> rows);
/// Reads {"results": [a number, or {score, parts, detail, error}, …]} or {"scores": [numbers]} of
/// `count` rows. A bad result is its row's error, a bad reply every row's.
std::vector<tasks::RewardResult> remote_results(std::string_view reply, size_t count);

}  // namespace cohort::plugin
