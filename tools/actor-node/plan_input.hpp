#pragma once
/// From the command's words to a planned job: reads the config, the shapes of local checkpoints and
/// the size of the built-in vocabulary; everything behind it is pure.
#include <string>
#include <vector>

#include "runtime/job/job_spec.hpp"

namespace cohort {

struct PlanInput {
  std::string dialect = "roll";  // or verl
  std::string config_path;       // a YAML file; verl: may be empty
  std::vector<std::string> overrides;
  std::string config_folder, config_name;  // verl: Hydra's --config-path and --config-name
  std::string card;                        // card type; empty: the config's, or assumed
};

/// Returns Errc::invalid_argument for an unknown dialect, else what load() and load_verl() return.
/// `check_files`: whether checkpoints must be there (a run: yes; a plan: no).
Expected<config::RunConfig> load_config(const PlanInput& input, bool check_files);

struct PlannedJob {
  config::RunConfig config;
  job::Job job;
  plan::JobPlan plan;
};

/// Returns the errors of load_config, job_of and plan_job; Errc::config for a config.json that is
/// there and cannot be read.
Expected<PlannedJob> plan_input(const PlanInput& input);

}  // namespace cohort
