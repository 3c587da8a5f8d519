#pragma once
/// Healthy clusters to break in tests, and how to look at findings.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::test {

using doctor::Card;
using doctor::Cluster;
using doctor::Dtype;
using doctor::Finding;
using doctor::Host;
using doctor::PortRange;
using doctor::Process;
using doctor::Series;
using doctor::Severity;

inline Card healthy_card(Series series, size_t host, uint32_t id) {
  Card card;
  card.device_id = id;
  card.name = series == Series::training ? "910A" : series == Series::a2 ? "910B3" : "Ascend910";
  card.health = "OK";
  card.hbm_mib = series == Series::training ? 32768 : 65536;
  card.is_ip_read = true;
  // Training series: index i and i+4 in subnet 10.i.0.0/24; else all in 10.20.0.0/16.
  card.ip = series == Series::training ? fmt::format("10.{}.0.{}", id % 4, 2 + host * 2 + id / 4)
                                       : fmt::format("10.20.{}.{}", host + 1, 10 + id);
  card.netmask = series == Series::training ? "255.255.255.0" : "255.255.0.0";
  card.is_link_up = true;
  card.net_health = 0;
  card.is_tls_on = false;
  card.has_lldp_neighbour = true;
  card.netdetect = "10.20.0.1";
  return card;
}

inline Host healthy_host(Series series, size_t index, size_t hosts, uint32_t cards) {
  Host host;
  host.name = fmt::format("host{}", index);
  for (uint32_t id = 0; id < cards; ++id) host.cards.push_back(healthy_card(series, index, id));
  host.versions = {"8.3.RC1", "25.3.rc1", "7.8.0.2.212"};
  host.somaxconn = 65535;
  host.tcp_max_syn_backlog = 65535;
  host.reserved_ports = std::vector<PortRange>{{60000, 60015}};
  host.ephemeral_ports = PortRange{32768, 60999};
  host.listen_ports = std::vector<uint16_t>{22, 6379};
  host.is_firewall_on = false;
  host.firewall = "ufw";
  host.env = {{"RANK", std::to_string(index)},  {"WORLD_SIZE", std::to_string(hosts)},
              {"MASTER_ADDR", "10.9.0.1"},      {"MASTER_PORT", "6380"},
              {"HCCL_CONNECT_TIMEOUT", "3600"}, {"HCCL_EXEC_TIMEOUT", "3600"}};
  return host;
}

/// Puts `role` on the given devices of each host: its processes, ranks and rendezvous.
inline void add_role(Cluster& cluster, const std::string& role,
                     const std::vector<std::vector<uint32_t>>& devices_of_host) {
  uint32_t rank = 0, world = 0;
  for (const auto& devices : devices_of_host) world += static_cast<uint32_t>(devices.size());
  for (size_t host = 0; host < devices_of_host.size(); ++host)
    for (uint32_t i = 0; i < devices_of_host[host].size(); ++i, ++rank) {
      Process x;
      x.role = role;
      x.host = host;
      x.device_id = devices_of_host[host][i];
      x.rank = rank;
      x.world_size = world;
      x.local_rank = rank;  // uneven servers: no nproc_per_node
      x.nproc_per_node = 0;
      x.master_addr = "10.9.0.1";
      x.master_port = 6380;
      cluster.processes.push_back(x);
    }
}

inline std::vector<uint32_t> ids(uint32_t from, uint32_t to) {
  std::vector<uint32_t> out;
  for (uint32_t id = from; id < to; ++id) out.push_back(id);
  return out;
}

/// Every card of every host in one training role; nothing to complain about.
inline Cluster healthy_cluster(Series series, size_t hosts, uint32_t cards) {
  Cluster cluster;
  cluster.series = series;
  for (size_t i = 0; i < hosts; ++i) cluster.hosts.push_back(healthy_host(series, i, hosts, cards));
  cluster.host_count = static_cast<uint32_t>(hosts);
  cluster.is_job_known = true;
  add_role(cluster, "actor_train", std::vector(hosts, ids(0, cards)));
  for (Process& x : cluster.processes) {
    x.nproc_per_node = cards;
    x.node_rank = static_cast<uint32_t>(x.host);
    x.local_rank = x.device_id;
  }
  cluster.dtypes = {
      {"actor_train.model_args.dtype", series == Series::training ? Dtype::fp16 : Dtype::bf16}};
  cluster.hashes = {{0, {1, 2}}, {1, {1, 2}}};
  cluster.start_skew_s = 600;
  cluster.phase_skew_s = 1800;
  return cluster;
}

/// "error card 3 device ip | …": what a test compares.
inline std::string brief(const Finding& x) {
  return fmt::format("{} {}{}{}{}", to_string(x.severity), x.host, x.host.empty() ? "" : " ",
                     x.card ? fmt::format("card {} ", *x.card) : std::string(), x.key);
}
inline std::vector<std::string> briefs(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& x : findings) out.push_back(brief(x));
  return out;
}
inline bool has(const std::vector<Finding>& findings, Severity severity) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& x) { return x.severity == severity; });
}
inline bool is_ok(const std::vector<Finding>& findings) {
  return findings.size() == 1 && findings[0].severity == Severity::ok;
}

}  // namespace cohort::test
