/// Ports, links, firewall, accept queues: H09, H11, H12, H13.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/doctor/rules/hccl_rule_parts.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::doctor {
namespace {

constexpr uint32_t k_default_base_port = 60000;
constexpr uint32_t k_port_count = 16;

std::optional<uint32_t> port_of(std::string_view text) {
  auto value = number_of(text);
  if (!value || *value == 0 || *value > 65535) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

bool is_reserved(const std::vector<PortRange>& ranges, uint32_t port) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const PortRange& range) {
    return range.first <= port && port <= range.last;
  });
}

std::string where_note(const Host& host) {
  return host.is_container ? "  (in this container: its network namespace counts)" : "";
}

struct PortPlan {
  uint32_t first = k_default_base_port, last = k_default_base_port + k_port_count - 1;
};

void check_ports_free(Findings& found, const Host& host, PortPlan plan, Severity severity) {
  if (!host.listen_ports) return;
  std::vector<uint16_t> taken;
  for (uint16_t port : *host.listen_ports)
    if (port >= plan.first && port <= plan.last) taken.push_back(port);
  if (taken.empty()) return;
  found.add(
      severity, "ports", fmt::format("in use: {}", fmt::join(taken, ", ")),
      fmt::format("{}-{} free for HCCL", plan.first, plan.last),
      fmt::format("ss -ltnp 'sport >= {} and sport <= {}'; or export HCCL_IF_BASE_PORT=<first "
                  "of 16 free ports>",
                  plan.first, plan.last),
      host.name);
}

void check_ports_reserved(Findings& found, const Host& host, PortPlan plan) {
  if (!host.reserved_ports) return;
  // The kernel gives no port outside its ephemeral range away by itself.
  PortRange ephemeral = host.ephemeral_ports.value_or(PortRange{32768, 60999});
  for (uint32_t port = plan.first; port <= plan.last; ++port) {
    if (port < ephemeral.first || port > ephemeral.last || is_reserved(*host.reserved_ports, port))
      continue;
    found.add(Severity::warning, "net.ipv4.ip_local_reserved_ports",
              host.reserved_ports->empty() ? "none" : fmt::format("port {} is not in it", port),
              fmt::format("{}-{}: the kernel may give them to any outgoing connection", plan.first,
                          plan.last),
              fmt::format("sysctl -w net.ipv4.ip_local_reserved_ports={}-{}{}", plan.first,
                          plan.last, where_note(host)),
              host.name);
    return;
  }
}

void check_master_port(Findings& found, const Host& host) {
  auto port = port_of(env_of(host, "MASTER_PORT"));
  bool is_head = env_of(host, "RANK") == "0" && !env_of(host, "WORLD_SIZE").empty() &&
                 env_of(host, "WORLD_SIZE") != "1";
  if (!port || !is_head || !host.listen_ports ||
      !std::binary_search(host.listen_ports->begin(), host.listen_ports->end(),
                          static_cast<uint16_t>(*port)))
    return;
  found.add(Severity::error, "MASTER_PORT", fmt::format("{} is in use", *port),
            "a free port on node 0: it listens there", "export MASTER_PORT=<free port>, everywhere",
            host.name);
}

}  // namespace

std::vector<Finding> check_h09(const Cluster& cluster) {
  Findings found("H09");
  bool is_read = !cluster.hosts.empty();
  PortPlan plan;
  for (const Host& host : cluster.hosts) {
    plan = {};
    std::string_view base = env_of(host, "HCCL_IF_BASE_PORT");
    if (!base.empty()) {
      auto port = port_of(base);
      if (!port || *port + k_port_count - 1 > 65535) {
        found.add(Severity::error, "HCCL_IF_BASE_PORT", fmt::format("\"{}\"", base),
                  "a port from 1 to 65520: 16 ports begin there", "export HCCL_IF_BASE_PORT=60000",
                  host.name);
        continue;
      }
      plan = {*port, *port + k_port_count - 1};
    }
    // Without an NPU nobody asks for these ports: worth knowing, no hindrance.
    check_ports_free(found, host, plan, has_npu(cluster) ? Severity::error : Severity::warning);
    if (has_npu(cluster)) check_ports_reserved(found, host, plan);
    check_master_port(found, host);
    is_read = is_read && host.listen_ports && (host.reserved_ports || !has_npu(cluster));
  }
  if (!is_read) return std::move(found).or_skipped("ports", "/proc/net/tcp or sysctl not readable");
  return std::move(found).or_ok("ports", fmt::format("{}-{} are free", plan.first, plan.last));
}

