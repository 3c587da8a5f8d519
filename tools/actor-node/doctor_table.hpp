#pragma once
/// How the doctor's findings are shown: one line each, errors first. Pure.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/plan/hccl_cluster.hpp"
#include "runtime/platform/probe.hpp"

namespace cohort {

struct FindingCounts {
  size_t errors = 0, warnings = 0, ok = 0, skipped = 0;
};
FindingCounts count_findings(const std::vector<plan::hccl::Finding>& findings);

/// Lines for a person: errors, warnings, then what is right and what was skipped (rules skipped for
/// one reason share a line), then the counts.
std::string findings_table(const platform::HostReport& here,
                           const std::vector<plan::hccl::Finding>& findings);

/// The same for programs, with this host's facts for `doctor --hosts`.
nlohmann::json findings_json(const platform::HostReport& here,
                             const std::vector<plan::hccl::Finding>& findings);

}  // namespace cohort
