#pragma once
/// The flow of trajectories through four processes over tcp: rollout -> rewards -> reference ->
/// trainer, for benches and for the soak of backpressure. The processes run the product's actors
/// (reward, trainer with its collector, recorder) and hops; only the model is left out:
/// trajectories are made up, scored by arithmetic, and their reference log-probs are a sum.
/// raw_flow() moves the same bytes over as many hops with bare ZeroMQ (PUSH/PULL). Owner: one
/// thread of a process without other threads: it forks. Every wait has an end; the children die
/// with their parent.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::bench {

inline constexpr size_t k_flow_processes = 4;
inline constexpr std::array<const char*, k_flow_processes> k_flow_names = {"rollout", "rewards",
                                                                           "reference", "trainer"};

struct FlowOptions {
  uint64_t warm_up_steps = 4, steps = 12;  // measured after the first of them
  uint32_t groups = 32, group_size = 8;    // of a step
  uint32_t steps_ahead = 3;                // leased before the first of them is complete
  uint32_t tokens = 4096;                  // of a trajectory
  uint32_t frame_trajectories = 8;         // what the rollout gathers in 4 ms at 2,000 a second
  size_t credit_bytes = size_t{64} << 20;  // of each link, and its queue
  std::string stream;                      // folder of the stream; empty: nothing is recorded
  transport::CurveKeys keys;
  double record_delay_s = 0;  // for each trajectory: a trainer that is slow
  double limit_s = 120;       // of the whole
  /// Memory that the processes share, a number for each step, or nullptr: when the last trajectory
  /// of the step was scored, and when the collector knew it recorded [s, now_seconds()].
  double *scored_at = nullptr, *recorded_at = nullptr;
  /// Called about every `sample_s` with the resident bytes of each process.
  std::function<void(double seconds, const std::array<uint64_t, k_flow_processes>& rss_bytes)>
      on_sample;
  double sample_s = 0.5;
  uint64_t step_trajectories() const { return uint64_t{groups} * group_size; }
};

struct FlowResult {
  double seconds = 0;
  uint64_t trajectories = 0;
  uint64_t bytes = 0;                                     // that crossed a link
  std::array<double, k_flow_processes> cpu_seconds = {};  // in those seconds
  double rate() const { return static_cast<double>(trajectories) / seconds; }
};

/// Errc::timeout after limit_s, Errc::closed if a process died.
Expected<FlowResult> flow(const FlowOptions& options);
Expected<FlowResult> raw_flow(const FlowOptions& options);

/// The trajectory that the rollout makes for this key.
proto::Trajectory make_trajectory(const FlowOptions& options, const proto::TrajectoryKey& key);
/// What the rewards, then the reference do to it.
double score_of(const proto::Trajectory& trajectory);
void fill_reference(proto::Trajectory& trajectory);

/// Reads the stream: every trajectory of every step is there once, with the columns that it was
/// made, scored and completed with. Returns how many, or Errc::corrupt naming the first that is not
/// as it was sent.
Expected<uint64_t> check_stream(const FlowOptions& options);

}  // namespace cohort::bench
