#pragma once
/// Which filter judges the groups of a domain. Pure.
#include <string>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// Returns the filter of the groups with this tag: their domain's, else dynamic_sampling's.
const QueryFilter& group_filter_of(const RunConfig& config, const std::string& tag);

/// Returns whether any group may be left out of a step.
bool has_group_filter(const RunConfig& config);

}  // namespace cohort::config
