#include "runtime/catalog/catalog.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace cohort::catalog {
namespace {

#define COHORT_BUILT(id, ...) Entry{true, #id, __VA_ARGS__},
#define COHORT_HOSTED(id, ...) Entry{true, #id, __VA_ARGS__},
#define COHORT_RULE(id, ...) Entry{true, #id, __VA_ARGS__},
#define COHORT_PLANNED(id, ...) Entry{false, #id, __VA_ARGS__},
constexpr Entry k_estimators[] = {
#include "runtime/catalog/advantage_estimators.def"
};
constexpr Entry k_losses[] = {
#include "runtime/catalog/policy_losses.def"
};
constexpr Entry k_aggregations[] = {
#include "runtime/catalog/loss_aggregations.def"
};
constexpr Entry k_kls[] = {
#include "runtime/catalog/kl_estimators.def"
};
constexpr Entry k_norms[] = {
#include "runtime/catalog/reward_norms.def"
};
constexpr Entry k_filters[] = {
#include "runtime/catalog/group_filters.def"
};
constexpr Entry k_environments[] = {
#include "runtime/catalog/environments.def"
};
constexpr Entry k_rewards[] = {
#include "runtime/catalog/rewards.def"
};

constexpr std::array<std::pair<uint32_t, std::string_view>, 12> k_needs = {
    {{need::critic, "a critic"},
     {need::reference, "a reference"},
     {need::groups, "groups"},
     {need::old_log_probs, "old log-probs"},
     {need::greedy, "a greedy answer"},
     {need::process, "a process"},
     {need::server, "a server"},
     {need::turns, "turns"},
     {need::parts, "several rewards"},
     {need::fresh_data, "fresh data"},
     {need::first_pass, "a first pass"},
     {need::card, "a card"}}};

}  // namespace

std::span<const Entry> entries(AdvEstimator) { return k_estimators; }
std::span<const Entry> entries(PolicyLossKind) { return k_losses; }
std::span<const Entry> entries(LossAgg) { return k_aggregations; }
std::span<const Entry> entries(KlKind) { return k_kls; }
std::span<const Entry> entries(NormMethod) { return k_norms; }
std::span<const Entry> entries(GroupFilter) { return k_filters; }
std::span<const Entry> entries(EnvType) { return k_environments; }
std::span<const Entry> entries(RewardType) { return k_rewards; }

std::string_view Entry::name() const {
  const std::string_view list = !roll.empty() ? roll : !verl.empty() ? verl : id;
  return list.substr(0, list.find(' '));
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::vector<Name> names(std::span<const Entry> rows, Dialect dialect) {
  std::vector<Name> out;
  for (size_t row = 0; row < rows.size(); ++row)
    for (std::string_view text : words(dialect == Dialect::verl ? rows[row].verl : rows[row].roll))
      out.push_back({text, row});
  return out;
}

std::string built_names(std::span<const Entry> rows, std::string_view last) {
  std::vector<std::string_view> built;
  for (const Entry& row : rows)
    if (row.is_built) built.push_back(row.name());
  std::string text;
  for (size_t i = 0; i < built.size(); ++i) {
    if (i > 0) text += i + 1 == built.size() ? last : ", ";
    text += built[i];
  }
  return text;
}

std::string needs_text(uint32_t needs) {
  std::string text;
  for (const auto& [bit, name] : k_needs)
    if ((needs & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace cohort::catalog
