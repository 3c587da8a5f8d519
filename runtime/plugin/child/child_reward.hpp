#pragma once
/// A reward whose plugin runs in sandboxed children. score() sends the rows of a call to one child
/// and bounds each by the deadline; a child that hangs, dies or answers garbage is ended with its
/// whole process tree and costs the rows that it had not answered. Each row that was left without
/// an answer, or whose call raised, is asked for once more, alone. Owner: its opener. Threads:
/// score() from concurrency(), the rest as in tasks::Reward. PLUGIN-5: a row takes at most its
/// deadline (a batch function: rows x deadline), and once more alone. A second failure is that
/// row's error, and no other row's.
#include <memory>
#include <string>
#include <vector>

#include "runtime/plugin/child/plugin_pool.hpp"
#include "runtime/plugin/child/plugin_version.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

class ChildReward final : public tasks::Reward {
 public:
  /// Starts the children; each has loaded the plugin when it returns. Errors as read_version() and
  /// PluginPool::open().
  static Expected<std::shared_ptr<ChildReward>> open(const PluginSpec& spec);

  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override;
  uint32_t concurrency() const override { return pool_->workers(); }
  Expected<bool> reload() override;
  void stop() override { pool_->stop(); }

  Loaded loaded() const { return pool_->loaded(); }
  const PluginPool& pool() const { return *pool_; }

 private:
  class Call;
  ChildReward(PluginSpec file, std::string fingerprint, std::unique_ptr<PluginPool> pool);

  PluginSpec file_;
  std::string fingerprint_;
  std::unique_ptr<PluginPool> pool_;
};

}  // namespace cohort::plugin
