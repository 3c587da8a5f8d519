#pragma once
/// Verify: reads every byte of a stream and names each damage. Repair: cuts the unreadable end.
/// Thread-safe: no state.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

inline constexpr size_t k_damages_max = 100;  // listed; all are counted

struct Damage {
  RecordId id;          // offset 0: the segment's header
  uint64_t record = 0;  // number
  std::string what;
  std::optional<RecordType> type;  // from prefix or index sidecar, if either holds
  std::optional<proto::TrajectoryKey> key;
  /// Returns "record 12 (trajectory train/step 3/group 1/index 0) in segment 0 at 4096: …".
  std::string describe() const;
};

struct VerifyReport {
  uint64_t records = 0;  // intact
  uint64_t bytes = 0;    // read
  uint64_t segments = 0;
  std::vector<Damage> damages;
  uint64_t damage_count = 0;
  uint64_t torn_tail_bytes = 0;  // of an unfinished write at the end; not damage
  RecordId torn_tail;            // where it starts
  std::optional<RecordInfo> last_good;
  bool is_clean() const { return damage_count == 0 && torn_tail_bytes == 0; }
};

/// Returns Errc::not_found if there is no stream, Errc::protocol if it is newer than this program.
Expected<VerifyReport> verify(const std::filesystem::path& folder);

struct RepairReport {
  uint64_t cut_bytes = 0;
  uint64_t cut_records = 0;  // damaged ones at the very end
};
/// Cuts the torn tail, and damaged records behind which the last segment has no intact one. Damage
/// before an intact record stays: readers step over it. Returns Errc::closed if a writer is at
/// work.
Expected<RepairReport> repair(const std::filesystem::path& folder);

}  // namespace cohort::stream
