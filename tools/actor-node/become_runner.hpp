#pragma once
/// `actor-node run …`: this process becomes actor-node-run, with the same words. Where RANK says
/// that the run is another host's, it serves as a node of that run instead, without loading
/// libtorch.

namespace cohort {

/// Returns only if it did not become the runner: the exit code.
int become_runner(char** argv);

/// Becomes actor-node-run with the same words, whatever they are. Returns as become_runner.
int exec_runner(char** argv);

}  // namespace cohort
