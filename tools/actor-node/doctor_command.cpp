#include "tools/actor-node/doctor_command.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>

#include "runtime/doctor/probes/probe.hpp"
#include "runtime/doctor/report/doctor_facts.hpp"
#include "runtime/doctor/report/doctor_job.hpp"
#include "runtime/doctor/report/doctor_table.hpp"
#include "runtime/doctor/rules/environment_rules.hpp"
#include "runtime/doctor/rules/hccl_rules.hpp"
#include "runtime/platform/process.hpp"

namespace cohort {

using namespace doctor;
namespace {

using doctor::Finding;

int fail(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.detail.c_str());
  return 2;
}

Expected<std::optional<doctor::Series>> series_named(const std::string& name) {
  using doctor::Series;
  if (name.empty()) return std::optional<Series>();
  if (name == "training" || name == "t") return std::optional(Series::training);
  if (name == "a2") return std::optional(Series::a2);
  if (name == "a3") return std::optional(Series::a3);
  return Error{Errc::invalid_argument, fmt::format("--series {}: one of training, a2, a3", name)};
}

Expected<std::optional<config::RunConfig>> load_config(const DoctorCommand& command) {
  if (!command.config.is_given()) return std::optional<config::RunConfig>();
  COHORT_ASSIGN(config::RunConfig config, load_words(command.config));
  return std::optional(std::move(config));
}

/// Rules on variables of NPU engines say nothing elsewhere.
std::vector<Finding> environment_findings(const DoctorJob& job) {
  if (job.cluster.series != doctor::Series::unknown || !job.environment.present_cards.empty())
    return check_environment(job.environment);
  std::vector<Finding> skipped;
  for (const char* rule : {"E01", "E02", "E03", "E04", "E05", "E06", "E07"}) {
    Finding finding;
    finding.rule = rule;
    finding.severity = doctor::Severity::skipped;
    finding.key = "environment";
    finding.seen = "no NPU";
    skipped.push_back(std::move(finding));
  }
  return skipped;
}

}  // namespace

CLI::App* add_doctor_command(CLI::App& app, DoctorCommand& command) {
  CLI::App* doctor =
      app.add_subcommand("doctor", "check this host, and a config's job on it, before a run");
  doctor->add_option("config", command.config.path, "YAML file; without it the host alone");
  doctor->add_option("overrides", command.config.overrides, "key=value changes");
  doctor->add_option("--dialect", command.config.dialect, "roll or verl")->capture_default_str();
  doctor->add_flag("--json", command.is_json, "for programs, with the facts that --hosts reads");
  doctor->add_option("--hosts", command.host_files, "reports of the other hosts (--json there)");
  doctor->add_option("--ping", command.ping, "device addresses of other hosts, from every card");
  doctor->add_option("--series", command.series, "judge the config as on: training, a2, a3");
  doctor->add_option("--start-skew", command.start_skew_s,
                     "[s] between the first and the last process to start");
  doctor->add_option("--phase-skew", command.phase_skew_s,
                     "[s] that a rank may wait for another inside a step");
  doctor->add_option("--timeout", command.tool_timeout_s, "[s] for one answer of a tool")
      ->check(CLI::Range(0.01, 600.0));
  doctor->add_option("--sysroot", command.sysroot, "folder before /proc, /dev, /sys and /usr");
  doctor->footer(
      "Exit codes: 0 no error, 1 at least one error, 2 the configuration is wrong.\n"
      "Rules and their sources: docs/doctor.md.");
  return doctor;
}

int doctor_command(const DoctorCommand& command) {
  auto series = series_named(command.series);
  if (!series) return fail(series.error());
  auto config = load_config(command);
  if (!config) return fail(config.error());
  std::vector<doctor::Host> others;
  for (const std::string& file : command.host_files) {
    auto host = read_host_facts(file);
    if (!host) return fail(host.error());
    others.push_back(std::move(*host));
  }
  doctor::ProbeOptions probe;
  probe.sysroot = command.sysroot;
  probe.env = platform::process_environment();
  probe.time_limit = std::chrono::milliseconds(std::lround(command.tool_timeout_s * 1000));
  probe.ping_addresses = command.ping;
  if (*config) probe.disk_path = (*config)->output_dir;
  doctor::HostReport here = doctor::probe_host(probe);
  DoctorJobOptions options;
  options.series = *series;
  if (command.start_skew_s >= 0) options.start_skew_s = command.start_skew_s;
  if (command.phase_skew_s >= 0) options.phase_skew_s = command.phase_skew_s;
  DoctorJob job = describe_job(here, others, *config ? &**config : nullptr, options);
  std::vector<Finding> findings = check_machine(job.machine);
  for (auto&& part : {check_hccl(job.cluster), environment_findings(job)})
    findings.insert(findings.end(), part.begin(), part.end());
  std::string text = command.is_json ? findings_json(here, findings).dump(2) + "\n"
                                     : findings_table(here, findings);
  std::fputs(text.c_str(), stdout);
  return count_findings(findings).errors > 0 ? 1 : 0;
}

}  // namespace cohort
