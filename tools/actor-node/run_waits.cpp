#include "tools/actor-node/run_waits.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"

namespace cohort {
namespace {

struct Look {
  plan::ProcessState state;
  double cpu_s = 0;  // since the process began
};

/// "VmRSS:   1234 kB" of /proc/PID/status [bytes].
uint64_t bytes_of(std::istream& line) {
  uint64_t kib = 0;
  line >> kib;
  return kib << 10;
}

/// A process that is gone has state 0.
Look look_at(pid_t pid) {
  Look look;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(stat, text)) return look;
  const size_t end = text.rfind(')');  // the name may hold anything
  if (end == std::string::npos) return look;
  std::istringstream fields(text.substr(end + 1));
  fields >> look.state.state;
  constexpr int k_before_times = 10;  // fields between the state and utime
  std::string ignored;
  for (int i = 0; i < k_before_times; ++i) fields >> ignored;
  uint64_t user = 0, system = 0;
  fields >> user >> system;
  look.cpu_s = static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "VmRSS:") look.state.rss_bytes = bytes_of(words);
    if (key == "VmSwap:") look.state.swap_bytes = bytes_of(words);
  }
  return look;
}

}  // namespace

std::filesystem::path waits_folder(const std::filesystem::path& run) { return run / "waits"; }

Expected<RunWaits> read_run_waits(const std::filesystem::path& run, double after_s,
                                  std::chrono::milliseconds window) {
  std::error_code ignored;
  if (!std::filesystem::exists(run / "config.yaml", ignored))
    return Error{Errc::not_found,
                 fmt::format("{}: no run's folder (it has no config.yaml); the last line of a run, "
                             "`run: FOLDER`, and its dashboard name it",
                             run.string())};
  RunWaits found;
  found.input.after_s = after_s;
  const std::string host = host_name();
  std::map<pid_t, Look> before;
  const auto take = [&] {
    found.input.processes.clear();
    found.elsewhere.clear();
    for (const std::filesystem::path& file : waits_files(waits_folder(run))) {
      auto process = read_waits(file);
      if (!process) continue;  // it goes at this moment
      if (process->host != host) {
        ++found.elsewhere[process->host];
      } else {
        found.input.processes.push_back(std::move(*process));
      }
    }
  };
  const auto each_pid = [&](const auto& visit) {
    for (const ProcessWaits& process : found.input.processes) {
      visit(process.pid);
      for (const WaitEntry& wait : process.waits)
        if (wait.pid > 0) visit(wait.pid);
    }
  };
  take();
  each_pid([&](pid_t pid) { before[pid] = look_at(pid); });
  const double began = now_seconds();
  std::this_thread::sleep_for(window);
  take();
  found.input.now = now_seconds();
  each_pid([&](pid_t pid) {
    Look look = look_at(pid);
    if (const auto was = before.find(pid); was != before.end())
      look.state.cpu = (look.cpu_s - was->second.cpu_s) / (found.input.now - began);
    found.input.states[pid] = look.state;
  });
  for (const ProcessWaits& process : found.input.processes)  // another process has its number now
    if (process_started(process.pid) != process.started) found.input.states[process.pid] = {};
  return found;
}

}  // namespace cohort
