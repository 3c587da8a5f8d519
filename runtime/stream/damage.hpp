#pragma once
/// Damage: one place of a stream that does not hold what was written there. A value, no state.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

inline constexpr size_t k_damages_max = 100;  // listed; all are counted

struct Damage {
  RecordId id;          // offset 0: the segment's header, or its file
  uint64_t record = 0;  // number
  std::string what;
  std::optional<RecordType> type;  // from prefix or index sidecar, if either holds
  std::optional<proto::TrajectoryKey> key;
  bool is_lost = false;  // no bytes are there: an index alone knows of the record
  /// Returns "record 12 (trajectory train/step 3/group 1/index 0) in segment 0 at 4096: …".
  std::string describe() const;
};

}  // namespace cohort::stream
