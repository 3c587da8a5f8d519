#pragma once
/// The names under which users of ROLL and verl know numbers of a step's row: written beside ours,
/// where they mean the same. The table is that of docs/telemetry.md. Pure.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/observe/metrics.hpp"

namespace cohort::actors {

struct MetricName {
  config::Dialect dialect = config::Dialect::roll;
  std::string_view theirs, ours;
  uint32_t only_if = 0;  // bits of requirements that the config must meet
};

/// What of a config decides whether two numbers mean the same.
struct MetricRequirement {
  uint32_t bit = 0;
  std::string_view text;
  bool (*is_met)(const config::RunConfig& config) = nullptr;
};

std::span<const MetricName> metric_names();
std::span<const MetricRequirement> metric_requirements();

/// Of the table the names that a run of `config` writes, as telemetry.metric_names says.
std::vector<MetricName> metric_names_of(const config::RunConfig& config);

/// Adds each name whose number the row has; a number that has the name already stays.
void add_names(std::span<const MetricName> names, observe::MetricRow& row);

}  // namespace cohort::actors
