#pragma once
/// OpenTelemetry of a run as OTLP/HTTP JSON: spans and metrics are queued by any thread and posted
/// by a thread of the exporter's own (docs/telemetry.md).
///   OTLP-1 a call to add never waits for the collector: a full queue loses its oldest and counts.
///   OTLP-2 what a collector refuses for a while (408, 429, 5xx, no connection) stays in the queue;
///          what it refuses for good is dropped and counted.
/// Bound: k_otlp_spans_max spans, k_otlp_rows_max rows, k_event_kinds_max kinds of events.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/observe/metrics.hpp"

namespace cohort::observe {

inline constexpr size_t k_otlp_spans_max = 8192, k_otlp_rows_max = 256;

struct OtlpResource {
  std::string run_id, run_name;
  int64_t start_us = 0;  // wall clock; a run that goes on after a stop is another trace
};

struct OtlpSpan {
  uint64_t id = 0, parent = 0;  // parent 0: the root
  std::string name;
  int64_t start_us = 0, end_us = 0;
  std::vector<std::pair<std::string, std::variant<int64_t, std::string>>> attributes = {};
};

struct OtlpRow {
  MetricRow row;
  int64_t time_us = 0;
};

struct OtlpCounters {
  uint64_t steps = 0, trajectories = 0;
  double tokens = 0;
  uint64_t dropped_spans = 0, dropped_rows = 0, failed_posts = 0;
  std::map<std::string, uint64_t> events;  // by kind
};

/// Returns the bodies of /v1/traces and /v1/metrics. Pure: same arguments, same bytes.
std::string otlp_traces(const OtlpResource& resource, std::span<const OtlpSpan> spans);
std::string otlp_metrics(const OtlpResource& resource, std::span<const OtlpRow> rows,
                         const OtlpCounters& counters, int64_t now_us);
/// Returns the id of the span of this run that `name` names; never 0.
uint64_t otlp_span_id(const OtlpResource& resource, std::string_view name);

struct OtlpOptions {
  OtlpResource resource;
  double interval_s = 10;
  /// Posts `body` to "/v1/traces" or "/v1/metrics"; the status of the reply. It ends by itself.
  std::function<Expected<int>(std::string_view path, const std::string& body)> post;
  /// Told once when the collector begins to fail and once when it takes again. Any thread's.
  std::function<void(bool is_failing, const std::string& text)> notice;
};

/// Thread-safe.
class OtlpExporter {
 public:
  explicit OtlpExporter(OtlpOptions options);
  ~OtlpExporter();  // as close()
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  void add(OtlpSpan span);
  /// A finished step. `trajectories`: of the run so far.
  void add(const MetricRow& row, uint64_t trajectories, int64_t time_us);
  void add_event(const std::string& kind);
  /// Posts what is left, unless the collector fails; later additions are dropped. Idempotent.
  void close();
  OtlpCounters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort::observe
