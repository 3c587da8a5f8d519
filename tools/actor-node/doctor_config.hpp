#pragma once
/// Loads the config that doctor and rescale are given, in either dialect, without asking whether
/// its checkpoints are on this host. Reads files only.
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort {

struct ConfigWords {
  std::string dialect = "roll";  // or verl
  std::string path = "";         // verl: a file or the first key=value
  std::vector<std::string> overrides = {};
  bool is_given() const { return !path.empty() || dialect != "roll"; }
};

/// Returns Errc::invalid_argument for an unknown dialect, else what load() and load_verl() return.
Expected<config::RunConfig> load_words(const ConfigWords& words);

}  // namespace cohort
