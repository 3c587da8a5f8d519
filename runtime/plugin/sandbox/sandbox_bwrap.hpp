#pragma once
/// How this machine is asked for a sandbox: which bwrap, as whom, with which arguments. What is
/// found is found once a process. Thread-safe.
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "runtime/plugin/sandbox/sandbox_spawn.hpp"

namespace cohort::plugin {

/// Descriptors of bwrap behind stdin, stdout and stderr.
constexpr int k_filter_descriptor = 3;
constexpr int k_info_descriptor = 4;

/// Returns what to spawn for `options` as far as it does not hang on one child: argv, environment,
/// limits, user. Returns Errc::unsupported naming what is missing, Errc::invalid_argument.
Expected<SpawnRequest> bubblewrap_request(const SandboxOptions& options);
Expected<SpawnRequest> rlimits_request(const SandboxOptions& options);

/// Returns "what this machine lacks, what to do" for a sandbox whose trial run failed with
/// `message` (bwrap's).
std::string refusal(const std::string& message);

}  // namespace cohort::plugin
