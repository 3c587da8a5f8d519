#pragma once
/// A run's OpenTelemetry: a trace of the run, its steps and their phases, and each step's numbers
/// (docs/telemetry.md). Owner: RunLog, alone. A collector cannot hold a run up: one request takes
/// at most k_post_s, and the end of a run waits for at most three.
#include <memory>
#include <string>

#include "runtime/config/record_sections.hpp"
#include "runtime/observe/board.hpp"
#include "runtime/observe/console.hpp"
#include "runtime/observe/otlp.hpp"

namespace cohort::actors {

class RunTelemetry {
 public:
  static constexpr double k_post_s = 2;

  /// `board` may be null. Returns Errc::config if the endpoint is no URL.
  static Expected<std::unique_ptr<RunTelemetry>> open(const config::TelemetrySection& section,
                                                      observe::OtlpResource resource,
                                                      observe::Console& console,
                                                      observe::Board* board);
  /// Times are seconds since the start of the run.
  void phase(uint64_t step, uint32_t card, const std::string& name, double start_s, double end_s);
  void event(const std::string& kind) { exporter_->add_event(kind); }
  void row(const observe::MetricRow& row, uint64_t trajectories);
  /// Ends the run's span and posts what is left.
  void close();
  observe::OtlpCounters counters() const { return exporter_->counters(); }

 private:
  RunTelemetry() = default;
  uint64_t step_id(uint64_t step) const;

  observe::OtlpResource resource_;
  uint64_t phases_ = 0;  // so far
  std::unique_ptr<observe::OtlpExporter> exporter_;
};

}  // namespace cohort::actors
