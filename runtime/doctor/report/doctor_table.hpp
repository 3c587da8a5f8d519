#pragma once
/// How the doctor's findings are shown: one line each, errors first. Pure.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/doctor/probes/probe.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

struct FindingCounts {
  size_t errors = 0, warnings = 0, ok = 0, skipped = 0;
};
FindingCounts count_findings(const std::vector<Finding>& findings);

/// Lines for a person: errors, warnings, then what is right and what was skipped (rules skipped for
/// one reason share a line), then the counts.
std::string findings_table(const HostReport& here, const std::vector<Finding>& findings);

/// The same for programs, with this host's facts for `doctor --hosts`.
nlohmann::json findings_json(const HostReport& here, const std::vector<Finding>& findings);

}  // namespace cohort::doctor
