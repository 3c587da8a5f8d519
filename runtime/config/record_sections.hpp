#pragma once
/// Sections of a run's config that say what it records and what it sends to others. Value types;
/// RunConfig has them.
#include <cstdint>
#include <map>
#include <string>

namespace cohort::config {

struct RecordingSection {
  bool enabled = true;
  uint64_t segment_bytes = uint64_t{64} << 20;
  std::string compression = "none";  // or zstd
  bool operator==(const RecordingSection&) const = default;
};

/// What a run tells of itself to others' tools (docs/telemetry.md).
struct TelemetrySection {
  std::string otlp_endpoint;                        // http://host:port; empty: nowhere
  std::map<std::string, std::string> otlp_headers;  // of each request
  double interval_s = 10;                           // between two requests
  int64_t answer_steps = 10;          // an answer is in TensorBoard every so many steps; 0: never
  std::string metric_names = "auto";  // whose names a row has beside ours; auto: the dialect's
  bool operator==(const TelemetrySection&) const = default;
};

}  // namespace cohort::config
