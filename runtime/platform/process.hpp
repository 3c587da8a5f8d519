#pragma once
/// Runs one program with a time limit and a bound on its output; facts of this process.
/// Thread-safe: no shared state; posix_spawn, so it may be called from several threads at once. The
/// child gets a process group of its own; when the limit is over, the group is killed and reaped.
/// Standard input is empty.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::platform {

struct CommandResult {
  int exit_code = 0;    // 128 + n when signal n ended it
  std::string output;   // stdout, then stderr is mixed in as it came
  bool is_cut = false;  // output went over the bound; the rest was read and dropped
};

struct CommandOptions {
  std::chrono::milliseconds time_limit{10000};
  size_t max_output_bytes = size_t{1} << 20;
  std::map<std::string, std::string> env = {};  // the whole environment of the child
};

/// Runs argv[0] (a path) with the arguments behind it. Returns Errc::not_found if it cannot be
/// started, Errc::timeout if it was killed at the limit, Errc::io if the pipe fails.
Expected<CommandResult> run_command_line(const std::vector<std::string>& argv,
                                         const CommandOptions& options);

/// Returns the texts as execve() takes them, with a null behind; they must outlive it.
std::vector<char*> pointers_of(std::vector<std::string>& texts);

/// Returns the first executable file `name` in the folders of `path` (as PATH: "a:b"), or empty.
std::string find_program(const std::string& name, const std::string& path);

/// Returns the environment of this process.
std::map<std::string, std::string> process_environment();

/// Returns the resident bytes of this process that belong to no file and are not shared; 0 if
/// /proc/self/statm cannot be read.
uint64_t anonymous_bytes();

}  // namespace cohort::platform