namespace {

constexpr std::array<std::string_view, 9> k_health_names{
    "Success", "Socket fail", "Receive timeout", "Unreachable",  "Time exceeded",
    "Fault",   "Init",        "Thread error",    "Detect ip set"};

std::string health_text(int code) {
  return code >= 0 && static_cast<size_t>(code) < k_health_names.size()
             ? fmt::format("{} ({})", k_health_names[static_cast<size_t>(code)], code)
             : "unknown";
}

/// Adds findings about one card.
class CardCheck {
 public:
  CardCheck(Findings& found, const CardView& view, Severity severity)
      : found_(found), host_(*view.host), card_(*view.card), severity_(severity) {}

  void run() {
    check_health();
    if (card_.is_link_up == false)
      add(severity_, "link", "DOWN", "UP: cable, optics and switch port",
          fmt::format("hccn_tool -i {} -link -s up", card_.device_id));
    if (card_.net_health.value_or(0) != 0)
      add(severity_, "net_health", health_text(*card_.net_health), "Success (0)",
          fmt::format("hccn_tool -i {} -netdetect -s address <gateway of its subnet>",
                      card_.device_id));
    if (card_.netdetect && card_.netdetect->empty())
      add(Severity::warning, "netdetect", "no address", "the gateway of the card's subnet",
          fmt::format("hccn_tool -i {} -netdetect -s address <gateway>", card_.device_id));
    if (card_.has_lldp_neighbour == false)
      add(severity_, "lldp", "no neighbour", "the switch port at the other end",
          fmt::format("hccn_tool -i {} -lldp -g  (is LLDP on at the switch?)", card_.device_id));
    for (const PingResult& ping : card_.pings)
      if (ping.loss_percent > 0)
        add(Severity::error, "ping " + ping.address, fmt::format("{:.2f}% lost", ping.loss_percent),
            "0% lost",
            fmt::format("hccn_tool -i {} -ping -g address {}", card_.device_id, ping.address));
    for (const std::string& fault : card_.faults)
      add(Severity::warning, "hccn_tool", fault, "an answer",
          "run it by hand, as root: hccn_tool asks the driver");
  }

 private:
  void check_health() {
    if (card_.health.empty() || card_.health == "OK") return;
    bool is_fatal = card_.health == "Alarm" || card_.health == "Critical";
    add(is_fatal ? Severity::error : Severity::warning, "npu-smi health", card_.health, "OK",
        "npu-smi info -t health -i <npu>");
  }
  void add(Severity severity, std::string key, std::string seen, std::string wanted,
           std::string mend) {
    found_.add(severity, std::move(key), std::move(seen), std::move(wanted), std::move(mend),
               host_.name, card_.device_id);
  }

  Findings& found_;
  const Host& host_;
  const Card& card_;
  Severity severity_;
};

/// All on or all off; the smaller side is named.
void check_tls(Findings& found, const std::vector<CardView>& cards) {
  size_t on = 0, off = 0;
  for (const CardView& x : cards)
    if (x.card->is_tls_on) ++(*x.card->is_tls_on ? on : off);
  if (on == 0 || off == 0) return;
  bool is_off_wanted = off >= on;
  for (const CardView& x : cards) {
    if (!x.card->is_tls_on || *x.card->is_tls_on != is_off_wanted) continue;
    found.add(
        Severity::error, "tls switch", is_off_wanted ? "on" : "off",
        fmt::format("{}, as on {} other cards: equal on all, or links are not built",
                    is_off_wanted ? "off" : "on", is_off_wanted ? off : on),
        fmt::format("hccn_tool -i {} -tls -s enable {}", x.card->device_id, is_off_wanted ? 0 : 1),
        x.host->name, x.card->device_id);
  }
}

}  // namespace

