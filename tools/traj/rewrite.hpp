#pragma once
/// Writes chosen records of streams into a new stream, header and columns byte for byte, and proves
/// it. The sources are locked against writers and never written to. One thread. Bound: the index of
/// each source and 8 bytes a record.
/// REWRITE-1: the new stream gets its name when each of its records has been read back and has the
/// type, key and hashes that it had before; a process that is killed leaves the sources whole.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/reader.hpp"
#include "runtime/stream/writer.hpp"

namespace cohort::traj {

struct RewriteOptions {
  std::vector<std::filesystem::path> sources;  // stream folders, in the order of their records
  /// Run folder to make; empty: the one source is replaced.
  std::filesystem::path out;
  bool drops_damaged = false;  // else damage is an error
  bool last_wins = false;      // a key that several sources have; else an error
  std::optional<stream::Compression> compression = {};  // of the new stream; unset: the first one's
};

/// What became of the records of one type.
struct Rewritten {
  uint64_t kept = 0;
  uint64_t replaced = 0;  // trajectories that a later record of their key replaces
  uint64_t left_out = 0;  // not chosen
};

struct RewriteReport {
  std::map<stream::RecordType, Rewritten> records;
  uint64_t damaged = 0;  // left out
  uint64_t source_bytes = 0, written_bytes = 0;
};

/// Keeps the records of which `is_chosen` is true, and of trajectories only the newest of a key.
/// Errc::closed: a run writes to a source. Errc::corrupt: damage, which is named. Errc::io and
/// Errc::invalid_argument name the path.
Expected<RewriteReport> rewrite(
    const RewriteOptions& options,
    const std::function<Expected<bool>(const stream::Record&)>& is_chosen);

}  // namespace cohort::traj
