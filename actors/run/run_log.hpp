#pragma once
/// Where the driver's numbers go: console, dashboard, metrics.jsonl, TensorBoard, trace.json, an
/// OpenTelemetry collector, and what report.html needs. Owner: the driver, alone. Bound: one
/// ReportData (transitions of the whole run: about 100 bytes each).
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/run/metric_names.hpp"
#include "runtime/config/record_sections.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/observe/board.hpp"
#include "runtime/observe/console.hpp"
#include "runtime/observe/metrics.hpp"
#include "runtime/observe/report_data.hpp"
#include "runtime/observe/tensorboard.hpp"
#include "runtime/observe/trace.hpp"

namespace cohort::actors {

struct RunLogOptions {
  std::string run_folder;
  std::string run_name;
  uint64_t total_steps = 0;
  std::optional<uint64_t> resume_after;  // keep rows up to this step
  std::vector<observe::ReferenceLine> references;
  std::vector<observe::CardInfo> cards;
  std::string config_yaml;
  config::TelemetrySection telemetry;
  std::vector<MetricName> names;        // that rows have beside ours
  observe::Console* console = nullptr;  // required; outlives the log
  observe::Board* board = nullptr;      // of the dashboard, if there is one; outlives the log
};

/// What of a step is shown beside its numbers (roles/batch_views.hpp).
struct StepViews {
  NamedHistograms histograms;
  std::string answer;  // Markdown; empty: none
  void add(const NamedHistograms& more) {
    histograms.insert(histograms.end(), more.begin(), more.end());
  }
};

class RunTelemetry;

class RunLog {
 public:
  /// Opens metrics.jsonl, tensorboard/ and trace.json of the run folder. Errc::io names the path,
  /// Errc::config an otlp_endpoint that is no URL.
  static Expected<std::unique_ptr<RunLog>> open(RunLogOptions options);
  ~RunLog();

  /// A granted phase: its transitions, and the bytes on each card from now on.
  void phase(const control::PhaseReport& report);
  /// Compute of a phase on one card, in seconds since the start of the run.
  void compute(uint64_t step, uint32_t card, const std::string& phase, double start_s,
               double end_s);
  /// A rollout played the groups of a step, which the step's update will take.
  void played(uint64_t step, uint32_t replica, double start_s, double end_s);
  void stage(const std::string& stage, const std::string& phase, double done);
  /// `kind` is for the dashboard and the report: "lost", "restart", …; by default the level's name.
  void event(observe::EventLevel level, uint64_t step, const std::string& text,
             const std::string& kind = "");
  /// The process that holds these cards has gone, or is back.
  void lost(const std::vector<uint32_t>& cards, bool is_lost);
  /// A finished step: one line in metrics.jsonl, one point per metric in TensorBoard, which has its
  /// histograms too, and the answer of every telemetry.answer_steps-th step. Metrics that leave the
  /// process have others' names too.
  Expected<void> row(const observe::MetricRow& row, uint64_t trajectories,
                     const StepViews& views = {});
  void stopping();
  Expected<void> close();
  observe::ReportData& report() { return report_; }
  /// Reads the rows of the run back from metrics.jsonl: memory holds none.
  Expected<std::vector<observe::MetricRow>> rows() const;
  double seconds_since_start() const;

 private:
  RunLog(RunLogOptions options, observe::JsonlSink jsonl, observe::TensorBoardWriter tensorboard,
         std::unique_ptr<observe::TraceWriter> trace);
  RunLogOptions options_;
  observe::JsonlSink jsonl_;
  observe::TensorBoardWriter tensorboard_;
  std::unique_ptr<observe::TraceWriter> trace_;
  observe::ReportData report_;
  struct Played {
    observe::TrackId track;
    int64_t end_us = 0;
  };
  std::multimap<uint64_t, Played> played_;  // by step, up to its update
  double start_ = 0;
  int64_t start_us_ = 0;
  std::unique_ptr<RunTelemetry> telemetry_;  // null: not asked for
};

}  // namespace cohort::actors