std::vector<Finding> check_h11(const Cluster& cluster) {
  Findings found("H11");
  if (!has_npu(cluster)) return std::move(found).or_skipped("links", "no NPU");
  auto cards = cards_in_use(cluster);
  if (cards.empty()) return std::move(found).or_skipped("links", "no card was read");
  bool is_read = true;
  for (const CardView& x : cards) {
    CardCheck(found, x, network_severity(cluster)).run();
    is_read = is_read && x.card->is_link_up && x.card->net_health && x.card->is_tls_on;
  }
  check_tls(found, cards);
  if (!is_read) return std::move(found).or_skipped("links", "hccn_tool was not read on every card");
  return std::move(found).or_ok(
      "links", fmt::format("{} cards: link up, health Success, TLS {}", cards.size(),
                           *cards.front().card->is_tls_on ? "on" : "off"));
}

std::vector<Finding> check_h12(const Cluster& cluster) {
  Findings found("H12");
  if (!has_npu(cluster)) return std::move(found).or_skipped("firewall", "no NPU");
  bool is_read = true;
  for (const Host& host : cluster.hosts) {
    is_read = is_read && host.is_firewall_on;
    if (host.is_firewall_on != true) continue;
    bool is_ufw = host.firewall == "ufw";
    found.add(Severity::warning, "firewall", host.firewall + " is on",
              "off between the hosts of a job, or open for HCCL's, MASTER_PORT and link ports",
              is_ufw ? "ufw disable" : "systemctl stop firewalld", host.name);
  }
  if (!is_read)
    return std::move(found).or_skipped("firewall", "neither ufw nor firewalld answered",
                                       "ufw status; firewall-cmd --state");
  return std::move(found).or_ok("firewall", "off");
}

namespace {

/// From this many ranks on, the guide's 65535 is asked for; HCCL names no number, only "large":
/// 128 is 16 servers of 8.
constexpr size_t k_large_world = 128;
constexpr uint32_t k_large_queue = 65535;

size_t world_size_of(const Cluster& cluster) {
  size_t world = 0;
  for (const Process& process : cluster.processes)
    world = std::max<size_t>(world, process.world_size);
  size_t cards = 0;
  for (const Host& host : cluster.hosts) cards = std::max(cards, host.cards.size());
  return std::max(world, cards * server_count(cluster));
}

}  // namespace

std::vector<Finding> check_h13(const Cluster& cluster) {
  Findings found("H13");
  size_t world = world_size_of(cluster);
  uint32_t wanted = world >= k_large_world ? k_large_queue : static_cast<uint32_t>(world);
  bool is_read = !cluster.hosts.empty();
  for (const Host& host : cluster.hosts) {
    is_read = is_read && host.somaxconn && host.tcp_max_syn_backlog;
    for (auto [key, value] : {std::pair("net.core.somaxconn", host.somaxconn),
                              std::pair("net.ipv4.tcp_max_syn_backlog", host.tcp_max_syn_backlog)})
      if (value && *value < wanted)
        found.add(Severity::warning, key, std::to_string(*value),
                  fmt::format("{}: {} ranks connect to rank 0 at once", wanted, world),
                  fmt::format("sysctl -w {}={}{}", key, k_large_queue, where_note(host)),
                  host.name);
  }
  if (!is_read) return std::move(found).or_skipped("accept queue", "sysctl values not readable");
  const Host& first = cluster.hosts.front();
  return std::move(found).or_ok(
      "accept queue", fmt::format("somaxconn {}, tcp_max_syn_backlog {}", *first.somaxconn,
                                  *first.tcp_max_syn_backlog));
}

}  // namespace cohort::doctor
