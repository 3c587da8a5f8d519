#pragma once
/// What a config asks for and this version plans but does not run. load() warns of each,
/// actors::preflight refuses the first: one list for both. Pure.
#include <vector>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// One note per feature: the key, where it is set, and the remedy. Empty: the config can run.
std::vector<Note> not_built(const RunConfig& config);

}  // namespace cohort::config
