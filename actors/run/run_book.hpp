#pragma once
/// The books of a run: the row of each step, console, dashboard, the stream's records of events,
/// and the run's result. It takes the machine's commands and the roles' reports, and decides
/// nothing. Owner: the driver, alone. Bound: the rows of the open steps.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/run/run_log.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/plan/check/first_step.hpp"
#include "runtime/plan/run/commands.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

/// Success, or the loss, at the first and at the last evaluation.
struct HeldOut {
  std::optional<double> before, after;
  void add(double value) {
    if (!before) before = value;
    after = value;
  }
  bool operator==(const HeldOut&) const = default;
};

struct RunResult {
  bool is_ok = false;
  std::string error;   // first cause, one line
  uint64_t steps = 0;  // finished steps
  bool is_stopped = false;
  bool is_loss = false;  // it failed because a process had gone: it can be resumed
  HeldOut sampled, greedy;
  HeldOut loss;                            // rows of files
  std::map<std::string, HeldOut> of_tags;  // sampled
  uint64_t param_hash = 0;
  uint64_t trajectories = 0;  // of the policy steps
};

/// Returns the stream's record of an event; `entry`: JSON of more that belongs to it, or nothing.
std::string event_record(const std::string& kind, uint64_t step, std::string_view phase,
                         const std::string& text, const std::string& entry = "");

struct RunBookOptions {
  config::RunConfig config;
  std::string run_id;
  std::string run_folder;
  bool is_resumed = false;
  bool has_reference_phase = false;
  std::vector<CardId> infer_cards;  // all of them
  CardId train_card;
  RunLog* log = nullptr;  // outlives the book
  std::function<void(stream::RecordType type, std::string json)> record;
  std::function<double()> epochs;  // of the data
};

class RunBook {
 public:
  explicit RunBook(RunBookOptions options) : options_(std::move(options)) {}

  // -- commands of plan::run::Run: the driver passes those on that change a row or a record
  void on(const plan::run::BeginRow& row);
  void on(const plan::run::AskTasks& ask);
  void on(const plan::run::BeginPhase& phase);
  void on(const plan::run::RoundOver& over);
  void on(const plan::run::Update& update);
  void on(const plan::run::Published& published);
  /// Returns Errc::io if the row cannot be written.
  Expected<void> on(const plan::run::EndRow& end);
  /// Returns the run's result.
  RunResult on(const plan::run::End& end);

  // -- what the roles report
  void phase(const control::PhaseReport& report);
  void leased(plan::run::RoundKey round, uint32_t replica, const control::LeaseReport& report);
  void collected(plan::run::RoundKey round, const control::CollectReport& report);
  void updated(plan::run::RoundKey round, const control::UpdateReport& report);
  void saved(const control::CheckpointReport& report);
  void stopping();
  /// Tells the user and the stream. `phase`: in which it happened.
  void note(const std::string& kind, const std::string& text, std::string_view phase,
            const std::string& entry = "");

  // -- checkpoints
  /// Returns the driver's part of a checkpoint. `tasks`: the data cursor.
  std::string state(const plan::run::Cursor& cursor, const std::string& tasks) const;
  /// Takes the books up where a checkpoint has left them: its cursor, and that of the data. Returns
  /// Errc::corrupt if the checkpoint has no driver's part.
  Expected<std::pair<plan::run::Cursor, std::string>> restore(
      const control::CheckpointReport& report);

 private:
  struct Row {
    explicit Row(uint64_t step) : numbers(step) {}
    observe::MetricRow numbers;
    StepViews views = {};
    double started = 0;
    double critical = 0;   // compute of this step on its critical path
    double placement = 0;  // likewise, of its phases
    double tokens = 0;
    double publish_started = 0, update_started = 0, evaluate_started = 0;
    std::optional<uint64_t> param_hash = {};  // after its update
  };
  struct Round {
    std::map<uint32_t, control::LeaseReport> leases;  // by replica, its last
    std::map<uint32_t, double> lease_ends;            // likewise, since the start of the run [s]
    double busy = 0;  // of the busiest lane of all: the critical path of generation
    control::CollectReport collected;
  };
  bool is_ahead() const { return options_.config.derived.steps_ahead > 0; }
  bool is_supervised() const { return config::is_supervised(options_.config.pipeline); }
  void rows_over(const plan::run::RoundOver& over, const Round& round);
  void train_over(const plan::run::RoundOver& over, const Round& round);
  void held_out_over(const plan::run::RoundOver& over, const Round& round);
  void write_held_out(Row& row, const control::CollectReport& collected);
  void take_facts(const control::NamedNumbers& metrics, uint64_t step);
  bool check_first_step();
  Row* front() { return rows_.empty() ? nullptr : &rows_.begin()->second; }
  uint64_t step() const { return rows_.empty() ? last_step_ : rows_.begin()->first; }

  RunBookOptions options_;
  std::map<uint64_t, Row> rows_;  // of the open steps
  std::map<plan::run::RoundKey, Round> rounds_;
  uint64_t last_step_ = 0;
  double last_row_ended_ = 0;
  double trainer_free_ = 0;               // when its last update ended
  uint64_t warm_trajectories_ = 0;        // scripted ones
  RunResult result_;                      // so far
  std::optional<plan::FirstStep> first_;  // facts that are not checked yet
};

}  // namespace cohort::actors
