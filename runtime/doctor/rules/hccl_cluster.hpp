#pragma once
/// Plain description of the hosts, cards, processes and settings of one job, as far as they are
/// known: the input of the HCCL rules (hccl_rules.hpp). Its builder has read the machines
/// (runtime/platform) or writes it down by hand (tests). An absent optional means "not known": a
/// rule that needs it is skipped and says so. Value types without invariants, thread-safe to read.
/// Bounds: none of its own; the readers of tool output bound what they put in.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/estimate/card_types.hpp"

namespace cohort::doctor {

using plan::Series;
enum class Severity : uint8_t { ok, warning, error, skipped };
enum class Dtype : uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  fp16,
  bf16,
  fp32,
  fp64
};

using plan::to_string;
std::string_view to_string(Severity x);
std::string_view to_string(Dtype x);

/// What one rule says about one place. Texts are whole and plain; `mend` is a command or an
/// override that can be pasted, or empty.
struct Finding {
  std::string rule;  // "H01" … "H16", "E01" …, "M01" …
  Severity severity = Severity::ok;
  std::string host;              // empty: the whole cluster
  std::optional<uint32_t> card;  // device id on `host`
  std::string key;               // what was looked at: a config key, a variable, a tool's field
  std::string seen, wanted, mend;
  bool operator==(const Finding&) const = default;
};

struct PortRange {
  uint16_t first = 0, last = 0;  // both included
  bool operator==(const PortRange&) const = default;
};

struct PingResult {
  std::string address;
  double loss_percent = 0;
  bool operator==(const PingResult&) const = default;
};

/// One NPU die as npu-smi and hccn_tool show it.
struct Card {
  uint32_t device_id = 0;  // logical id on its host: what hccn_tool -i takes
  std::string name;        // as npu-smi prints it, e.g. "910B3"
  std::string health;      // OK, Warning, Alarm, Critical, UNKNOWN; empty: not read
  uint64_t hbm_mib = 0;
  std::optional<std::string> ip, netmask;
  bool is_ip_read = false;  // the tool answered; `ip` stays empty when no address is set
  std::optional<bool> is_link_up;
  std::optional<int> net_health;  // 0 Success … 8 Detect ip set, 9 any other text
  std::optional<bool> is_tls_on;
  std::optional<bool> has_lldp_neighbour;
  std::optional<std::string> netdetect;  // empty: the tool answered, no address is set
  std::vector<PingResult> pings;
  std::vector<std::string> faults;  // queries that gave no answer: "hccn_tool -i 3 -tls -g: why"
  bool operator==(const Card&) const = default;
};

struct Versions {
  std::string cann, driver, firmware;  // empty: not found
  bool operator==(const Versions&) const = default;
};

struct Host {
  std::string name;
  std::vector<Card> cards;  // ascending device id
  Versions versions;
  std::optional<uint32_t> somaxconn, tcp_max_syn_backlog;
  std::optional<std::vector<PortRange>> reserved_ports;
  std::optional<PortRange> ephemeral_ports;           // net.ipv4.ip_local_port_range
  std::optional<std::vector<uint16_t>> listen_ports;  // TCP ports that somebody has bound, sorted
  std::optional<bool> is_firewall_on;
  std::string firewall;  // "ufw" or "firewalld" when known
  bool is_container = false;
  std::optional<std::vector<std::string>> interfaces;  // network interfaces by name
  std::map<std::string, std::string> env;              // what the job's processes see there
  bool operator==(const Host&) const = default;
};

/// One training or inference process of a role.
struct Process {
  std::string role;        // one communicator: "actor_train", "actor_infer", …
  size_t host = 0;         // index into Cluster::hosts
  uint32_t device_id = 0;  // on that host
  uint32_t rank = 0, world_size = 1, node_rank = 0, nproc_per_node = 1, local_rank = 0;
  std::string master_addr;
  uint16_t master_port = 0;
  bool operator==(const Process&) const = default;
};

struct RoleDtype {
  std::string key;  // "actor_train.model_args.dtype"
  Dtype dtype = Dtype::bf16;
  bool operator==(const RoleDtype&) const = default;
};

/// A running hash of the collectives that one rank has issued, at the end of each step (H08).
struct RankHashes {
  uint32_t rank = 0;
  std::vector<uint64_t> by_step;
  bool operator==(const RankHashes&) const = default;
};

struct Cluster {
  Series series = Series::unknown;
  std::vector<Host> hosts;
  uint32_t host_count = 0;    // of the job; hosts.size() when 0. More than hosts.size(): some are
                              // not described, and cross-host rules say so
  bool is_job_known = false;  // false: `processes` is "all cards of every host", a guess
  std::vector<Process> processes;
  std::vector<RoleDtype> dtypes;
  std::vector<RankHashes> hashes;
  std::optional<double> start_skew_s, phase_skew_s;  // longest wait expected; H14
  bool operator==(const Cluster&) const = default;
};

}  // namespace cohort::doctor
