#pragma once
/// `actor-node doctor [CONFIG] [key=value …]`: reads this host, judges it (and the config's job) by
/// the rules of docs/doctor.md, prints one line per finding with the command that mends it.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/actor-node/doctor_config.hpp"

namespace cohort {

struct DoctorCommand {
  ConfigWords config;  // none given: the host alone
  bool is_json = false;
  std::string sysroot;                  // before /proc, /dev, /sys, /usr
  std::vector<std::string> host_files;  // reports of the job's other hosts (--json there)
  std::vector<std::string> ping;        // device addresses of other hosts
  std::string series;                   // "", training, a2 or a3: judge as if
  double tool_timeout_s = 10;
  double start_skew_s = -1, phase_skew_s = -1;  // below 0: not given
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_doctor_command(CLI::App& app, DoctorCommand& command);

/// Returns the exit code: 0 no error, 1 at least one error, 2 the config or an option is wrong.
int doctor_command(const DoctorCommand& command);

}  // namespace cohort
