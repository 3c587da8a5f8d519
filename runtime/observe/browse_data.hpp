#pragma once
/// The data of the trajectory browser, as plain values, and the interface of its reader
/// (tools/actor-node/run_browser.hpp). Snapshots: immutable once they are handed out.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/histogram.hpp"
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

/// Numbers of a step's row that a list of steps shows, if any step has them: metric, heading.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 7> k_step_columns = {
    {{"reward/mean", "reward"},
     {"val/success", "held-out success"},
     {"loss", "loss"},
     {"actor/entropy", "entropy"},
     {"actor/grad_norm", "gradient norm"},
     {"tokens_per_s", "tokens/s"},
     {"time/step_s", "seconds"}}};

/// A step of the stream, as far as it has been found.
struct StepLine {
  StepLine() { numbers.fill(k_not_measured); }
  uint64_t step = 0;
  uint64_t trajectories = 0;                          // records, replaced ones too
  std::array<double, k_step_columns.size()> numbers;  // as k_step_columns; NaN: it has none
};

/// What is known of the stream so far.
struct StepList {
  std::vector<StepLine> steps;  // ascending
  bool is_whole = false;        // the end of the stream has been seen
  std::string error;            // why nothing more can be read
};

/// A part of the reward, over trajectories.
struct RewardPartLine {
  double sum = 0;
  uint64_t count = 0;
  Histogram values;
};

/// The trajectories of one step that a query chooses, as far as they have been read.
struct StepView {
  uint64_t step = 0;
  std::string where;                   // the query; empty: all
  std::vector<TrajectoryLine> lines;   // by kind, group, index
  std::string charted;                 // the kind that histograms and reward parts are of
  uint64_t read = 0, known = 0;        // records looked at, of how many
  uint64_t damaged = 0, left_out = 0;  // records that do not hold; records beyond the bound
  std::map<std::string, RewardPartLine> reward_parts;  // of that kind, by name
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

/// One trajectory: its turns whole, of its tokens a page.
struct TrajectoryPage {
  uint64_t record = 0;  // its number in the stream
  uint64_t step = 0;
  std::string kind;
  uint32_t group = 0, index = 0;
  std::vector<Fact> facts;
  std::vector<Fact> rewards;  // parts and metrics
  TrajectoryView view;
  std::vector<TokenLine> tokens;
  uint64_t first_token = 0, token_count = 0;  // of the tokens above, of all
  std::optional<uint32_t> previous, next;     // indices of its neighbours in the group
  std::string error;                          // why it cannot be shown
};

inline constexpr size_t k_compared_runs = 6;

/// A run as /compare shows it.
struct ComparedRun {
  std::string name;
  std::vector<MetricRow> rows;                // thinned
  std::map<std::string, std::string> config;  // key path → value
  std::string error;                          // why it cannot be read
};

/// Runs that may be compared, and those that are.
struct Comparison {
  std::vector<std::string> choices;                      // names; the run itself is the first
  std::vector<std::shared_ptr<const ComparedRun>> runs;  // as asked for; null: being read
};

/// A wait of a process of the run (runtime/base/waits.hpp).
struct WaitLine {
  std::string process, level, who, what, ends_by, where;
  double seconds = 0;
};

/// One end of a link between two roles.
struct LinkLine {
  std::string process;  // whose end it is
  std::string name;
  bool is_producer = false;  // else consumer
  uint64_t messages = 0, bytes = 0, resent = 0;
  double messages_per_s = k_not_measured, bytes_per_s = k_not_measured;
  uint64_t queued_bytes = 0, queue_bytes_max = 0;  // producer: waiting or not acknowledged
  uint64_t credit_bytes = 0;                       // consumer: granted to each producer
};

/// What moves between the roles, and who waits for whom.
struct FlowView {
  std::string sentence;  // why the run stands still, or that it does not; empty: not known
  bool is_stalled = false;
  std::vector<WaitLine> waits;  // the longest first
  std::vector<LinkLine> links;  // of all processes that tell
  std::string note;             // what is not looked at
};

/// The end of a log file of the run.
struct LogView {
  std::vector<std::string> files;  // that the run has
  std::string file;                // which one this is; empty: none
  std::string text;
  uint64_t left_out_bytes = 0;  // before it
  std::string error;
};

/// What a page is about, out of its address.
struct BrowseAddress {
  uint64_t step = 0;
  std::string kind;  // of group and trajectory
  uint32_t group = 0, index = 0;
  std::string where;   // the query
  size_t page = 0;     // 0 first
  uint64_t token = 0;  // of the trajectory, from 0
};

struct TokenPage;  // token_page.hpp

/// Reads a run for the pages. Called by the server's thread: an answer takes milliseconds; null
/// means that it is being read.
class RunSource {
 public:
  virtual ~RunSource() = default;
  virtual std::shared_ptr<const StepList> steps() = 0;
  /// `where`: a query as `traj grep --where` takes it; empty: all.
  virtual std::shared_ptr<const StepView> step(uint64_t step, const std::string& where) = 0;
  virtual std::shared_ptr<const TrajectoryPage> trajectory(const BrowseAddress& at) = 0;
  /// The same coloured by any of its columns; null too if there is no such trajectory.
  virtual std::shared_ptr<const TokenPage> coloured(const BrowseAddress& at) = 0;
  /// `names`: of the choices; at most k_compared_runs are looked at.
  virtual Comparison compare(const std::vector<std::string>& names) = 0;
  virtual std::shared_ptr<const FlowView> flow() = 0;
  /// `file`: empty: the first one.
  virtual std::shared_ptr<const LogView> log(const std::string& file) = 0;
};

}  // namespace cohort::observe
