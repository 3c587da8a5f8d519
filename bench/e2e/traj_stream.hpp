#pragma once
/// The stream that traj_bench searches: small trajectories as a game of three turns leaves them,
/// each a pure function of its number, so that any of them can be asked for. No threads.
#include <cstdint>
#include <filesystem>

#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::bench {

inline constexpr uint64_t k_step_trajectories = 512;  // 64 groups of 8
inline constexpr uint64_t k_needle_every = 10'007;    // trajectories with the word "needle"

/// The key of the trajectory `n` of the stream.
proto::TrajectoryKey sample_key(uint64_t n);
/// With log-probs of policy and reference, versions, three turns of text; about 80 tokens, or so
/// many sampled ones more.
proto::Trajectory sample_trajectory(uint64_t step, uint32_t group, uint32_t index,
                                    uint32_t more_tokens = 0);

/// Bytes of a sample's columns, without padding between them.
uint64_t columns_bytes(const proto::Trajectory& x);

struct StreamSize {
  uint64_t stored_bytes = 0;   // of the segments
  uint64_t columns_bytes = 0;  // of the columns, without padding between them
  uint64_t headers_bytes = 0;
};

/// Writes `count` trajectories in the order of arrival (groups of a step are shuffled) into
/// `folder`, anew.
StreamSize make_stream(const std::filesystem::path& folder, uint64_t count,
                       uint32_t more_tokens = 0,
                       stream::WriterOptions options = {.run_id = "bench"});

/// Bytes of the segments of a folder.
uint64_t segment_bytes(const std::filesystem::path& folder);

/// Takes the files of a folder out of the page cache; what is not on disk yet is written first.
void drop_from_page_cache(const std::filesystem::path& folder);

}  // namespace cohort::bench
