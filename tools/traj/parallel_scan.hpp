#pragma once
/// Asks every trajectory of a stream a question, on several threads, a segment each: for searches
/// that most trajectories do not match. A record is checked as Reader checks it, and decoded only
/// if its encoded header may match. Bound: a window and the matches of each thread, and 32 bytes a
/// record.
/// SCAN-3: the answer is that of reading the newest record of each key in key order.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::traj {

struct ScanQuestion {
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKind> kind;
  /// Whether a trajectory with this encoded header may match; empty: each may. Threads call it, and
  /// `match` as well.
  std::function<bool(std::string_view header)> may_match;
  /// Returns what is to be said of a match.
  std::function<std::optional<std::string>(const proto::Trajectory&)> match;
};

struct ScanAnswer {
  std::vector<std::string> matches;  // in key order
  uint64_t trajectories = 0;         // that were asked, replaced ones not counted
  std::vector<std::string> damages;  // a sentence each
};

/// `threads`: 0 is one per core. Errors: those of Reader::open, and Errc::io.
Expected<ScanAnswer> scan_newest(const std::filesystem::path& stream, const ScanQuestion& question,
                                 size_t threads = 0);

}  // namespace cohort::traj
