#pragma once
/// A run and its cluster publish the dashboard's data here. Thread-safe facade: writers change a
/// draft of their own and swap in a copy of it; readers take the pointer. BOARD-1: a reader can
/// make a writer wait no longer than it takes to copy two pointers. Bound: one RunView (its events
/// and rows are bounded), one ClusterView, and the older ones that readers still hold.
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/dashboard_data.hpp"
#include "runtime/observe/progress.hpp"

namespace cohort::observe {

class Board {
 public:
  /// A run begins to be shown. Its fields may be filled by and by.
  void begin_run(RunView run);
  void set_stage(const std::string& stage, const std::string& phase, double done);
  void set_state(RunState state, const std::string& error = "");
  /// The run has a folder; `rows` are those of the run's earlier process.
  void set_folder(const std::string& run_id, const std::string& folder,
                  const std::vector<ReferenceLine>& references, std::span<const MetricRow> rows);
  /// Steps that are over, without a time.
  void add_rows(std::span<const MetricRow> rows);
  void add_event(EventView event);
  /// A finished step; `now` is when.
  void add_row(const MetricRow& row, uint64_t trajectories, double now);
  /// Bytes on cards, by card id.
  void set_bytes(std::span<const std::pair<uint32_t, uint64_t>> bytes);
  /// The most bytes so far, by card id.
  void set_peaks(std::span<const std::pair<uint32_t, uint64_t>> bytes);
  /// What has moved on cards, and a stretch in which one computed: shown with the next phase.
  void add_moves(std::span<const Transition> moves);
  void add_span(ComputeSpan span);
  void set_lost(std::span<const uint32_t> cards, bool is_lost);
  void set_cluster(ClusterView cluster);

  DashboardData data() const;

 private:
  void add_row_locked(const MetricRow& row, uint64_t trajectories);
  void add_rows_locked(std::span<const MetricRow> rows);
  void publish();

  std::mutex writing_;
  RunView draft_;
  EtaEstimator eta_;

  mutable std::mutex mutex_;  // of what is below
  DashboardData published_;
};

}  // namespace cohort::observe
