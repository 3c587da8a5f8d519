#pragma once
/// One door to every reward: a built-in rule by name, code_sandbox, llm_judge, remote, a C++ plugin
/// (path.so) or a Python one (path.py:function). Thread-safe.
#include <memory>
#include <string>
#include <vector>

#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

/// Returns Errc::config naming the fault of the spec and the nearest names, Errc::not_found for a
/// file, Errc::unsupported for another ABI version or a machine without sandbox.
Expected<std::shared_ptr<tasks::Reward>> open_reward(const PluginSpec& spec);

/// Returns the names of the built-in rewards, sorted.
std::vector<std::string> reward_names();

}  // namespace cohort::plugin
