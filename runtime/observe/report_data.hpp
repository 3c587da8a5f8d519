#pragma once
/// The data of report.html, as plain values: the caller fills the fields it has, an empty field is
/// left out of the page or named as not measured. No types of the stream or the wire, so that `traj
/// html` can fill it as well. Times are seconds from the start of the run; success and fractions
/// are 0..1; NaN marks a gap.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/metrics.hpp"
#include "runtime/observe/reference_line.hpp"

namespace cohort::observe {

inline constexpr double k_not_measured = std::numeric_limits<double>::quiet_NaN();

struct Fact {
  std::string name;   // "seed"
  std::string value;  // "1"
};

/// Held-out success of one evaluation.
struct Evaluation {
  uint64_t step = 0;          // 0 = after the warm start
  uint64_t trajectories = 0;  // trained on until then
  double sampled = k_not_measured;
  double greedy = k_not_measured;
};

struct Point {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name;
  std::vector<Point> points;
};

enum class AxisFormat : uint8_t { number, percent, count, bytes, seconds };

struct ChartSpec {
  std::string title;   // "entropy"
  std::string y_unit;  // "nats"; empty if it has none
  AxisFormat y_format = AxisFormat::number;
  std::string note;  // one short sentence on how to read it; may be empty
  std::vector<Series> series;
  std::vector<ReferenceLine> references;
};

struct CardInfo {
  uint32_t card = 0;
  std::string role;  // "actor_train", or several joined by "+"
  uint64_t budget_bytes = 0;
};

/// A stretch in which a card computes.
struct ComputeSpan {
  uint64_t step = 0;
  uint32_t card = 0;
  std::string phase;  // "generate", "update", "reference", "evaluate", …
  double start_s = 0;
  double end_s = 0;
};

/// A residency transition that was acknowledged, as the `phase` records of the stream have it.
struct Transition {
  uint64_t step = 0;
  uint32_t card = 0;
  std::string phase;
  std::string object;  // "kv_cache"
  std::string from;    // "absent" | "host" | "card"
  std::string to;
  uint64_t bytes = 0;
  double start_s = 0;
  double end_s = 0;
};

/// Seconds of each phase of one step, in the order of the phases.
struct StepTimes {
  uint64_t step = 0;
  std::vector<std::pair<std::string, double>> phases;
};

struct TokenView {
  std::string text;
  double logp = k_not_measured;
};

struct TurnView {
  std::string observation;  // shown in a fixed-width block; grid cells are coloured
  std::string answer;
  double reward = 0;
  bool is_valid = true;
  bool is_effective = true;
  std::vector<TokenView> tokens;  // of the answer
  uint64_t first_token = 0;       // of the answer in the trajectory
};

struct TrajectoryView {
  std::string title;  // "step 40, group 3, trajectory 1"
  std::string kind;   // "train" | "held-out" | …
  uint64_t seed = 0;
  double score = 0;
  std::string stop_reason;
  std::vector<TurnView> turns;
  std::string token_links = {};  // address that a token's number completes; empty: no links
};

struct EventView {
  double time_s = k_not_measured;
  uint64_t step = 0;
  std::string kind;  // "warning", "error", "resume", "drop", …
  std::string text;
};

struct ReportData {
  std::string title;        // "frozen_lake"
  std::string summary;      // one or two sentences; may be empty
  std::vector<Fact> facts;  // config, seed, config hash, commit, machine, duration, …
  std::string status;       // "finished", "stopped by Ctrl-C at step 12", "failed: …"

  std::vector<Evaluation> evaluations;    // by step; first = before RL, last = after
  uint64_t evaluation_maps = 0;           // held-out cases per evaluation (error bars), 0 = unknown
  std::vector<ReferenceLine> references;  // random valid, walk straight, shortest path
  Series train_reward;                    // x = step
  std::vector<ChartSpec> charts;          // small multiples, x = step
  std::vector<Fact> headlines;            // further big numbers: {"tokens/s", "81k"}, …

  std::vector<CardInfo> cards;
  std::vector<ComputeSpan> compute;  // any number of steps; a few of them are drawn
  std::vector<Transition>
      transitions;  // from the run's first one on: residency is summed up from them
  std::vector<StepTimes> step_times;

  std::vector<TrajectoryView> trajectories;
  std::vector<EventView> events;
  std::string config_text;  // the resolved YAML
};

/// Returns the numbers called `metric` over the steps of `rows`; rows that lack it are skipped.
Series series_of(std::span<const MetricRow> rows, std::string_view metric, std::string_view label);

/// Returns the charts of the standard metrics that `rows` have (entropy, KL, clip fraction,
/// gradient norm, learning rate, tokens/s, reward, lengths, …); those that never occur are left
/// out.
std::vector<ChartSpec> standard_charts(std::span<const MetricRow> rows);

/// Returns the time/<phase>_s metrics of each row as StepTimes; "time/step_s" is the whole and is
/// left out.
std::vector<StepTimes> step_times_of(std::span<const MetricRow> rows);

}  // namespace cohort::observe
