#pragma once
/// One door to every reward: a built-in rule by name, code_sandbox, llm_judge, remote, a C++ plugin
/// (path.so) or a Python one (path.py:function). Thread-safe.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

struct RewardSpec {
  std::string reward;         // "math_rule", "code_sandbox", "rewards/mine.py:score", "libmine.so"
  std::string config = "{}";  // JSON object: the reward's own options
  double timeout_s = 10;      // deadline of one row
  uint32_t workers = 2;       // child processes, or requests at once
  SandboxMode mode = SandboxMode::bubblewrap;
  uint64_t memory_bytes = uint64_t{1} << 30;  // of a child
  std::vector<std::string> readable;          // folders a child may read beyond the system's
  bool has_network = false;                   // of a child
  std::string python;       // interpreter of Python plugins; empty: /usr/bin/python3
  bool is_isolated = true;  // a C++ plugin runs in sandboxed children; false: in this process
};

/// Returns Errc::config naming the fault of the spec and the nearest names, Errc::not_found for a
/// file, Errc::unsupported for another ABI version or a machine without sandbox.
Expected<std::shared_ptr<tasks::Reward>> open_reward(const RewardSpec& spec);

/// Returns the names of the built-in rewards, sorted.
std::vector<std::string> reward_names();

}  // namespace cohort::plugin
