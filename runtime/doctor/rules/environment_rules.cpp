/// Variables of each role: E01 to E07.
#include "runtime/doctor/rules/environment_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "runtime/base/text.hpp"
#include "runtime/doctor/rules/hccl_rule_parts.hpp"

namespace cohort::doctor {
namespace {

std::string value_of(const RoleEnvironment& role, const std::string& name) {
  auto found = role.env.find(name);
  return found == role.env.end() ? std::string() : found->second;
}

void add_to(Findings& found, const RoleEnvironment& role, Severity severity, std::string name,
            std::string seen, std::string wanted, std::string mend,
            std::optional<uint32_t> card = {}) {
  found.add(severity, role.role + ": " + name, std::move(seen), std::move(wanted), std::move(mend),
            role.host, card);
}

/// A warning, never more: the built-in engine serves the name "vllm" too and reads none of these.
bool is_vllm(const RoleEnvironment& role) { return role.is_rollout && role.engine == "vllm"; }

void check_one_visible(Findings& found, const EnvironmentFacts& facts,
                       const RoleEnvironment& role) {
  const std::string name = "ASCEND_RT_VISIBLE_DEVICES";
  auto set = role.env.find(name);
  if (set == role.env.end()) return;
  auto list = parse_visible_devices(set->second);
  if (!list) {
    add_to(found, role, Severity::error, name, in_quotes(set->second), "ids with commas: 0,1,2,3",
           "unset " + name);
    return;
  }
  std::set<uint32_t> present(facts.present_cards.begin(), facts.present_cards.end());
  std::set<uint32_t> seen, twice, absent;
  for (uint32_t id : *list) {
    if (!seen.insert(id).second) twice.insert(id);
    if (!present.contains(id)) absent.insert(id);
  }
  std::string all = fmt::format("{}", fmt::join(facts.present_cards, ","));
  if (!twice.empty())
    add_to(found, role, Severity::error, name, fmt::format("{} named twice", list_of(twice)),
           "each id once", fmt::format("export {}={}", name, fmt::join(seen, ",")));
  if (!absent.empty())
    add_to(found, role, Severity::error, name,
           fmt::format("{}: no card {}", in_quotes(set->second), list_of(absent)),
           "ids that npu-smi lists: " + all, fmt::format("export {}={}", name, all));
  // Ids of a mapping count among the visible cards, from 0.
  for (uint32_t id : role.cards)
    if (id >= list->size()) {
      add_to(found, role, Severity::error, name,
             fmt::format("{} cards are visible, the mapping uses card {}", list->size(), id),
             "as many visible cards as the mapping uses", fmt::format("export {}={}", name, all),
             id);
      break;
    }
}

std::vector<Finding> check_e01(const EnvironmentFacts& facts) {
  Findings found("E01");
  for (const RoleEnvironment& role : facts.roles) check_one_visible(found, facts, role);
  return std::move(found).or_ok("ASCEND_RT_VISIBLE_DEVICES", "unset, or names cards of this host");
}

std::vector<Finding> check_e02(const EnvironmentFacts& facts) {
  Findings found("E02");
  for (const RoleEnvironment& role : facts.roles) {
    std::string value = value_of(role, "TASK_QUEUE_ENABLE");
    if (value.empty()) continue;
    if (value != "0" && value != "1" && value != "2")
      add_to(found, role, Severity::error, "TASK_QUEUE_ENABLE", in_quotes(value), "0, 1 or 2",
             "export TASK_QUEUE_ENABLE=1");
    else if (is_vllm(role) && value == "2")
      add_to(found, role, Severity::warning, "TASK_QUEUE_ENABLE", in_quotes(value),
             "1 for vLLM workers (ROLL forces it there); 2 is for training",
             fmt::format("{}.system_envs.TASK_QUEUE_ENABLE=\"1\"", role.role));
  }
  return std::move(found).or_ok("TASK_QUEUE_ENABLE", "fits each role");
}

std::vector<Finding> check_e03(const EnvironmentFacts& facts) {
  Findings found("E03");
  for (const RoleEnvironment& role : facts.roles)
    if (std::string value = value_of(role, "PYTORCH_NPU_ALLOC_CONF");
        is_vllm(role) && value.find("expandable_segments:True") != std::string::npos)
      add_to(found, role, Severity::warning, "PYTORCH_NPU_ALLOC_CONF", in_quotes(value),
             "no expandable_segments: vLLM's memory pool clashes with them (ROLL empties it there)",
             fmt::format("{}.system_envs.PYTORCH_NPU_ALLOC_CONF=\"\"", role.role));
  return std::move(found).or_ok("PYTORCH_NPU_ALLOC_CONF", "no expandable segments under a vLLM");
}

std::vector<Finding> check_e04(const EnvironmentFacts& facts) {
  Findings found("E04");
  for (const RoleEnvironment& role : facts.roles)
    if (std::string value = value_of(role, "VLLM_ASCEND_ENABLE_NZ"); is_vllm(role) && value != "0")
      add_to(found, role, Severity::warning, "VLLM_ASCEND_ENABLE_NZ", in_quotes(value),
             "0: weights in NZ layout come out wrong when they are reloaded in a run",
             fmt::format("{}.system_envs.VLLM_ASCEND_ENABLE_NZ=\"0\"", role.role));
  return std::move(found).or_ok("VLLM_ASCEND_ENABLE_NZ", "0 for each vLLM role, or none");
}

std::vector<Finding> check_e05(const EnvironmentFacts& facts) {
  Findings found("E05");
  std::set<std::pair<std::string, uint32_t>> told;
  for (size_t i = 0; i < facts.roles.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const RoleEnvironment &role = facts.roles[i], &other = facts.roles[j];
      if (role.host != other.host || !value_of(role, "HCCL_NPU_SOCKET_PORT_RANGE").empty())
        continue;
      auto shared = std::find_first_of(role.cards.begin(), role.cards.end(), other.cards.begin(),
                                       other.cards.end());
      if (shared == role.cards.end() || !told.emplace(role.host, *shared).second) continue;
      add_to(found, role, Severity::warning, "HCCL_NPU_SOCKET_PORT_RANGE",
             fmt::format("not set, and {} is on card {} too", other.role, *shared),
             "auto, where roles are processes of their own: two on one card both bind device port "
             "16666",
             "export HCCL_NPU_SOCKET_PORT_RANGE=auto", *shared);
    }
  return std::move(found).or_ok("HCCL_NPU_SOCKET_PORT_RANGE", "set, or no card has two roles");
}

std::vector<Finding> check_e06(const EnvironmentFacts& facts) {
  Findings found("E06");
  if (!facts.is_strict)
    return std::move(found).or_skipped("determinism", "determinism: strict is not asked for");
  constexpr std::pair<const char*, const char*> k_wanted[] = {{"HCCL_DETERMINISTIC", "true"},
                                                              {"LCCL_DETERMINISTIC", "1"},
                                                              {"ATB_MATMUL_SHUFFLE_K_ENABLE", "0"},
                                                              {"CLOSE_MATMUL_K_SHIFT", "1"}};
  std::set<std::string> told;
  for (const RoleEnvironment& role : facts.roles)
    for (auto [name, wanted] : k_wanted) {
      std::string value = value_of(role, name);
      if (value == wanted || !told.insert(role.host + name + value).second) continue;
      add_to(found, role, Severity::warning, name, in_quotes(value),
             fmt::format("{}: sums are taken in another order otherwise", wanted),
             fmt::format("export {}={}", name, wanted));
    }
  return std::move(found).or_ok("determinism", "the variables of strict runs are set");
}

std::vector<Finding> check_e07(const EnvironmentFacts& facts) {
  Findings found("E07");
  if (!facts.interfaces)
    return std::move(found).or_skipped("HCCL_SOCKET_IFNAME", "the interfaces were not read");
  std::set<std::string> told;
  for (const RoleEnvironment& role : facts.roles) {
    std::string value = value_of(role, "HCCL_SOCKET_IFNAME");
    if (value.empty() || !told.insert(role.host + " " + value).second) continue;
    // "=eth0" is exact, "^eth" excludes, "eth" is a prefix.
    bool is_exact = value.front() == '=';
    if (value.front() == '^') continue;
    std::string name = is_exact ? value.substr(1) : value;
    auto is_named = [&](std::string_view part) {
      return std::any_of(
          facts.interfaces->begin(), facts.interfaces->end(),
          [&](const std::string& x) { return is_exact ? x == part : x.starts_with(part); });
    };
    if (is_named(name.substr(0, name.find(',')))) continue;
    add_to(found, role, Severity::error, "HCCL_SOCKET_IFNAME", in_quotes(value),
           fmt::format("an interface of this host: {}", fmt::join(*facts.interfaces, ", ")),
           "ip addr; export HCCL_SOCKET_IFNAME=<interface>");
  }
  return std::move(found).or_ok("HCCL_SOCKET_IFNAME", "unset, or an interface of this host");
}

}  // namespace

std::optional<std::vector<uint32_t>> parse_visible_devices(std::string_view text) {
  constexpr uint32_t k_max_id = 65535;
  constexpr size_t k_max_ids = 1024;
  std::vector<uint32_t> ids;
  if (text.empty()) return ids;
  for (bool is_last = false; !is_last;) {
    size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    is_last = comma == std::string_view::npos;
    if (!is_last) text.remove_prefix(comma + 1);
    part = trim(part, " ");
    uint32_t first = 0, last = 0;
    const char* end = part.data() + part.size();
    auto [at, error] = std::from_chars(part.data(), end, first);
    if (error != std::errc()) return std::nullopt;
    last = first;
    if (at != end && *at == '-') {
      auto [at_last, error_last] = std::from_chars(at + 1, end, last);
      if (error_last != std::errc()) return std::nullopt;
      at = at_last;
    }
    if (at != end || last < first || last > k_max_id || ids.size() + (last - first) >= k_max_ids)
      return std::nullopt;
    for (uint32_t id = first; id <= last; ++id) ids.push_back(id);
  }
  return ids;
}

std::vector<Finding> check_environment(const EnvironmentFacts& facts) {
  return run_rules(facts,
                   {check_e01, check_e02, check_e03, check_e04, check_e05, check_e06, check_e07});
}

}  // namespace cohort::doctor
