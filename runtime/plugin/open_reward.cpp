#include "runtime/plugin/open_reward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/plugin/child/child_reward.hpp"
#include "runtime/plugin/child/plugin_version.hpp"
#include "runtime/plugin/code/code_reward.hpp"
#include "runtime/plugin/http/http_reward.hpp"
#include "runtime/plugin/native/native_reward.hpp"
#include "runtime/tasks/rule_rewards.hpp"

namespace cohort::plugin {
namespace {

Expected<std::shared_ptr<tasks::Reward>> open_plugin(const PluginSpec& spec) {
  if (is_native_plugin(spec.plugin) && !spec.is_isolated)
    return load_native_reward(spec.plugin, spec.config.empty() ? "{}" : spec.config);
  COHORT_ASSIGN(std::shared_ptr<tasks::Reward> reward, ChildReward::open(spec));
  return reward;
}

Expected<std::shared_ptr<tasks::Reward>> open_built_in(const PluginSpec& spec) {
  if (spec.plugin == "code_sandbox") return make_code_reward(spec.config, spec);
  if (spec.plugin == "llm_judge") return make_llm_judge(spec.config, spec.timeout_s, spec.workers);
  if (spec.plugin == "remote") return make_remote_reward(spec.config, spec.timeout_s, spec.workers);
  COHORT_ASSIGN(std::unique_ptr<tasks::Reward> rule,
                tasks::make_rule_reward(spec.plugin, spec.config));
  return std::shared_ptr<tasks::Reward>(std::move(rule));
}

}  // namespace

Expected<std::shared_ptr<tasks::Reward>> open_reward(const PluginSpec& spec) {
  if (!(spec.timeout_s > 0) || spec.workers == 0)
    return Error{Errc::config,
                 fmt::format("{}: timeout_s is above 0 and workers 1 or more", spec.plugin)};
  if (is_native_plugin(spec.plugin) || is_python_plugin(spec.plugin)) return open_plugin(spec);
  const auto names = reward_names();
  if (std::binary_search(names.begin(), names.end(), spec.plugin)) return open_built_in(spec);
  return Error{Errc::config, fmt::format("no reward is called '{}': one of {}, path.py:function "
                                         "or path.so",
                                         spec.plugin, fmt::join(names, ", "))};
}

std::vector<std::string> reward_names() {
  std::vector<std::string> names = tasks::rule_reward_names();
  names.insert(names.end(), {"code_sandbox", "llm_judge", "remote"});
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cohort::plugin
