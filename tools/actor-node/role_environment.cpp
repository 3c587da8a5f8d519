#include "tools/actor-node/role_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cohort {
namespace {

const config::WorkerConfig* worker_of(const config::RunConfig& config, const std::string& role) {
  if (role == Role::actor_train) return &config.actor_train;
  if (role == Role::actor_infer) return &config.actor_infer;
  if (role == Role::reference) return &config.reference;
  if (role == Role::critic) return &config.critic;
  if (role == Role::teacher) return &config.teacher;
  return nullptr;
}

}  // namespace

Expected<Environment> role_environment(const config::RunConfig& config,
                                       const plan::PlacementPlan& plan,
                                       const std::vector<CardId>& cards) {
  std::map<std::string, std::pair<std::string, std::string>> found;  // value and whose it is
  for (const plan::RoleSpec& role : plan.roles) {
    const config::WorkerConfig* worker = worker_of(config, role.role);
    const bool is_here = std::ranges::any_of(cards, [&](CardId card) {
      return std::ranges::find(role.cards, card) != role.cards.end();
    });
    if (worker == nullptr || !is_here) continue;
    for (const auto& [name, value] : worker->system_envs) {
      auto [entry, is_new] = found.try_emplace(name, value, role.role);
      if (!is_new && entry->second.first != value)
        return Error{Errc::config,
                     fmt::format("system_envs.{}: {} wants \"{}\", {} \"{}\", and cards {} are in "
                                 "one process; give one value, or use one process per card",
                                 name, entry->second.second, entry->second.first, role.role, value,
                                 plan::to_text(cards))};
    }
  }
  Environment environment;
  for (const auto& [name, entry] : found) environment.emplace_back(name, entry.first);
  return environment;
}

std::string_view visible_variable(config::Platform platform) {
  if (platform == config::Platform::cuda) return "CUDA_VISIBLE_DEVICES";
  if (platform == config::Platform::npu) return "ASCEND_RT_VISIBLE_DEVICES";
  return "";
}

Expected<std::string> visible_devices(const std::string& inherited,
                                      const std::vector<CardId>& cards, uint32_t cards_per_node) {
  std::vector<std::string> shown;
  for (size_t begin = 0; begin < inherited.size();) {
    const size_t end = std::min(inherited.find(',', begin), inherited.size());
    shown.push_back(inherited.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string text;
  for (CardId card : cards) {
    const uint32_t local = card.value % cards_per_node;
    if (!inherited.empty() && local >= shown.size())
      return Error{Errc::config,
                   fmt::format("card {} is device {} of its node, which shows {} ({})", card.value,
                               local, shown.size(), inherited)};
    text += (text.empty() ? "" : ",") + (inherited.empty() ? std::to_string(local) : shown[local]);
  }
  return text;
}

}  // namespace cohort
