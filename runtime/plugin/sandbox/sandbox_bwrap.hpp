#pragma once
/// How to start a sandbox on this machine: which bwrap, under which user, with which arguments.
/// Looked up once a process. Thread-safe.
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "runtime/plugin/sandbox/sandbox_spawn.hpp"

namespace cohort::plugin {

/// Descriptors of bwrap behind stdin, stdout and stderr.
constexpr int k_filter_descriptor = 3;
constexpr int k_info_descriptor = 4;

/// Returns the part of the spawn request that all children of `options` share: argv, environment,
/// limits, user. Returns Errc::unsupported naming the missing part, Errc::invalid_argument.
Expected<SpawnRequest> bubblewrap_request(const SandboxOptions& options);
Expected<SpawnRequest> rlimits_request(const SandboxOptions& options);

/// Returns "what this machine lacks, what to do" for a sandbox whose trial run failed with
/// `message` (bwrap's).
std::string refusal(const std::string& message);

}  // namespace cohort::plugin
