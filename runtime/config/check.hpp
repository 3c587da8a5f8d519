#pragma once
/// Rules across keys, and the numbers that follow from them. Pure but for asking whether a folder
/// is there.
#include "runtime/config/binder.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// Fills what follows from other keys (sequence_length, partitions, head_dim, rewards, derived) and
/// adds problems, warnings and notes. Rules whose keys have a problem already are left out.
void complete_and_check(RunConfig& config, Findings& findings, const LoadOptions& options);

// Parts of it.
void check_batches(RunConfig& config, Findings& findings);
void check_roles(RunConfig& config, Findings& findings, const LoadOptions& options);
void check_environments(RunConfig& config, Findings& findings);
void check_algorithm(RunConfig& config, Findings& findings);
void check_runtime(RunConfig& config, Findings& findings);

}  // namespace cohort::config
