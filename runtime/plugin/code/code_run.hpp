#pragma once
/// Runs one answer on its test cases and returns their results. Owner: a call of the reward.
/// Thread: its caller's. Ends by the deadline of the options, plus the killing of a sandbox.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plugin/code/code_pool.hpp"
#include "runtime/plugin/code/code_task.hpp"

namespace cohort::plugin {

struct CodeRunOptions {
  double case_timeout_s = 2;
  double compile_timeout_s = 8;
  double timeout_s = 10;
  size_t max_output_bytes = size_t{1} << 20;
  uint64_t memory_bytes = uint64_t{1} << 30;
  bool stops_at_failure = true;       // what is not run has not passed
  std::vector<std::string> compiler;  // program and options
};

struct CodeVerdict {
  uint32_t passed = 0;
  std::string failure;  // the first; empty: all cases have passed
  std::string error;    // not the answer's fault; no verdict then
  // of a session
  std::string output = {};  // what it printed, at most max_output_bytes, and the end of its stderr
  bool is_timeout = false;
};

CodeVerdict run_code(const CodeTask& task, CodePool& pool, const CodeRunOptions& options);

}  // namespace cohort::plugin
