#pragma once
/// code_sandbox: scores an answer by running its code. Each answer gets a sandbox of its own
/// (sandbox.hpp), started ahead of time with the interpreter up, used once, and killed; nothing of
/// an answer is left for the next. Bound: `workers` answers at a time and as many sandboxes that
/// wait; memory, output and time by the options. Owner: its opener. Thread-safe.
///
/// An answer controls its sandbox, the harness there included, and cannot pass without computing
/// the asked values: expected outputs and test code never enter its sandbox. This process compares
/// outputs; asserts and tests run in a second sandbox, the judge, which sees plain values that the
/// answer's functions returned and no object of the answer's (an object that claims to equal
/// everything does not equal 4). An early end of the answer's process fails the case. Details:
/// docs/sandbox.md.
///
/// CODE-1: a score above 0 for a case means that the answer's sandbox delivered the value or output
/// that the case asks for, before the deadline. CODE-2: no sandbox serves two answers.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

struct CodeRewardOptions {
  SandboxMode mode = SandboxMode::bubblewrap;
  uint32_t workers = 2;                       // answers at a time
  uint64_t memory_bytes = uint64_t{1} << 30;  // of an answer's processes together
  double timeout_s = 10;                      // of one answer, compilation and all cases
  std::vector<std::string> readable;          // folders beyond the system's
};

/// `config_json`, an object; all keys are optional:
///   "language": "auto" (by the fence) | "python" | "cpp"
///   "case_timeout_s": 2       of one case, by the clock; at most timeout_s
///   "compile_timeout_s": 8    of a C++ answer, within timeout_s
///   "score": "all" (1 if every case passes, else 0) | "share" (of cases that pass)
///   "max_output_bytes": 1048576  of one case
///   "processes": 16           of one answer, threads included
///   "python": "/usr/bin/python3", "compiler": "/usr/bin/g++",
///   "compiler_options": ["-O1", "-std=c++20", "-w", "-fmax-errors=1"]
/// A result has parts {"passed", n} and {"cases", n} and the first failure as its detail: "wrong
/// answer in case 3: line 1: expected '4', got '5'", "timeout in case 1 after 2 s", "memory limit
/// in case 1: MemoryError", "crash in case 2: signal 11 (Segmentation fault)", "exception in case
/// 1: ZeroDivisionError: division by zero, line 3", "compile error: …", "output limit in case 1",
/// "no code in the answer". `error` is never the answer's fault: no sandbox, a row without test
/// cases, a judge that fails. Returns Errc::config naming the key, Errc::unsupported if there is no
/// sandbox.
Expected<std::shared_ptr<tasks::Reward>> make_code_reward(std::string_view config_json,
                                                          const CodeRewardOptions& options);

}  // namespace cohort::plugin
