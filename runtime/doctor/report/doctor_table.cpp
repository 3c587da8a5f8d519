#include "runtime/doctor/report/doctor_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/doctor/report/doctor_facts.hpp"

namespace cohort::doctor {
namespace {

std::string line_of(const Finding& x) {
  std::string line = fmt::format("{:<8} {} ", to_string(x.severity), x.rule);
  if (x.severity == Severity::error || x.severity == Severity::warning) {
    if (!x.host.empty()) line += x.host + (x.card ? " " : ": ");
    if (x.card) line += fmt::format("card {}: ", *x.card);
  }
  line += x.key + ": " + x.seen;
  if (!x.wanted.empty()) line += "; wanted: " + x.wanted;
  if (!x.mend.empty()) line += "; mend: " + x.mend;
  return line + "\n";
}

/// "skipped  H01 H02 H03: no NPU", a line for each reason, in order of its first rule.
std::string skipped_lines(const std::vector<Finding>& findings) {
  std::vector<std::pair<std::string, std::vector<const Finding*>>> reasons;
  for (const Finding& x : findings) {
    if (x.severity != Severity::skipped) continue;
    auto reason = std::find_if(reasons.begin(), reasons.end(),
                               [&](const auto& r) { return r.first == x.seen; });
    if (reason == reasons.end()) reason = reasons.insert(reasons.end(), {x.seen, {}});
    reason->second.push_back(&x);
  }
  std::string text;
  for (const auto& [reason, group] : reasons) {
    text += "skipped ";
    for (const Finding* x : group) text += " " + x->rule;
    text += (group.size() == 1 ? " " + group[0]->key : std::string()) + ": " + reason;
    if (group.size() == 1 && !group[0]->mend.empty()) text += "; ask: " + group[0]->mend;
    text += "\n";
  }
  return text;
}

}  // namespace

FindingCounts count_findings(const std::vector<Finding>& findings) {
  auto count = [&](Severity severity) {
    return static_cast<size_t>(std::ranges::count(findings, severity, &Finding::severity));
  };
  return {count(Severity::error), count(Severity::warning), count(Severity::ok),
          count(Severity::skipped)};
}

std::string findings_table(const HostReport& here, const std::vector<Finding>& findings) {
  std::string text = fmt::format("{}: {}: {}\n", here.host.name, to_string(here.machine.platform),
                                 here.machine.evidence);
  for (const std::string& gpu : here.gpus) text += "  " + gpu + "\n";
  for (Severity severity : {Severity::error, Severity::warning, Severity::ok})
    for (const Finding& x : findings)
      if (x.severity == severity) text += line_of(x);
  text += skipped_lines(findings);
  FindingCounts counts = count_findings(findings);
  return text + fmt::format("{} errors, {} warnings, {} ok, {} skipped\n", counts.errors,
                            counts.warnings, counts.ok, counts.skipped);
}

nlohmann::json findings_json(const HostReport& here, const std::vector<Finding>& findings) {
  FindingCounts counts = count_findings(findings);
  nlohmann::json out{{"host", here.host.name},
                     {"platform", std::string(to_string(here.machine.platform))},
                     {"evidence", here.machine.evidence},
                     {"series", std::string(to_string(here.series))},
                     {"findings", nlohmann::json::array()},
                     {"summary",
                      {{"errors", counts.errors},
                       {"warnings", counts.warnings},
                       {"ok", counts.ok},
                       {"skipped", counts.skipped}}},
                     {"facts", to_json(here.host)}};
  for (const Finding& finding : findings) out["findings"].push_back(to_json(finding));
  return out;
}

}  // namespace cohort::doctor
