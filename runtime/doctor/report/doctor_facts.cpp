#include "runtime/doctor/report/doctor_facts.hpp"

#include <fmt/format.h>

#include "runtime/doctor/probes/probe.hpp"

namespace cohort::doctor {
namespace {

using nlohmann::json;

constexpr std::string_view k_shared_prefixes[] = {"HCCL_",
                                                  "ASCEND_RT_",
                                                  "MASTER_",
                                                  "NPU_",
                                                  "LCCL_",
                                                  "ATB_MATMUL",
                                                  "CLOSE_MATMUL",
                                                  "VLLM_ASCEND_",
                                                  "TASK_QUEUE_ENABLE",
                                                  "PYTORCH_NPU_ALLOC_CONF"};

bool is_shared(const std::string& name) {
  if (name == "RANK" || name == "WORLD_SIZE") return true;
  for (std::string_view prefix : k_shared_prefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

template <class T>
void put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

template <class T>
void take(const json& object, const char* key, std::optional<T>& value) {
  if (auto found = object.find(key); found != object.end()) value = found->get<T>();
}

/// Calls f(name, value) for each fact of a card that may not be known.
template <class AnyCard, class F>
void each_known(AnyCard& x, F f) {
  f("ip", x.ip), f("netmask", x.netmask), f("netdetect", x.netdetect);
  f("is_link_up", x.is_link_up), f("net_health", x.net_health), f("is_tls_on", x.is_tls_on);
  f("has_lldp_neighbour", x.has_lldp_neighbour);
}

json to_json(const PortRange& range) { return json::array({range.first, range.last}); }

PortRange range_from(const json& value) {
  return {value.at(0).get<uint16_t>(), value.at(1).get<uint16_t>()};
}

json to_json(const Card& card) {
  json out{{"device_id", card.device_id}, {"name", card.name},     {"health", card.health},
           {"hbm_mib", card.hbm_mib},     {"faults", card.faults}, {"is_ip_read", card.is_ip_read}};
  each_known(card, [&](const char* key, const auto& value) { put(out, key, value); });
  for (const auto& ping : card.pings)
    out["pings"].push_back({{"address", ping.address}, {"loss_percent", ping.loss_percent}});
  return out;
}

Card card_from(const json& in) {
  Card card;
  card.device_id = in.at("device_id").get<uint32_t>();
  card.name = in.value("name", "");
  card.health = in.value("health", "");
  card.hbm_mib = in.value("hbm_mib", uint64_t{0});
  card.is_ip_read = in.value("is_ip_read", false);
  card.faults = in.value("faults", std::vector<std::string>());
  each_known(card, [&](const char* key, auto& value) { take(in, key, value); });
  for (const json& ping : in.value("pings", json::array()))
    card.pings.push_back(
        {ping.at("address").get<std::string>(), ping.at("loss_percent").get<double>()});
  return card;
}

Host host_from(const json& in) {
  Host host;
  host.name = in.at("name").get<std::string>();
  for (const json& card : in.at("cards")) host.cards.push_back(card_from(card));
  const json versions = in.value("versions", json::object());
  host.versions = {versions.value("cann", ""), versions.value("driver", ""),
                   versions.value("firmware", "")};
  take(in, "somaxconn", host.somaxconn);
  take(in, "tcp_max_syn_backlog", host.tcp_max_syn_backlog);
  if (auto found = in.find("reserved_ports"); found != in.end()) {
    host.reserved_ports.emplace();
    for (const json& range : *found) host.reserved_ports->push_back(range_from(range));
  }
  if (auto found = in.find("ephemeral_ports"); found != in.end())
    host.ephemeral_ports = range_from(*found);
  take(in, "listen_ports", host.listen_ports);
  take(in, "is_firewall_on", host.is_firewall_on);
  host.firewall = in.value("firewall", "");
  host.is_container = in.value("is_container", false);
  take(in, "interfaces", host.interfaces);
  host.env = in.value("env", std::map<std::string, std::string>());
  return host;
}

}  // namespace

json to_json(const Host& host) {
  json out{{"name", host.name},
           {"cards", json::array()},
           {"versions",
            {{"cann", host.versions.cann},
             {"driver", host.versions.driver},
             {"firmware", host.versions.firmware}}},
           {"firewall", host.firewall},
           {"is_container", host.is_container},
           {"env", json::object()}};
  for (const Card& card : host.cards) out["cards"].push_back(to_json(card));
  put(out, "somaxconn", host.somaxconn);
  put(out, "tcp_max_syn_backlog", host.tcp_max_syn_backlog);
  if (host.reserved_ports) {
    out["reserved_ports"] = json::array();
    for (const PortRange& range : *host.reserved_ports)
      out["reserved_ports"].push_back(to_json(range));
  }
  if (host.ephemeral_ports) out["ephemeral_ports"] = to_json(*host.ephemeral_ports);
  put(out, "listen_ports", host.listen_ports);
  put(out, "is_firewall_on", host.is_firewall_on);
  put(out, "interfaces", host.interfaces);
  for (const auto& [name, value] : host.env)
    if (is_shared(name)) out["env"][name] = value;
  return out;
}

json to_json(const Finding& finding) {
  json out{{"rule", finding.rule}, {"severity", std::string(to_string(finding.severity))},
           {"host", finding.host}, {"key", finding.key},
           {"seen", finding.seen}, {"wanted", finding.wanted},
           {"mend", finding.mend}};
  if (finding.card) out["card"] = *finding.card;
  return out;
}

Expected<Host> read_host_facts(const std::string& path) {
  constexpr size_t k_max_bytes = size_t{64} << 20;
  const auto text = read_text(path, k_max_bytes + 1);
  if (!text) return Error{Errc::io, path + ": cannot be read"};
  if (text->size() > k_max_bytes)
    return Error{Errc::corrupt, path + ": over 64 MiB, which no report of a host is"};
  try {
    return host_from(json::parse(*text).at("facts"));
  } catch (const json::exception& e) {
    return Error{Errc::corrupt,
                 fmt::format("{}: not a report of `actor-node doctor --json`: {}", path, e.what())};
  }
}

}  // namespace cohort::doctor
