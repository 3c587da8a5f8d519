#pragma once
/// The dashboard's data, as plain values: of a cluster as its head knows it, and of a run while it
/// goes on. Published through board.hpp. Times are now_seconds() unless a name says otherwise.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/observe/metrics.hpp"
#include "runtime/observe/report_data.hpp"
#include "runtime/observe/thinned.hpp"

namespace cohort::observe {

struct NodeView {
  uint32_t node = 0;
  std::string host, address, version;
  int32_t pid = 0;
  uint32_t cards = 0;  // 0: as many as a run asks for
  double heard_s = 0;  // seconds before ClusterView::at
  bool is_lost = false;
  std::vector<std::string> processes;
  std::optional<uint64_t> losses;  // times that it was lost, if somebody has counted
  bool is_leaving = false;
  bool is_away = false;  // lost, or never there, and `processes` start when it has joined
};

struct ClusterView {
  std::string version;  // of the head
  double up_s = 0;      // at `at`
  std::vector<NodeView> nodes;
  std::vector<std::string> runs;
  double at = 0;             // when the head said so
  bool is_this_one = false;  // no cluster: the run's own process and its children
};

/// Returns `now` with the losses that `before` had, and those that have happened since: a node that
/// is lost, or whose place another process has taken.
ClusterView follow(const ClusterView& before, ClusterView now);

struct CardView {
  uint32_t card = 0;
  std::string role;
  uint64_t used_bytes = 0, peak_bytes = 0, budget_bytes = 0;
  uint64_t losses = 0, restarts = 0;
  bool is_lost = false;
};

enum class RunState : uint8_t { starting, running, stopping, finished, failed };
std::string_view to_string(RunState state);

inline constexpr size_t k_shown_rows = 512, k_shown_events = 50, k_event_kinds_max = 32;
inline constexpr size_t k_shown_moves = 1024, k_shown_spans = 512;

struct RunView {
  std::string run_id;  // empty until the run has a folder
  std::string name;
  std::string folder;
  RunState state = RunState::starting;
  std::string error;                   // why it failed
  std::string stage;                   // "warm start", "step", …
  std::string phase;                   // "generate", "update", …
  double stage_done = -1;              // 0..1, or negative
  double started = 0, ended = 0;       // 0: it goes on
  uint64_t step = 0, total_steps = 0;  // finished, wanted
  uint64_t trajectories = 0;
  double tokens = 0;          // trained on
  std::optional<double> eta;  // when it ends
  std::vector<ReferenceLine> references;
  std::vector<CardView> cards;
  std::vector<EventView> events;                 // newest last; time_s from the start
  std::map<std::string, uint64_t> event_counts;  // by kind
  std::map<std::string, double> phase_seconds;   // of all steps of this process
  std::shared_ptr<const MetricRow> last;         // null before the first row
  Thinned<std::shared_ptr<const MetricRow>> rows{k_shown_rows};
  Thinned<Evaluation> evaluations{k_shown_rows};
  // The newest ones; what was on the cards before the first of them is in `held`.
  std::vector<std::shared_ptr<const Transition>> transitions;
  std::shared_ptr<const std::vector<Transition>> held;  // null: nothing
  std::vector<std::shared_ptr<const ComputeSpan>> compute;
};

inline bool is_over(const RunView& run) {
  return run.state == RunState::finished || run.state == RunState::failed;
}

/// Immutable: readers need no lock.
struct DashboardData {
  std::shared_ptr<const ClusterView> cluster;  // null: not known yet
  std::shared_ptr<const RunView> run;          // null: a head, which holds no run
};

}  // namespace cohort::observe
