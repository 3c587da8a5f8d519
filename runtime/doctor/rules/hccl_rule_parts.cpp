#include "runtime/doctor/rules/hccl_rule_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "runtime/base/text.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"

namespace cohort::doctor {

void Findings::add(Severity severity, std::string key, std::string seen, std::string wanted,
                   std::string mend, std::string host, std::optional<uint32_t> card) {
  found_.push_back({rule_, severity, std::move(host), card, std::move(key), std::move(seen),
                    std::move(wanted), std::move(mend)});
}

std::vector<Finding> Findings::or_ok(std::string key, std::string seen) && {
  if (found_.empty()) add(Severity::ok, std::move(key), std::move(seen), "", "");
  return std::move(found_);
}

std::vector<Finding> Findings::or_skipped(std::string key, std::string why, std::string mend) && {
  if (found_.empty()) add(Severity::skipped, std::move(key), std::move(why), "", std::move(mend));
  return std::move(found_);
}

std::vector<std::pair<size_t, std::set<uint32_t>>> RoleView::servers() const {
  std::map<size_t, std::set<uint32_t>> found;
  for (const Process* process : processes) found[process->host].insert(process->device_id);
  return {found.begin(), found.end()};
}

std::vector<RoleView> roles_of(const Cluster& cluster) {
  std::vector<RoleView> roles;
  for (const Process& process : cluster.processes) {
    auto role = std::find_if(roles.begin(), roles.end(),
                             [&](const RoleView& x) { return x.role == process.role; });
    if (role == roles.end()) role = roles.insert(roles.end(), {process.role, {}});
    role->processes.push_back(&process);
  }
  return roles;
}

std::vector<CardView> cards_in_use(const Cluster& cluster) {
  std::set<std::pair<size_t, uint32_t>> used;
  for (const Process& process : cluster.processes) used.emplace(process.host, process.device_id);
  std::vector<CardView> cards;
  for (size_t i = 0; i < cluster.hosts.size(); ++i)
    for (const Card& card : cluster.hosts[i].cards)
      if (!cluster.is_job_known || used.contains({i, card.device_id}))
        cards.push_back({&cluster.hosts[i], &card});
  return cards;
}

bool has_npu(const Cluster& cluster) {
  return cluster.series != Series::unknown ||
         std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                     [](const Host& host) { return !host.cards.empty(); });
}

size_t server_count(const Cluster& cluster) {
  return std::max<size_t>(cluster.hosts.size(), cluster.host_count);
}

std::string host_name(const Cluster& cluster, size_t index) {
  if (index < cluster.hosts.size() && !cluster.hosts[index].name.empty())
    return cluster.hosts[index].name;
  return fmt::format("node {}", index);
}

Severity judged(const Cluster& cluster) {
  return cluster.is_job_known ? Severity::error : Severity::warning;
}

Severity network_severity(const Cluster& cluster) {
  return cluster.is_job_known && server_count(cluster) == 1 ? Severity::warning : Severity::error;
}

std::string list_of(const std::set<uint32_t>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string in_quotes(std::string_view text) {
  return text.empty() ? std::string("not set") : fmt::format("\"{}\"", text);
}

std::string_view env_of(const Host& host, std::string_view name) {
  auto found = host.env.find(std::string(name));
  return found == host.env.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view to_string(Severity x) { return name_in({"ok", "warning", "error", "skipped"}, x); }

std::string_view to_string(Dtype x) {
  return name_in({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16",
                  "bf16", "fp32", "fp64"},
                 x);
}

}  // namespace cohort::doctor
