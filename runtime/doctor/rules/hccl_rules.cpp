/// Counts and element types: H01 to H06, H16.
#include "runtime/doctor/rules/hccl_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/doctor/rules/hccl_collectives.hpp"
#include "runtime/doctor/rules/hccl_products.hpp"
#include "runtime/doctor/rules/hccl_rule_parts.hpp"

namespace cohort::doctor {
namespace {

/// Most devices that a described server holds, or that the job uses on one.
uint32_t server_size(const Cluster& cluster) {
  uint32_t size = 0;
  for (const Host& host : cluster.hosts)
    for (const Card& card : host.cards) size = std::max(size, card.device_id + 1);
  for (const Process& process : cluster.processes) size = std::max(size, process.device_id + 1);
  return size;
}

const Product* product_of(const Cluster& cluster) {
  return find_product(cluster.series, server_size(cluster));
}

bool is_allowed(const Product& product, size_t count) {
  if (product.counts.empty()) return count >= 1 && count <= product.cards_max;
  return std::find(product.counts.begin(), product.counts.end(), count) != product.counts.end();
}

std::string allowed_text(const Product& product) {
  return product.counts.empty() ? fmt::format("1 to {}", product.cards_max)
                                : fmt::format("{}", fmt::join(product.counts, ", "));
}

/// Returns the allowed counts next to `count`: "2 or 4".
std::string nearest_counts(const Product& product, size_t count) {
  if (product.counts.empty()) return fmt::format("{}", product.cards_max);
  std::string below, above;
  for (uint32_t allowed : product.counts) {
    if (allowed < count) below = std::to_string(allowed);
    if (allowed > count && above.empty()) above = std::to_string(allowed);
  }
  return below.empty() || above.empty() ? below + above : below + " or " + above;
}

std::string mend_mapping(const std::string& role) {
  return fmt::format("{}.device_mapping=…", role);
}

std::vector<Finding> skip(const char* rule, const Cluster& cluster, const char* what) {
  std::string why = !has_npu(cluster)                   ? "no NPU"
                    : cluster.series == Series::unknown ? "the product series is not known"
                    : cluster.processes.empty()         ? "no role has a card"
                                                        : what;
  return Findings(rule).or_skipped("cards", why);
}

bool is_a2_or_a3(const Cluster& cluster) {
  return cluster.series == Series::a2 || cluster.series == Series::a3;
}

}  // namespace

std::vector<Finding> check_h01(const Cluster& cluster) {
  const Product* product = product_of(cluster);
  if (cluster.series != Series::training || cluster.processes.empty())
    return skip("H01", cluster, "a rule of the training series");
  Findings found("H01");
  bool is_asked = false;
  for (const RoleView& role : roles_of(cluster)) {
    auto servers = role.servers();
    if (servers.size() != 1) continue;
    is_asked = true;
    size_t count = servers[0].second.size();
    if (is_allowed(*product, count)) continue;
    found.add(judged(cluster), role.role + ".device_mapping",
              fmt::format("{} cards on one {}", count, product->name),
              fmt::format("{} cards; nearest: {}", allowed_text(*product),
                          nearest_counts(*product, count)),
              mend_mapping(role.role), host_name(cluster, servers[0].first));
  }
  if (!is_asked) return skip("H01", cluster, "every role spans several servers");
  return std::move(found).or_ok("cards", "the counts of each role on its server are allowed");
}

std::vector<Finding> check_h02(const Cluster& cluster) {
  const Product* product = product_of(cluster);
  if (cluster.series != Series::training || cluster.processes.empty())
    return skip("H02", cluster, "a rule of the training series");
  Findings found("H02");
  for (const RoleView& role : roles_of(cluster)) {
    auto servers = role.servers();
    if (servers.size() != 1) continue;
    const auto& devices = servers[0].second;
    // All eight span both rings by definition; fewer may not.
    if (devices.size() < 2 || devices.size() >= product->cards_max) continue;
    std::set<uint32_t> rings;
    for (uint32_t device : devices) rings.insert(device / product->group_size);
    if (rings.size() < 2) continue;
    found.add(judged(cluster), role.role + ".device_mapping",
              fmt::format("cards {} lie in two rings", list_of(devices)),
              "all of 0-3 or all of 4-7: a ring is four cards and 2- and 4-card jobs stay in one",
              mend_mapping(role.role), host_name(cluster, servers[0].first));
  }
  return std::move(found).or_ok("cards", "2- and 4-card roles stay in one ring of four");
}

namespace {

void check_server_limit(Findings& found, const Cluster& cluster, const Product& product,
                        const RoleView& role, size_t servers) {
  if (servers <= product.servers_max) return;
  found.add(judged(cluster), role.role + ".device_mapping", fmt::format("{} servers", servers),
            fmt::format("at most {} servers of the {} series", product.servers_max,
                        to_string(product.series)),
            mend_mapping(role.role));
}

}  // namespace

std::vector<Finding> check_h03(const Cluster& cluster) {
  const Product* product = product_of(cluster);
  if (cluster.series != Series::training || cluster.processes.empty())
    return skip("H03", cluster, "a rule of the training series");
  Findings found("H03");
  bool is_asked = false;
  for (const RoleView& role : roles_of(cluster)) {
    auto servers = role.servers();
    if (servers.size() < 2) continue;
    is_asked = true;
    size_t total = 0;
    for (const auto& [host, devices] : servers) total += devices.size();
    size_t each = total / servers.size();
    if (total % servers.size() != 0 || !is_allowed(*product, each))
      found.add(
          judged(cluster), role.role + ".device_mapping",
          fmt::format("{} cards on {} servers", total, servers.size()),
          fmt::format("{{{}}} cards times {} servers", allowed_text(*product), servers.size()),
          mend_mapping(role.role));
    check_server_limit(found, cluster, *product, role, servers.size());
  }
  if (!is_asked) return skip("H03", cluster, "no role spans several servers");
  return std::move(found).or_ok("cards", "cards are an allowed count times the servers");
}

std::vector<Finding> check_h04(const Cluster& cluster) {
  const Product* product = product_of(cluster);
  if (!is_a2_or_a3(cluster) || cluster.processes.empty())
    return skip("H04", cluster, "a rule of A2 and A3");
  Findings found("H04");
  for (const RoleView& role : roles_of(cluster)) {
    auto servers = role.servers();
    for (const auto& [host, devices] : servers) {
      if (is_allowed(*product, devices.size()) && *devices.rbegin() < product->cards_max) continue;
      found.add(judged(cluster), role.role + ".device_mapping",
                fmt::format("{} cards, the last with id {}", devices.size(), *devices.rbegin()),
                fmt::format("{} cards of one {}, ids below {}", allowed_text(*product),
                            product->name, product->cards_max),
                mend_mapping(role.role), host_name(cluster, host));
    }
    check_server_limit(found, cluster, *product, role, servers.size());
  }
  return std::move(found).or_ok(
      "cards", fmt::format("each role has {} cards per server, at most {} servers ({})",
                           allowed_text(*product), product->servers_max, product->name));
}

std::vector<Finding> check_h05(const Cluster& cluster) {
  if (!has_npu(cluster) || cluster.processes.empty()) return skip("H05", cluster, "");
  Findings found("H05");
  for (const RoleView& role : roles_of(cluster)) {
    size_t servers = role.servers().size();
    if (std::has_single_bit(servers)) continue;
    found.add(Severity::warning, role.role + ".device_mapping", fmt::format("{} servers", servers),
              fmt::format("a power of two is fastest; nearest: {} or {}", std::bit_floor(servers),
                          std::bit_ceil(servers)),
              mend_mapping(role.role));
  }
  return std::move(found).or_ok("servers", "the servers of each role are a power of two");
}

std::vector<Finding> check_h06(const Cluster& cluster) {
  if (!has_npu(cluster) || cluster.processes.empty()) return skip("H06", cluster, "");
  Findings found("H06");
  for (const RoleView& role : roles_of(cluster)) {
    auto servers = role.servers();
    std::vector<std::string> counts;
    for (const auto& [host, devices] : servers)
      counts.push_back(fmt::format("{} on {}", devices.size(), host_name(cluster, host)));
    bool is_equal = std::all_of(servers.begin(), servers.end(), [&](const auto& x) {
      return x.second.size() == servers[0].second.size();
    });
    if (is_equal) continue;
    bool is_refused = cluster.series == Series::training;
    found.add(is_refused ? judged(cluster) : Severity::warning, role.role + ".device_mapping",
              fmt::format("{}", fmt::join(counts, ", ")),
              is_refused ? "the same number of cards on each server"
                         : "the same number of cards on each server: unequal ones are slower",
              mend_mapping(role.role));
  }
  return std::move(found).or_ok("cards", "each role has as many cards on one server as on another");
}

std::vector<Finding> check_h16(const Cluster& cluster) {
  Findings found("H16");
  if (!has_npu(cluster) || cluster.series == Series::unknown)
    return std::move(found).or_skipped(
        "dtype", has_npu(cluster) ? "the product series is not known" : "no NPU");
  if (cluster.dtypes.empty())
    return std::move(found).or_skipped("dtype", "no CONFIG given", "actor-node doctor CONFIG");
  for (const RoleDtype& role : cluster.dtypes) {
    if (is_supported(cluster.series, Collective::allreduce, role.dtype)) continue;
    found.add(Severity::error, role.key, std::string(to_string(role.dtype)),
              fmt::format("fp16 (with loss scaling) or fp32: allreduce and reduce_scatter of the "
                          "{} series take no {}",
                          to_string(cluster.series), to_string(role.dtype)),
              role.key + "=fp16");
  }
  return std::move(found).or_ok("dtype", fmt::format("the {} series reduces the configured types",
                                                     to_string(cluster.series)));
}

std::vector<Finding> check_hccl(const Cluster& cluster) {
  return run_rules(cluster, {check_h01, check_h02, check_h03, check_h04, check_h05, check_h06,
                             check_h07, check_h08, check_h09, check_h10, check_h11, check_h12,
                             check_h13, check_h14, check_h15, check_h16});
}

}  // namespace cohort::doctor
