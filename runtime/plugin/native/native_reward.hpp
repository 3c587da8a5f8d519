#pragma once
/// A reward from a shared object (include/cohort/reward.h), in the process that loads it: a crash
/// in it is a crash of that process, a hang holds its caller. open_reward() therefore loads it into
/// a sandboxed child (child_reward.hpp) unless PluginSpec::is_isolated is off. Owner: its loader.
/// Threads: score() from concurrency() threads. Errors: Errc::not_found for the file,
/// Errc::unsupported for another ABI version, Errc::config when create() refuses.
#include <memory>
#include <string>
#include <string_view>

#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

Expected<std::shared_ptr<tasks::Reward>> load_native_reward(const std::string& path,
                                                            std::string_view config_json);

/// A plugin's facts about itself.
struct NativeFacts {
  std::string name;
  bool is_batch = false;  // its rows are judged together
};
Expected<NativeFacts> native_reward_facts(const std::string& path);

}  // namespace cohort::plugin
