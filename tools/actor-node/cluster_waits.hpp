#pragma once
/// What the processes of a run of a cluster wait for, asked of its nodes by way of the head.
#include <chrono>
#include <string>

#include "tools/actor-node/cluster_options.hpp"
#include "tools/actor-node/run_waits.hpp"

namespace cohort {

inline constexpr std::chrono::seconds k_node_limit{2};  // a node that says nothing is silent

struct ClusterWaits {
  std::string run_id;  // empty: none is there
  RunWaits waits;
};

/// Asks every node at once; one that does not answer within the window and k_node_limit is in
/// `input.silent`. `run_id`: empty if one run is there. Errc::not_found, Errc::invalid_argument: no
/// such run, or which one; what control::connect() says.
Expected<ClusterWaits> read_cluster_waits(const std::string& head, const std::string& run_id,
                                          double after_s, std::chrono::milliseconds window,
                                          const ClusterAccess& access);

}  // namespace cohort
