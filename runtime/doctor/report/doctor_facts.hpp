#pragma once
/// A host's facts as JSON, so that one doctor can judge the hosts of a whole job: `doctor --json`
/// on each host writes them, `doctor --hosts FILE…` on one reads them. Of the environment only
/// variables that a rule reads are written: a shell's environment may hold secrets.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

nlohmann::json to_json(const Host& host);
nlohmann::json to_json(const Finding& finding);

/// Reads the `facts` of a report written by `doctor --json`. Returns Errc::io if the file cannot be
/// read, Errc::corrupt with the file's name if it is no such report.
Expected<Host> read_host_facts(const std::string& path);

}  // namespace cohort::doctor
