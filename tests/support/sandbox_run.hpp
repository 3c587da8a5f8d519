#pragma once
/// Runs a program in a sandbox and collects what it says; for tests. Every wait has an end.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"

namespace cohort::test {

struct SandboxRun {
  std::string out, err;
  int status = -1;  // wait status, -1: it was killed at the limit
};

inline plugin::SandboxOptions sandbox_options(std::vector<std::string> argv,
                                              plugin::SandboxMode mode) {
  plugin::SandboxOptions options;
  options.mode = mode;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
  options.limits.processes = 16;
  options.limits.memory_bytes = uint64_t{512} << 20;
  return options;
}

inline plugin::SandboxOptions sandboxed_python(
    const std::string& code, plugin::SandboxMode mode = plugin::SandboxMode::bubblewrap) {
  return sandbox_options({"/usr/bin/python3", "-I", "-S", "-c", code}, mode);
}

/// Reads what is there; false at the end of the file.
inline bool drain(int fd, std::string& to, size_t max_bytes) {
  std::array<char, 65536> buffer;
  ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got == 0) return false;
  if (got > 0 && to.size() < max_bytes) to.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

/// Writes `input`, closes stdin, and reads until the process has ended or `limit_ms` are over.
inline SandboxRun run_sandboxed(plugin::SandboxedProcess& process, const std::string& input = "",
                                int limit_ms = 10000) {
  SandboxRun run;
  if (!input.empty() && ::write(process.in(), input.data(), input.size()) < 0) return run;
  process.close_in();
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  bool is_out = true, is_err = true;
  // A child that it leaves behind may hold the pipes open: its own end ends this too.
  while ((is_out || is_err) && std::chrono::steady_clock::now() < end) {
    if (run.status < 0) run.status = process.poll_status();
    bool has_ended = run.status >= 0;
    std::array<pollfd, 2> items{pollfd{is_out ? process.out() : -1, POLLIN, 0},
                                pollfd{is_err ? process.err() : -1, POLLIN, 0}};
    if (::poll(items.data(), items.size(), has_ended ? 0 : 5) == 0 && has_ended) break;
    if (is_out && items[0].revents != 0) is_out = drain(process.out(), run.out, 1 << 20);
    if (is_err && items[1].revents != 0) is_err = drain(process.err(), run.err, 1 << 20);
  }
  while (run.status < 0 && (run.status = process.poll_status()) < 0 &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.kill();
  return run;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    std::array<char, 4096> buffer;
    for (size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;)
      text.append(buffer.data(), got);
    std::fclose(file);
  }
  return text;
}

/// Returns the fields of /proc/PID/stat from the state on: state, parent, …
inline std::vector<std::string> stat_of(const std::string& pid) {
  std::string line = read_text(std::filesystem::path("/proc") / pid / "stat");
  std::vector<std::string> fields;
  size_t at = line.rfind(')');
  if (at == std::string::npos) return fields;
  std::istringstream rest(line.substr(at + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

/// Returns whether the parent of a process waits for something.
inline bool is_parent_asleep(const std::string& pid) {
  auto fields = stat_of(pid);
  if (fields.size() < 2) return false;
  auto of_parent = stat_of(fields[1]);
  return !of_parent.empty() && of_parent[0] == "S";
}

/// Returns the ids of the Python processes whose command line contains `word`; not of a bwrap,
/// whose command line contains theirs.
inline std::vector<std::string> processes_with(const std::string& word) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::string line = read_text(entry.path() / "cmdline");
    if (line.starts_with("/usr/bin/python3") && line.find(word) != std::string::npos)
      found.push_back(entry.path().filename().string());
  }
  return found;
}

/// Returns how many processes have come from this one and live.
inline size_t descendants() {
  size_t count = 0;
  std::vector<std::string> open = {"self"};
  while (!open.empty()) {
    std::filesystem::path folder = "/proc/" + open.back();
    open.pop_back();
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator(folder / "task", ignored)) {
      std::string ids = read_text(task.path() / "children");
      for (size_t at = 0, end; (end = ids.find(' ', at)) != std::string::npos; at = end + 1) {
        open.push_back(ids.substr(at, end - at));
        count += read_text("/proc/" + open.back() + "/cmdline").empty() ? 0 : 1;
      }
    }
  }
  return count;
}

}  // namespace cohort::test
