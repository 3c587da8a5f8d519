#pragma once
/// `actor-node-run card`: a process that holds some of a run's cards. Started by `actor-node run
/// --processes N` or by a cluster's agent, not by hand; ends with the node that it joins.
#include <cstdint>
#include <string>

#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

struct CardCommand {
  ClusterAccess access;
  std::string node;  // host:port of the run's node
  uint32_t slot = 0;
  uint32_t attempt = 0;  // how many have held the slot before
};

CLI::App* add_card_command(CLI::App& app, CardCommand& command);

/// Returns 0 when the run has ended, 1 after a failure, which the node is told.
int card_command(const CardCommand& command);

}  // namespace cohort
