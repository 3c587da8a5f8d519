#include "actors/cluster/host_waits.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/base/clock.hpp"
#include "runtime/base/host_name.hpp"

namespace cohort::actors {
namespace {

struct ProcessLook {
  plan::ProcessState state;
  double cpu_s = 0;         // since the process began
  uint64_t disk_pages = 0;  // likewise: major faults
};

/// "VmRSS:   1234 kB" of /proc/PID/status [bytes].
uint64_t bytes_of(std::istream& line) {
  uint64_t kib = 0;
  line >> kib;
  return kib << 10;
}

/// A process that is gone has state 0.
ProcessLook look_at(pid_t pid) {
  ProcessLook look;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(stat, text)) return look;
  const size_t end = text.rfind(')');  // the name may hold anything
  if (end == std::string::npos) return look;
  std::istringstream fields(text.substr(end + 1));
  fields >> look.state.state;
  constexpr int k_before_faults = 8;  // fields between the state and majflt
  std::string ignored;
  for (int i = 0; i < k_before_faults; ++i) fields >> ignored;
  uint64_t user = 0, system = 0;
  fields >> look.disk_pages >> ignored >> user >> system;
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

/// The files of the run's processes as they are now.
void take_files(HostWaits& found, const std::filesystem::path& run) {
  const std::string host = host_name();
  found.processes.clear();
  found.elsewhere.clear();
  for (const std::filesystem::path& file : waits_files(waits_folder(run))) {
    auto process = read_waits(file);
    if (!process) continue;  // it goes at this moment
    if (process->host != host)
      ++found.elsewhere[process->host];
    else
      found.processes.push_back(std::move(*process));
  }
}

template <class Visit>
void each_pid(const HostWaits& found, const Visit& visit) {
  for (const ProcessWaits& process : found.processes) {
    visit(process.pid);
    for (const WaitEntry& wait : process.waits)
      if (wait.pid > 0) visit(wait.pid);
  }
}

/// Of each level the `most` oldest, the `most` youngest and the `most` youngest before `since`.
std::vector<WaitEntry> telling_of(std::vector<WaitEntry> waits, size_t most, double since) {
  std::ranges::stable_sort(waits, {}, &WaitEntry::since);
  std::map<WaitLevel, size_t> all, old, seen;
  for (const WaitEntry& wait : waits) {
    ++all[wait.level];
    if (wait.since <= since) ++old[wait.level];
  }
  std::erase_if(waits, [&](const WaitEntry& wait) {
    const size_t nth = seen[wait.level]++;
    const bool is_youngest_old = nth < old[wait.level] && nth + most >= old[wait.level];
    return nth >= most && nth + most < all[wait.level] && !is_youngest_old;
  });
  return waits;
}

}  // namespace

std::filesystem::path waits_folder(const std::filesystem::path& run) { return run / "waits"; }

HostWaits read_host_waits(const std::filesystem::path& run, std::chrono::milliseconds window) {
  HostWaits found;
  std::map<pid_t, ProcessLook> before;
  take_files(found, run);
  each_pid(found, [&](pid_t pid) { before[pid] = look_at(pid); });
  const double began = now_seconds();
  std::this_thread::sleep_for(window);
  take_files(found, run);
  found.now = now_seconds();
  each_pid(found, [&](pid_t pid) {
    ProcessLook look = look_at(pid);
    if (const auto was = before.find(pid); was != before.end()) {
      const double s = found.now - began;
      look.state.cpu = (look.cpu_s - was->second.cpu_s) / s;
      const auto pages = static_cast<double>(look.disk_pages - was->second.disk_pages);
      if (look.disk_pages >= was->second.disk_pages) look.state.disk_pages = pages / s;
    }
    found.states[pid] = look.state;
  });
  for (const ProcessWaits& process : found.processes)  // another process has its number now
    if (process_started(process.pid) != process.started) found.states[process.pid] = {};
  return found;
}

void keep_telling(std::vector<ProcessWaits>& processes, size_t waits_max, double since) {
  for (size_t most : {k_waits_max, size_t{4}, size_t{2}, size_t{1}}) {
    size_t left = 0;
    for (ProcessWaits& process : processes) {
      const size_t all = process.waits.size();
      process.waits = telling_of(std::move(process.waits), most, since);
      process.left_out += all - process.waits.size();
      left += process.waits.size();
    }
    if (left <= waits_max) return;
  }
}

}  // namespace cohort::actors
