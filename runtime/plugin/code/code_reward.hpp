#pragma once
/// code_sandbox: scores an answer by running its code (docs/sandbox.md says why none passes without
/// solving). Bound: `workers` answers at a time and as many sandboxes that wait; memory, output and
/// time by the options. Owner: its opener. Thread-safe.
/// CODE-1: a score above 0 for a case means that the answer's sandbox delivered the value or output
/// that the case asks for, before the deadline. CODE-2: no sandbox serves two answers.
#include <memory>
#include <string_view>

#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

/// `config_json`, an object; all keys are optional:
///   "language": "auto" (by the fence) | "python" | "cpp"
///   "case_timeout_s": 2       of one case, by the clock; at most timeout_s
///   "compile_timeout_s": 8    of a C++ answer, within timeout_s
///   "score": "all" (1 if every case passes, else 0) | "share" (of cases that pass)
///   "max_output_bytes": 1048576  of one case
///   "processes": 16           of one answer, threads included
///   "python": "/usr/bin/python3", "compiler": "/usr/bin/g++",
///   "compiler_options": ["-O1", "-std=c++20", "-w", "-fmax-errors=1"]
/// A result has parts {"passed", n} and {"cases", n} and the first failure as its detail; `error`
/// is never the answer's fault. Returns Errc::config naming the key, Errc::unsupported if there is
/// no sandbox.
Expected<std::shared_ptr<tasks::Reward>> make_code_reward(std::string_view config_json,
                                                          const PluginSpec& spec);

}  // namespace cohort::plugin
