#pragma once
/// `actor-node run --restarts N`: this process starts the run, and when it dies (killed, crashed)
/// or loses a process that it cannot do without, starts it again from its last checkpoint. No
/// torch, no actor, no thread: little that could fail. The run dies with it. SIGINT and SIGTERM go
/// to the run.
namespace cohort {

inline constexpr int k_exit_lost = 3;  // of a run that lost a process: it can be resumed

struct SupervisorOptions {
  int restarts = 0;               // at most, within k_restart_window_s of each other
  double restart_window_s = 600;  // a run that lasted longer begins to count anew
};

/// Runs `argv` (actor-node run …) under supervision and returns its last exit code.
int supervise(char** argv, const SupervisorOptions& options);

}  // namespace cohort
