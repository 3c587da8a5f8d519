#pragma once
/// Messages of a cluster outside of its runs: nodes that join the head, and processes that a run
/// has started on them. Rules as in messages.hpp, which includes this file.
#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/waits.hpp"
#include "runtime/control/exact.hpp"
#include "runtime/plan/check/stall.hpp"

namespace cohort::control {

/// Range of control protocols that this build speaks; raised with the meaning of a message.
/// 2: a LaunchRequest has the run's folder, and a node says what its processes wait for.
inline constexpr uint32_t k_control_protocol_min = 3, k_control_protocol_max = 3;

/// Agent → head: may I join?
struct NodeHello {
  uint32_t protocol_min = k_control_protocol_min, protocol_max = k_control_protocol_max;
  std::string version;  // of actor-node
  int64_t rank = -1;    // -1: any
  std::string name;     // of the host
  std::string address;  // where other hosts reach it
  int32_t pid = 0;
  uint32_t cards = 0;  // 0: as many as a run asks for
};

/// The head's answer.
struct NodeWelcome {
  uint32_t node = 0;
  uint64_t epoch = 0;  // of this node: goes with every beat
  uint32_t protocol = 0;
};

struct NodeInfo {
  uint32_t node = 0;
  std::string name, address, version;
  int32_t pid = 0;
  uint32_t cards = 0;
  double heard_s = 0;  // seconds ago
  bool is_lost = false;
  std::vector<std::string> processes;  // of runs, e.g. "20261122-…: cards [2, 3]: actor_infer"
  bool is_leaving = false;
  bool is_away = false;  // it has not joined, and `processes` start as soon as it has
};

struct ClusterStatus {
  std::string version;  // of the head
  double up_s = 0;
  std::vector<NodeInfo> nodes;
  std::vector<std::string> runs;
};

/// One process of a run on a node.
struct ProcessOrder {
  uint32_t slot = 0;
  uint32_t node = 0;
  uint32_t attempt = 0;  // how many have held the slot before
  std::string what;      // for people: "cards [2, 3]: actor_infer"
  std::vector<std::pair<std::string, std::string>> environment;  // variables to set
  bool may_wait = false;  // the run starts without its node, if that has not joined
};

/// Run → head → agents: start these processes; they join the run's node. Of a run that has been
/// started: processes that take the place of lost ones.
struct LaunchRequest {
  std::string run_id;
  std::string address;                         // "host:port" of the run's node
  caf::strong_actor_ptr supervisor = nullptr;  // that node: told of processes that end
  std::vector<ProcessOrder> processes;
  uint64_t launch = 0;      // of the head: tells a restarted run from its earlier start
  std::string folder = {};  // of the run, on storage that every host has
};

/// Agent → head → run: a process has ended, or its node is gone.
struct ProcessExit {
  std::string run_id;
  ProcessOrder process;
  std::string reason;   // "was killed by signal 9 (Killed)"
  uint64_t launch = 0;  // of the LaunchRequest
};

/// Head → a run's node: these processes are to end, when their open groups have ended or `wait_ms`
/// is over.
struct LeaveOrder {
  std::vector<uint32_t> slots;
  uint32_t wait_ms = 0;
};

/// Run → head → agents: it is over.
struct RunEnd {
  std::string run_id;
  bool is_ok = false;
  std::string error;  // its first cause
};

/// Who asks → head → agent of `node`: what do the run's processes on its host wait for? The head
/// fills in the folder.
struct WaitsQuery {
  std::string run_id;
  uint32_t node = 0;
  uint32_t window_ms = 0;  // to watch whether they compute
  uint32_t after_ms = 0;   // what is shorter is none
  std::string folder = {};
};

/// The answer. Its waits count from `now`, which is of that host's clock.
struct NodeWaits {
  std::string host;
  double now = 0;
  std::vector<ProcessWaits> processes;
  std::vector<std::pair<int32_t, plan::ProcessState>> states;    // by process id
  std::vector<std::pair<std::string, uint32_t>> elsewhere = {};  // processes of other hosts
};

COHORT_MESSAGE(NodeHello, x.protocol_min, x.protocol_max, x.version, x.rank, x.name, x.address,
               x.pid, x.cards)
COHORT_MESSAGE(NodeWelcome, x.node, x.epoch, x.protocol)
COHORT_MESSAGE(NodeInfo, x.node, x.name, x.address, x.version, x.pid, x.cards, exact(x.heard_s),
               x.is_lost, x.processes, x.is_leaving, x.is_away)
COHORT_MESSAGE(ClusterStatus, x.version, exact(x.up_s), x.nodes, x.runs)
COHORT_MESSAGE(ProcessOrder, x.slot, x.node, x.attempt, x.what, x.environment, x.may_wait)
COHORT_MESSAGE(LaunchRequest, x.run_id, x.address, x.supervisor, x.processes, x.launch, x.folder)
COHORT_MESSAGE(ProcessExit, x.run_id, x.process, x.reason, x.launch)
COHORT_MESSAGE(LeaveOrder, x.slots, x.wait_ms)
COHORT_MESSAGE(RunEnd, x.run_id, x.is_ok, x.error)
COHORT_MESSAGE(WaitsQuery, x.run_id, x.node, x.window_ms, x.after_ms, x.folder)
COHORT_MESSAGE(NodeWaits, x.host, exact(x.now), x.processes, x.states, x.elsewhere)

}  // namespace cohort::control

namespace cohort {
COHORT_MESSAGE(WaitEntry, x.level, x.who, x.what, x.ends_by, x.where, x.pid,
               control::exact(x.since))
COHORT_MESSAGE(ProcessWaits, x.pid, x.name, x.host, x.started, x.left_out, x.waits)
}  // namespace cohort

namespace cohort::plan {
COHORT_MESSAGE(ProcessState, x.state, control::exact(x.cpu), x.rss_bytes, x.swap_bytes,
               control::exact(x.disk_pages))
}  // namespace cohort::plan
