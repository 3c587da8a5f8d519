/// Processes, sequences, timeouts, versions: H07, H08, H14, H15.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/doctor/rules/hccl_collectives.hpp"
#include "runtime/doctor/rules/hccl_rule_parts.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::doctor {
namespace {

/// One process per device, each device present.
void check_devices(Findings& found, const Cluster& cluster, const RoleView& role) {
  std::map<std::pair<size_t, uint32_t>, std::vector<uint32_t>> ranks;
  for (const Process* x : role.processes) ranks[{x->host, x->device_id}].push_back(x->rank);
  for (const auto& [place, sharing] : ranks) {
    auto [host, device] = place;
    bool is_described = host < cluster.hosts.size() && !cluster.hosts[host].cards.empty();
    if (sharing.size() > 1)
      found.add(Severity::error, role.role + ".device_mapping",
                fmt::format("ranks {} share the device", fmt::join(sharing, " and ")),
                "one process per device: HCCL refuses a second one",
                role.role + ".device_mapping=…", host_name(cluster, host), device);
    else if (is_described &&
             std::none_of(cluster.hosts[host].cards.begin(), cluster.hosts[host].cards.end(),
                          [id = device](const Card& card) { return card.device_id == id; }))
      found.add(Severity::error, role.role + ".device_mapping", "no such device",
                fmt::format("an id below {} that npu-smi lists",
                            cluster.hosts[host].cards.back().device_id + 1),
                "npu-smi info", host_name(cluster, host), device);
  }
}

/// Cards behind the last node of the job.
void check_nodes(Findings& found, const Cluster& cluster, const RoleView& role) {
  const Host& here = cluster.hosts.front();
  if (here.cards.empty()) return;  // judged for another machine
  std::string_view text = env_of(here, "WORLD_SIZE");
  size_t nodes = std::max<size_t>(cluster.hosts.size(), number_of(text).value_or(1));
  size_t needed = 0;
  for (const Process* x : role.processes) needed = std::max(needed, x->host + 1);
  if (needed <= nodes) return;
  found.add(
      Severity::error, role.role + ".device_mapping",
      fmt::format("needs {} nodes of {} cards", needed, here.cards.size()),
      fmt::format("{} (WORLD_SIZE {})", nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes),
                  text.empty() ? "is not set" : fmt::format("is {}", text)),
      fmt::format("{}.device_mapping=… or export WORLD_SIZE={}", role.role, needed), here.name);
}

/// rank = node_rank*nproc_per_node + local_rank, 0 … world_size-1 once each; one rendezvous.
void check_ranks(Findings& found, const Cluster& cluster, const RoleView& role) {
  auto add = [&](const Process& x, std::string key, std::string seen, std::string wanted) {
    found.add(Severity::error, role.role + "." + std::move(key), std::move(seen), std::move(wanted),
              "", host_name(cluster, x.host), x.device_id);
  };
  std::map<uint32_t, uint32_t> count_of_rank;
  const Process& first = *role.processes.front();
  for (const Process* x : role.processes) {
    uint64_t wanted = uint64_t{x->node_rank} * x->nproc_per_node + x->local_rank;
    if (x->rank != wanted)
      add(*x, "rank", std::to_string(x->rank),
          fmt::format("node_rank*nproc_per_node + local_rank = {}*{} + {} = {}", x->node_rank,
                      x->nproc_per_node, x->local_rank, wanted));
    if (x->world_size != role.processes.size())
      add(*x, "world_size", std::to_string(x->world_size),
          fmt::format("{}, the number of processes", role.processes.size()));
    if (++count_of_rank[x->rank] == 2)
      add(*x, "rank", fmt::format("{} twice", x->rank), "each rank once");
    if (x->master_addr != first.master_addr || x->master_port != first.master_port)
      add(*x, "MASTER_ADDR", fmt::format("{}:{}", x->master_addr, x->master_port),
          fmt::format("{}:{}, as everywhere", first.master_addr, first.master_port));
  }
}

