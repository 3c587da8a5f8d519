#pragma once
/// HCCL's rules as functions of a Cluster: H01 to H16 (docs/doctor.md lists them with their
/// sources). Pure: no machine is touched. Every rule gives at least one Finding: what it refuses
/// or warns of, each with place and mending command, or one `ok`, or one `skipped` that says what
/// was not known. Findings come in rule order: same input, same output.
///
/// RULE-1: a rule never says `ok` about a fact that was not read.
#include <string_view>
#include <vector>

#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

/// Runs H01 … H16.
std::vector<Finding> check_hccl(const Cluster& cluster);

/// Counts: H01 one server of the training series, H02 its rings, H03 its clusters, H04 A2 and A3,
/// H05 servers a power of two, H06 equal counts, H16 element types of the series.
std::vector<Finding> check_h01(const Cluster& cluster);
std::vector<Finding> check_h02(const Cluster& cluster);
std::vector<Finding> check_h03(const Cluster& cluster);
std::vector<Finding> check_h04(const Cluster& cluster);
std::vector<Finding> check_h05(const Cluster& cluster);
std::vector<Finding> check_h06(const Cluster& cluster);
std::vector<Finding> check_h16(const Cluster& cluster);

/// Processes: H07 one per device, ranks and rendezvous; H08 one collective sequence; H14 timeouts;
/// H15 versions.
std::vector<Finding> check_h07(const Cluster& cluster);
std::vector<Finding> check_h08(const Cluster& cluster);
std::vector<Finding> check_h14(const Cluster& cluster);
std::vector<Finding> check_h15(const Cluster& cluster);

/// Network: H09 ports, H10 device addresses, H11 link, health, LLDP, TLS, ping; H12 firewall; H13
/// accept queues.
std::vector<Finding> check_h09(const Cluster& cluster);
std::vector<Finding> check_h10(const Cluster& cluster);
std::vector<Finding> check_h11(const Cluster& cluster);
std::vector<Finding> check_h12(const Cluster& cluster);
std::vector<Finding> check_h13(const Cluster& cluster);

/// Returns the host's value of a variable, empty when it is not set.
std::string_view env_of(const Host& host, std::string_view name);

/// Returns the address as a number, or nothing unless it is four decimal parts 0…255.
std::optional<uint32_t> parse_ipv4(std::string_view text);

}  // namespace cohort::doctor
