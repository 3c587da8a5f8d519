#pragma once
/// The common options of all that runs foreign code or asks for scores. A value.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"

namespace cohort::plugin {

enum class PluginKind : uint8_t { reward, environment, tool };

struct PluginSpec {
  std::string plugin;         // "rewards/mine.py:score", "maze.py:Maze", "libmine.so", "math_rule"
  std::string config = "{}";  // JSON object: its own options, keyword arguments of a class
  double timeout_s = 10;      // deadline of one row, of one reset or step, of one call of a tool
  uint32_t workers = 2;       // child processes, or requests at once
  SandboxMode mode = SandboxMode::bubblewrap;
  uint64_t memory_bytes = uint64_t{1} << 30;  // of a child
  std::vector<std::string> readable;          // folders a child may read beyond the system's
  bool has_network = false;                   // of a child
  std::string python;       // interpreter of Python plugins; empty: /usr/bin/python3
  bool is_isolated = true;  // a C++ reward runs in sandboxed children; false: in this process
  PluginKind kind = PluginKind::reward;
  int max_steps = 10;  // [answers] an episode accepts at most; the plugin may say less
  /// The environment, or an agent, writes the dialogue of each turn (tasks/dialogue_text.hpp). An
  /// agent asks a server of its own process, so that its sandbox has a loopback.
  bool is_dialogue = false;
  // of a tool
  uint64_t output_bytes_max = uint64_t{1} << 20;  // of one call
  std::string schema;  // JSON object that the prompt shows; empty: the plugin's own
};

}  // namespace cohort::plugin
