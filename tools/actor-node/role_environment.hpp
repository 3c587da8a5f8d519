#pragma once
/// What a process that holds cards finds in its environment: the system_envs of the roles on its
/// cards, and the variable that shows it these cards alone. Pure.
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/plan/place/placement.hpp"

namespace cohort {

/// Variables and their values.
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Returns Errc::config if two roles of the process want a variable to have different values.
Expected<Environment> role_environment(const config::RunConfig& config,
                                       const plan::PlacementPlan& plan,
                                       const std::vector<CardId>& cards);

/// Returns the variable by which a platform's runtime is shown fewer devices; empty on cpu.
std::string_view visible_variable(config::Platform platform);

/// Returns the value that shows a process its cards alone, in their order: local indices, or what
/// the node's own value (`inherited`, "4,5,6,7") has at these places. Errc::config if it has fewer.
Expected<std::string> visible_devices(const std::string& inherited,
                                      const std::vector<CardId>& cards, uint32_t cards_per_node);

}  // namespace cohort
