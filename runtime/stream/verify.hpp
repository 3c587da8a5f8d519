#pragma once
/// Verify: reads every byte of a stream and names each damage. Repair: cuts the unreadable end.
/// Thread-safe: no state.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/damage.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

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
  uint64_t cut_records = 0;      // damaged ones at the very end
  bool is_end_given_up = false;  // the indexes of a lost end are gone
};
/// Cuts the torn tail, and damaged records behind which the last segment has no intact one; of a
/// lost end it removes the indexes that still name its records. Damage before an intact record
/// stays: readers step over it. Returns Errc::closed if a writer is at work.
Expected<RepairReport> repair(const std::filesystem::path& folder);

}  // namespace cohort::stream
