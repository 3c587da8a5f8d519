#include "tools/cohort-sim/pace.hpp"

#include <cmath>

#include "tools/cohort-sim/cluster.hpp"

namespace cohort::sim {
namespace {

Job job_of(double depth, bool is_flowing) {
  Job job;
  job.replicas = 4;
  job.steps = 60;
  job.groups = 8;
  job.group_size = 4;
  job.steps_ahead = static_cast<uint32_t>(std::ceil(depth));
  job.is_flowing = is_flowing;
  job.depth = depth;
  job.save_every = 0;
  job.straggler_factor = 0;                    // a second try would draw another length
  job.length_sigma = std::log(10.0) / 2.3263;  // the normal distribution's 99th percentile
  job.update_ms = 150;
  job.link.chunk_bytes = 1024;
  job.link.credit_bytes = job.link.queue_bytes = size_t{64} << 10;
  return job;
}

}  // namespace

std::vector<Pace> measure_pace(uint64_t first_seed, uint64_t seeds) {
  struct Mode {
    std::string name;
    double depth = 0;
    bool is_flowing = false;
  };
  const std::vector<Mode> modes = {
      {"sync", 0, false},          {"one_step_off", 1, false},  {"fully_async, 0.5", 0.5, true},
      {"fully_async, 1", 1, true}, {"fully_async, 2", 2, true}, {"fully_async, 4", 4, true}};
  std::vector<Pace> paces;
  for (const Mode& mode : modes) {
    SimOptions options;
    options.job = job_of(mode.depth, mode.is_flowing);
    Pace pace{mode.name, 0, 1, {}};
    double seconds = 0;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
      const Outcome outcome = simulate(seed, options);
      if (!outcome.violation.label.empty()) pace.violation = outcome.violation.label;
      seconds += 1e-3 * static_cast<double>(outcome.steps_ms);
    }
    const double trained = static_cast<double>(seeds * (options.job->steps - 1)) *
                           options.job->groups * options.job->group_size;
    pace.trajectories_per_s = trained / seconds;
    pace.over_sync = pace.trajectories_per_s /
                     (paces.empty() ? pace.trajectories_per_s : paces.front().trajectories_per_s);
    paces.push_back(std::move(pace));
  }
  return paces;
}

}  // namespace cohort::sim
