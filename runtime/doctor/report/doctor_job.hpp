#pragma once
/// From the hosts read and a RunConfig to what the doctor's rules judge. Pure. Global card ids are
/// node·cards_per_node + local index, where cards_per_node is the number of visible NPUs of the
/// first host (as ROLL takes it) or, on a machine without any, the config's num_gpus_per_node.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/doctor/probes/probe.hpp"
#include "runtime/doctor/rules/environment_rules.hpp"
#include "runtime/doctor/rules/hccl_cluster.hpp"

namespace cohort::doctor {

struct DoctorJobOptions {
  std::optional<double> start_skew_s, phase_skew_s;  // none: 600 s over several hosts (ROLL's
                                                     // workers wait so long for their head), 0 on
                                                     // one; phases: not known
  std::optional<Series> series;                      // wins over what npu-smi shows
};

struct DoctorJob {
  Cluster cluster;
  EnvironmentFacts environment;
  Machine machine;  // of the host that the doctor runs on
};

/// `hosts.front()` is the host that the doctor runs on; `config` may be null: the job is then
/// guessed to use every visible card.
DoctorJob describe_job(const HostReport& here, const std::vector<Host>& other_hosts,
                       const config::RunConfig* config, const DoctorJobOptions& options);

}  // namespace cohort::doctor
