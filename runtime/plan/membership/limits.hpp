#pragma once
/// The time limits of membership and recovery, in seconds, with their reasons. Node, placement,
/// driver and a cluster's head take them from here; tests set others. Those of leases:
/// docs/leases.md.
#include <cstdint>

namespace cohort::plan {

struct MembershipLimits {
  /// Between two pings of a process, and between two beats of a node to its head.
  double ping_s = 0.5;
  /// Without an answer, after which a process or a node counts as lost: five pings, so that a host
  /// under load may leave four unanswered.
  double silence_s = 2.5;
  /// From the start of a process until its roles are ready: loading libtorch, opening cards and
  /// links on a slow disk. As long a killed process may take to end, and a run goes on without any
  /// replica.
  double join_s = 60;
  /// The window in which losses of one process are counted, and how many it survives: a machine
  /// that is bad fails again within minutes, an accident does not.
  double restart_window_s = 600;
  uint32_t restarts_max = 3;
  /// For which a publish waits for a card after its loss: a forked process is back within 0.1 s,
  /// one that loads the program anew within 1 s (docs/decisions/0013).
  double grace_s = 2;
  /// For which an error of a card, as its peer's death would explain, waits for the word of a loss.
  double loss_wait_s = 2;
  /// For which a role's error waits, at the driver, for the word of a loss: the watcher of the
  /// processes speaks within milliseconds.
  double verdict_s = 0.5;
  /// For which a failed link waits for the word of a loss: by then silence_s has found every
  /// process that is gone.
  double link_verdict_s = 3;
  /// After a loss, for which links whose name says no attempt may still fail because of it: a link
  /// takes 10 s to find its peer silent (transport::LinkOptions::peer_timeout_ms).
  double link_memory_s = 15;
  /// Beyond its wait, for which an answer to the order to leave may take.
  double leave_answer_s = 5;
};

}  // namespace cohort::plan
