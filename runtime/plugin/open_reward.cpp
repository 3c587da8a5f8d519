#include "runtime/plugin/open_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/plugin/child_reward.hpp"
#include "runtime/plugin/native_reward.hpp"
#include "runtime/plugin/plugin_version.hpp"

namespace cohort::plugin {
namespace {

PluginFile file_of(const RewardSpec& spec) {
  return {.plugin = spec.reward,
          .config = spec.config,
          .timeout_s = spec.timeout_s,
          .mode = spec.mode,
          .memory_bytes = spec.memory_bytes,
          .readable = spec.readable,
          .has_network = spec.has_network,
          .python = spec.python};
}

Expected<std::shared_ptr<tasks::Reward>> open_plugin(const RewardSpec& spec) {
  if (is_native_plugin(spec.reward) && !spec.is_isolated)
    return load_native_reward(spec.reward, spec.config.empty() ? "{}" : spec.config);
  COHORT_ASSIGN(std::shared_ptr<tasks::Reward> reward,
                ChildReward::open(file_of(spec), spec.workers));
  return reward;
}

}  // namespace

Expected<std::shared_ptr<tasks::Reward>> open_reward(const RewardSpec& spec) {
  if (!(spec.timeout_s > 0) || spec.workers == 0)
    return Error{Errc::config,
                 fmt::format("{}: timeout_s is above 0 and workers 1 or more", spec.reward)};
  if (is_native_plugin(spec.reward) || is_python_plugin(spec.reward)) return open_plugin(spec);
  return Error{Errc::config, fmt::format("no reward is called '{}': a built-in one ({}), "
                                         "path.py:function or path.so",
                                         spec.reward, fmt::join(reward_names(), ", "))};
}

std::vector<std::string> reward_names() { return {}; }

}  // namespace cohort::plugin