/// RANK, WORLD_SIZE (nodes), MASTER_ADDR, MASTER_PORT of each host's environment.
void check_rendezvous(Findings& found, const Cluster& cluster) {
  std::map<uint64_t, std::string> host_of_rank;
  const Host* first = nullptr;
  for (const Host& host : cluster.hosts) {
    std::string_view world_text = env_of(host, "WORLD_SIZE");
    if (world_text.empty() && env_of(host, "RANK").empty()) continue;
    auto add = [&](std::string key, std::string seen, std::string wanted, std::string mend) {
      found.add(Severity::error, std::move(key), std::move(seen), std::move(wanted),
                std::move(mend), host.name);
    };
    auto world = number_of(world_text);
    auto rank = number_of(env_of(host, "RANK"));
    if (!world || *world == 0) {
      add("WORLD_SIZE", in_quotes(world_text), "the number of nodes", "export WORLD_SIZE=<nodes>");
      continue;
    }
    if (!rank || *rank >= *world)
      add("RANK", in_quotes(env_of(host, "RANK")),
          fmt::format("0 to {}: the number of this node", *world - 1), "export RANK=<node>");
    else if (auto [other, is_new] = host_of_rank.emplace(*rank, host.name); !is_new)
      add("RANK", fmt::format("{}, which is {}'s too", *rank, other->second),
          "another number on each node", "export RANK=<node>");
    if (*world == 1) continue;
    std::string_view address = env_of(host, "MASTER_ADDR");
    if (address.empty() || address == "localhost" || address.starts_with("127."))
      add("MASTER_ADDR", in_quotes(address), "an address of node 0 that every node reaches",
          "export MASTER_ADDR=<address of node 0>");
    auto port = number_of(env_of(host, "MASTER_PORT"));
    if (!port || *port == 0 || *port > 65535)
      add("MASTER_PORT", in_quotes(env_of(host, "MASTER_PORT")), "a port, 1 to 65535",
          "export MASTER_PORT=6379");
    if (first == nullptr) first = &host;
    for (std::string_view key : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      if (env_of(host, key) != env_of(*first, key))
        add(std::string(key), in_quotes(env_of(host, key)),
            fmt::format("{} as on {}", in_quotes(env_of(*first, key)), first->name),
            fmt::format("export {}={}", key, env_of(*first, key)));
  }
}

}  // namespace

std::vector<Finding> check_h07(const Cluster& cluster) {
  Findings found("H07");
  check_rendezvous(found, cluster);
  for (const RoleView& role : roles_of(cluster)) {
    check_devices(found, cluster, role);
    if (!cluster.is_job_known) continue;
    check_ranks(found, cluster, role);
    if (!cluster.hosts.empty()) check_nodes(found, cluster, role);
  }
  bool has_rank = std::any_of(cluster.hosts.begin(), cluster.hosts.end(), [](const Host& host) {
    return !env_of(host, "WORLD_SIZE").empty() || !env_of(host, "RANK").empty();
  });
  if (!cluster.is_job_known && !has_rank)
    return std::move(found).or_skipped("ranks", "no CONFIG given, RANK and WORLD_SIZE are not set",
                                       "actor-node doctor CONFIG");
  return std::move(found).or_ok("ranks", "one process per device; ranks and rendezvous agree");
}

std::vector<Finding> check_h08(const Cluster& cluster) {
  Findings found("H08");
  if (cluster.hashes.empty())
    return std::move(found).or_skipped(
        "collective sequence",
        "known only while a run goes: each rank hashes its collectives (order, count, dtype, op) "
        "and logs one number per step");
  auto divergence = find_divergence(cluster.hashes);
  if (divergence)
    found.add(Severity::error, "collective sequence",
              fmt::format("rank {} left the sequence of the others at step {}{}",
                          fmt::join(divergence->ranks, ", "), divergence->step,
                          divergence->is_tie ? " (no majority: either side may be wrong)" : ""),
              "the same collectives in the same order, with equal count, dtype and op, on every "
              "rank",
              "");
  return std::move(found).or_ok("collective sequence",
                                fmt::format("{} ranks agree", cluster.hashes.size()));
}

