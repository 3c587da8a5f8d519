#pragma once
/// The typed handles of a cluster's own actors, which live longer than runs. Free of torch: head
/// and agent are in `actor-node` itself, which starts in milliseconds.
#include "runtime/control/messages.hpp"
#include "runtime/plan/membership/limits.hpp"

namespace cohort::actors {

/// What the head needs of a run's node: (lost, ProcessLost);
/// (leave, LeaveOrder) -> true once these processes have no part in the run any more |
/// invalid_argument: it cannot do without them
using RunSupervisor =
    caf::typed_actor<caf::reacts_to<control::lost_atom, control::ProcessLost>,
                     caf::replies_to<control::leave_atom, control::LeaveOrder>::with<bool>>;

/// The cluster's registry.
///   (join, NodeHello, agent) -> NodeWelcome | invalid_argument: rank taken, other protocol
///   (beat, node, epoch) -> false: not known, join anew
///   (status) -> ClusterStatus
///   (launch, LaunchRequest) -> true once all processes are started | not_found: no such node
///     (of a run that is there, or a process that may wait: true; what is to be on a node that is
///     not there starts when it has joined)
///   (fail, ProcessExit): told to the run; (end, RunEnd) -> true once the agents know
///   (end, run, ProcessOrder): kill that process
///   (leave, node, wait_ms) -> true once its runs do without it and its agent ends |
///     invalid_argument: the head's own, or a run cannot do without it
///   (stop) -> true: agents and head end
///   (waits, WaitsQuery) -> NodeWaits, of that node's agent | not_found: no such run, no such node
using ClusterHeadActor = caf::typed_actor<
    caf::replies_to<control::join_atom, control::NodeHello,
                    caf::strong_actor_ptr>::with<control::NodeWelcome>,
    caf::replies_to<control::beat_atom, uint32_t, uint64_t>::with<bool>,
    caf::replies_to<control::status_atom>::with<control::ClusterStatus>,
    caf::replies_to<control::launch_atom, control::LaunchRequest>::with<bool>,
    caf::reacts_to<control::fail_atom, control::ProcessExit>,
    caf::replies_to<control::end_atom, control::RunEnd>::with<bool>,
    caf::reacts_to<control::end_atom, std::string, control::ProcessOrder>,
    caf::replies_to<control::leave_atom, uint32_t, uint32_t>::with<bool>,
    caf::replies_to<control::stop_atom>::with<bool>, caf::reacts_to<control::watch_atom, uint64_t>,
    caf::replies_to<control::waits_atom, control::WaitsQuery>::with<control::NodeWaits>>;

/// One per node: starts and watches the processes of runs there.
///   (start): join the head; (beat): say that it is there
///   (launch, LaunchRequest) -> true | io; (end, RunEnd) -> true: its processes are gone
///   (end, run, ProcessOrder): kill that process
///   (leave): ask the head to leave, and end in any case
///   (stop) -> true: it ends; (fail, ProcessExit): of itself, a child has ended
///   (waits, WaitsQuery) -> NodeWaits, read on a thread of their own: storage that hangs stops no
///     beat
using ClusterAgentActor = caf::typed_actor<
    caf::reacts_to<control::start_atom>, caf::reacts_to<control::beat_atom>,
    caf::replies_to<control::launch_atom, control::LaunchRequest>::with<bool>,
    caf::reacts_to<control::fail_atom, control::ProcessExit>,
    caf::replies_to<control::end_atom, control::RunEnd>::with<bool>,
    caf::reacts_to<control::end_atom, std::string, control::ProcessOrder>,
    caf::reacts_to<control::leave_atom>, caf::replies_to<control::stop_atom>::with<bool>,
    caf::replies_to<control::waits_atom, control::WaitsQuery>::with<control::NodeWaits>>;

inline constexpr int k_beat_ms = static_cast<int>(1e3 * plan::MembershipLimits{}.ping_s);
inline constexpr double k_silence_s = plan::MembershipLimits{}.silence_s;

}  // namespace cohort::actors
