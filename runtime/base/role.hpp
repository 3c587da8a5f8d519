#pragma once
/// Role: who acts in a run. The names are those of ROLL's YAML where it has one; users, streams and
/// messages show them, so they are stable.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

/// The numbers are on the wire: append only.
enum class Role : uint8_t {
  actor_train = 0,
  actor_infer = 1,  // rollout
  reference = 2,
  critic = 3,
  rewards = 4,
  environments = 5,
  driver = 6,
  placement = 7,
  recorder = 8,
  node = 9,
  teacher = 10,
};

inline constexpr std::array<std::string_view, 11> k_role_names = {
    "actor_train", "actor_infer", "reference", "critic", "rewards", "environments",
    "driver",      "placement",   "recorder",  "node",   "teacher"};

/// Returns the stable name, e.g. "actor_train"; "unknown" if `role` is no enumerator.
constexpr std::string_view to_string(Role role) {
  const auto number = static_cast<size_t>(role);
  return number < k_role_names.size() ? k_role_names[number] : "unknown";
}

/// Returns the role of that name.
constexpr std::optional<Role> role_of(std::string_view name) {
  for (size_t i = 0; i < k_role_names.size(); ++i)
    if (k_role_names[i] == name) return static_cast<Role>(i);
  return std::nullopt;
}

/// A text is a role's name: roles of a plan and of messages to people are texts.
constexpr bool operator==(std::string_view name, Role role) { return name == to_string(role); }

/// Returns whether a role computes log-probabilities with weights that never change.
constexpr bool is_frozen(std::string_view role) {
  return role == Role::reference || role == Role::teacher;
}

}  // namespace cohort
