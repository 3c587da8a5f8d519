#pragma once
/// The bodies of the flow's processes (flow_rig.hpp). Each runs in a fresh child until it is
/// killed; what goes wrong there is said on stderr and ends it. Internal to the rig.
#include <string>

#include "bench/e2e/flow_rig.hpp"

namespace cohort::bench {

/// Ends of pipes between the processes.
struct FlowPipes {
  int leases_in = -1;   // rollout: numbers of steps, uint64_t
  int leases_out = -1;  // trainer
  int marks = -1;       // trainer: 'B' the warm-up is over, 'E' all is recorded, 'C' and closed
  int endpoint = -1;    // where this process listens: a line
};

using FlowRole = void (*)(const FlowOptions&, const FlowPipes&, const std::string& next);
/// By place in k_flow_names; `next` is the endpoint of the next one.
extern const std::array<FlowRole, k_flow_processes> k_flow_roles, k_raw_roles;

/// Bytes of a frame behind each of the three hops.
std::array<size_t, k_flow_processes - 1> frame_bytes(const FlowOptions& options);

/// Writes all of it, or ends the process.
void write_all(int fd, const void* bytes, size_t size_bytes);
void tell_endpoint(const FlowPipes& pipes, const std::string& endpoint);
void mark(const FlowPipes& pipes, char what);

}  // namespace cohort::bench