namespace {

struct Timeout {
  const char* name;
  uint64_t default_s, low_s, high_s;  // low and high as HCCL takes them
  bool is_zero_endless;
};
constexpr Timeout k_connect{"HCCL_CONNECT_TIMEOUT", 120, 120, 7200, false};
constexpr Timeout k_exec{"HCCL_EXEC_TIMEOUT", 1800, 1, 2147483647, true};

void check_timeout(Findings& found, const Host& host, const Timeout& timeout,
                   std::optional<double> skew_s, const char* skew_name) {
  std::string_view text = env_of(host, timeout.name);
  auto value = number_of(text);
  auto add = [&](std::string wanted, uint64_t mend_s) {
    found.add(Severity::warning, timeout.name,
              text.empty() ? fmt::format("not set: {} s", timeout.default_s) : std::string(text),
              std::move(wanted),
              fmt::format("export {}={}  (or system_envs.{}=\"{}\")", timeout.name, mend_s,
                          timeout.name, mend_s),
              host.name);
  };
  uint64_t fitting = timeout.default_s;
  if (skew_s && *skew_s > 0)
    while (static_cast<double>(fitting) < *skew_s && fitting < timeout.high_s / 2) fitting *= 2;
  fitting = std::min(fitting, timeout.high_s);
  bool is_endless = timeout.is_zero_endless && value == uint64_t{0};
  if (!text.empty() && !is_endless &&
      (!value || *value < timeout.low_s || *value > timeout.high_s)) {
    add(fmt::format("whole seconds, {} to {}{}", timeout.low_s, timeout.high_s,
                    timeout.is_zero_endless ? ", or 0 for no limit" : ""),
        fitting);
    return;
  }
  uint64_t limit_s = value.value_or(timeout.default_s);
  if (!is_endless && skew_s && static_cast<double>(limit_s) < *skew_s)
    add(fmt::format("at least the {} of {:.0f} s", skew_name, *skew_s), fitting);
}

}  // namespace

std::vector<Finding> check_h14(const Cluster& cluster) {
  Findings found("H14");
  if (!has_npu(cluster)) return std::move(found).or_skipped("timeouts", "no NPU");
  for (const Host& host : cluster.hosts) {
    check_timeout(found, host, k_connect, cluster.start_skew_s, "start skew");
    check_timeout(found, host, k_exec, cluster.phase_skew_s, "longest wait of a phase");
  }
  if (!cluster.start_skew_s && !cluster.phase_skew_s)
    return std::move(found).or_skipped("timeouts", "the skew between hosts is not known",
                                       "actor-node doctor --start-skew 600");
  return std::move(found).or_ok(
      "timeouts",
      fmt::format("HCCL_CONNECT_TIMEOUT covers {:.0f} s{}", cluster.start_skew_s.value_or(0),
                  cluster.phase_skew_s
                      ? fmt::format(", HCCL_EXEC_TIMEOUT {:.0f} s", *cluster.phase_skew_s)
                      : std::string()));
}

namespace {

struct Field {
  const char* key;
  std::string value;
  const char* mend;
};

std::vector<Field> version_fields(const Host& host) {
  return {{"CANN", host.versions.cann, "install one CANN toolkit on every host"},
          {"driver", host.versions.driver, "install one NPU driver on every host"},
          {"firmware", host.versions.firmware, "install one NPU firmware on every host"},
          {"NPU_ASD_ENABLE", std::string(env_of(host, "NPU_ASD_ENABLE")),
           "export NPU_ASD_ENABLE=<the same everywhere>"}};
}

}  // namespace

std::vector<Finding> check_h15(const Cluster& cluster) {
  Findings found("H15");
  if (!has_npu(cluster)) return std::move(found).or_skipped("versions", "no NPU");
  const Host* first = nullptr;
  for (const Host& host : cluster.hosts) {
    if (host.versions.cann.empty())
      found.add(Severity::warning, "CANN", "not found", "a CANN toolkit, the same on every host",
                "source /usr/local/Ascend/ascend-toolkit/set_env.sh", host.name);
    if (first == nullptr) {
      first = &host;
      continue;
    }
    std::vector<Field> here = version_fields(host), there = version_fields(*first);
    for (size_t i = 0; i < here.size(); ++i) {
      bool is_version = i < 3;  // an unread version is not a different one
      if (here[i].value == there[i].value ||
          (is_version && (here[i].value.empty() || there[i].value.empty())))
        continue;
      found.add(Severity::warning, here[i].key, in_quotes(here[i].value),
                fmt::format("{} as on {}", in_quotes(there[i].value), first->name), here[i].mend,
                host.name);
    }
  }
  if (server_count(cluster) > cluster.hosts.size())
    return std::move(found).or_skipped(
        "versions",
        fmt::format("{} of {} hosts are described", cluster.hosts.size(), server_count(cluster)),
        "on every host: actor-node doctor --json > HOST.json; then doctor --hosts *.json");
  const Versions& x = cluster.hosts.front().versions;
  if (x.driver.empty() || x.firmware.empty())
    return std::move(found).or_skipped("versions", "driver or firmware version was not read",
                                       "npu-smi info -t board -i 0");
  return std::move(found).or_ok(
      "versions", fmt::format("CANN {}, driver {}, firmware {}", x.cann, x.driver, x.firmware));
}

}  // namespace cohort::doctor
