#pragma once
/// The data of the trajectory browser, as plain values: who reads the stream fills them
/// (tools/actor-node/run_browser.hpp). Snapshots: immutable once they are handed out.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/report_data.hpp"

namespace cohort::observe {

/// What a list needs of one trajectory.
struct TrajectoryLine {
  std::string kind;  // "train", "val", …
  uint32_t group = 0, index = 0;
  double score = 0;
  uint32_t tokens = 0, sampled_tokens = 0, turns = 0;
  uint64_t version_min = 0, version_max = 0;  // of the weights that sampled it
  std::string fate;                           // "trains", "filtered", …; empty: is not trained on
  std::string stop_reason;
};

/// A step of the stream, as far as it has been found.
struct StepLine {
  uint64_t step = 0;
  uint64_t trajectories = 0;  // records, replaced ones too
};

/// What is known of the stream so far.
struct StepList {
  std::vector<StepLine> steps;  // ascending
  bool is_whole = false;        // the end of the stream has been seen
  std::string error;            // why nothing more can be read
};

/// The trajectories of one step that a query chooses, as far as they have been read.
struct StepView {
  uint64_t step = 0;
  std::string where;                   // the query; empty: all
  std::vector<TrajectoryLine> lines;   // by kind, group, index
  uint64_t read = 0, known = 0;        // records looked at, of how many
  uint64_t damaged = 0, left_out = 0;  // records that do not hold; lines beyond the bound
  std::map<std::string, std::pair<double, uint64_t>> reward_parts;  // name → sum, count
  bool is_whole = false;
  std::string error;
};

/// One token of a trajectory, with the columns that the record has (NaN: it has none).
struct TokenLine {
  int32_t id = 0;
  std::string text;
  bool is_sampled = false;
  double logp = k_not_measured, ref_logp = k_not_measured, value = k_not_measured,
         reward = k_not_measured;
  uint64_t version = 0;
};

/// One trajectory, whole.
struct TrajectoryPage {
  uint64_t step = 0;
  std::string kind;
  uint32_t group = 0, index = 0;
  std::vector<Fact> facts;
  std::vector<Fact> rewards;  // parts and metrics
  TrajectoryView view;
  std::vector<TokenLine> tokens;
  uint64_t first_token = 0, token_count = 0;  // of the tokens above, of all
};

}  // namespace cohort::observe
