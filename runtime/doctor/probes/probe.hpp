#pragma once
/// Reads this host: platform, cards with their device network, kernel settings, ports, versions.
/// Only reads, with read-only queries of npu-smi, hccn_tool, nvidia-smi, ufw and firewall-cmd, each
/// with a time limit; a tool that hung once is not asked again. What could not be read is left
/// absent and named in `faults`. Blocks for as long as the tools take: queries of different cards
/// run on up to `parallel` threads. Nothing here fails: an unreadable host is a result.
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/doctor/rules/environment_rules.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

struct ProbeOptions {
  std::string sysroot;                          // before /proc, /dev, /sys, /etc, /usr, /run; tests
  std::map<std::string, std::string> env;       // as the job would see it; PATH finds the tools
  std::chrono::milliseconds time_limit{10000};  // of one query
  unsigned parallel = 8;                        // queries at once
  std::vector<std::string> ping_addresses;      // device addresses of other hosts, from every card
  std::string disk_path = ".";                  // where the run will write
};

struct HostReport {
  Host host;
  Machine machine;
  Series series = Series::unknown;
  std::vector<std::string> gpus;  // "0 NVIDIA H200 143771 MiB", on the cuda platform
};

/// Returns the file's content, cut off a little above `max_bytes`; nothing if it cannot be opened.
std::optional<std::string> read_text(const std::string& path, size_t max_bytes);

HostReport probe_host(const ProbeOptions& options);

}  // namespace cohort::doctor
