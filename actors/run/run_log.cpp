#include "actors/run/run_log.hpp"

#include <fmt/format.h>

#include <map>

#include "actors/run/run_telemetry.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/observe/console_row.hpp"

namespace cohort::actors {

using observe::MetricRow;

namespace {

// What the report's timelines show. A run has no end in sight: the oldest half goes when it is
// full.
constexpr size_t k_shown_max = 4096;

template <class T>
void push_bounded(std::vector<T>& to, T value) {
  if (to.size() >= k_shown_max)
    to.erase(to.begin(), to.begin() + static_cast<ptrdiff_t>(k_shown_max / 2));
  to.push_back(std::move(value));
}

}  // namespace

Expected<std::unique_ptr<RunLog>> RunLog::open(RunLogOptions options) {
  std::filesystem::path folder = options.run_folder;
  COHORT_ASSIGN(observe::JsonlSink jsonl, observe::JsonlSink::open(folder / "metrics.jsonl"));
  observe::TensorBoardOptions tb;
  tb.folder = folder / "tensorboard";
  std::vector<MetricRow> rows;
  if (options.resume_after) {
    tb.resume_step = *options.resume_after + 1;
    COHORT_TRY(jsonl.truncate_after_step(*options.resume_after));
    COHORT_ASSIGN(rows, observe::read_metrics(folder / "metrics.jsonl"));
  }
  COHORT_ASSIGN(observe::TensorBoardWriter tensorboard,
                observe::TensorBoardWriter::open(std::move(tb)));
  COHORT_ASSIGN(
      std::unique_ptr<observe::TraceWriter> trace,
      observe::TraceWriter::open(folder / "trace.json", options.resume_after.has_value()));
  COHORT_TRY(tensorboard.text("config", 0, "```yaml\n" + options.config_yaml + "\n```"));
  if (options.board != nullptr)
    options.board->set_folder(folder.filename(), folder, options.references, rows);
  std::unique_ptr<RunLog> log(
      new RunLog(std::move(options), std::move(jsonl), std::move(tensorboard), std::move(trace)));
  for (const MetricRow& row : rows)
    if (auto sampled = row.number("val/success"))
      log->report_.evaluations.push_back(
          {row.step(), static_cast<uint64_t>(row.number("trajectories").value_or(0)), *sampled,
           row.number("val/success_greedy").value_or(observe::k_not_measured)});
  if (!log->options_.telemetry.otlp_endpoint.empty()) {
    const RunLogOptions& of = log->options_;
    observe::OtlpResource resource{folder.filename(), of.run_name, log->start_us_};
    COHORT_ASSIGN(log->telemetry_,
                  RunTelemetry::open(of.telemetry, std::move(resource), *of.console, of.board));
  }
  return log;
}

RunLog::RunLog(RunLogOptions options, observe::JsonlSink jsonl,
               observe::TensorBoardWriter tensorboard, std::unique_ptr<observe::TraceWriter> trace)
    : options_(std::move(options)),
      jsonl_(std::move(jsonl)),
      tensorboard_(std::move(tensorboard)),
      trace_(std::move(trace)),
      start_(now_seconds()),
      start_us_(wall_time_us()) {
  report_.title = options_.run_name;
  report_.references = options_.references;
  report_.cards = options_.cards;
  report_.config_text = options_.config_yaml;
  options_.console->update([&](observe::ConsoleState& state) {
    state.run_name = options_.run_name;
    state.total_steps = options_.total_steps;
    state.step = options_.resume_after.value_or(0);
    state.references = options_.references;
    for (const observe::CardInfo& card : options_.cards)
      state.cards.push_back(
          {fmt::format("card {}", card.card), card.role, 0, 0, card.budget_bytes});
  });
}

Expected<std::vector<MetricRow>> RunLog::rows() const {
  return observe::read_metrics(std::filesystem::path(options_.run_folder) / "metrics.jsonl");
}

RunLog::~RunLog() = default;

double RunLog::seconds_since_start() const { return now_seconds() - start_; }

void RunLog::phase(const control::PhaseReport& report) {
  std::string phase(plan::to_string(report.kind));
  std::vector<observe::Transition> moves;
  for (const control::Transition& t : report.transitions) {
    if (t.command.verb == plan::Command::Verb::begin_phase) continue;
    observe::Transition shown;
    shown.step = report.step;
    shown.card = t.command.card.value;
    shown.phase = phase;
    shown.object = plan::to_string(t.command.object);
    bool is_reshard = t.command.verb == plan::Command::Verb::reshard;
    shown.to = is_reshard ? "card" : std::string(plan::to_string(t.command.to));
    shown.from = is_reshard || t.command.to != plan::Place::card ? "card" : "host";
    shown.bytes = is_reshard || t.bytes_moved > t.bytes_on_card ? t.bytes_moved : t.bytes_on_card;
    shown.start_s = t.start_seconds;
    shown.end_s = t.start_seconds + t.seconds;
    auto track = trace_->track(fmt::format("card {}", t.command.card.value), "placement");
    observe::TraceArg args[] = {{"bytes", static_cast<double>(shown.bytes)}};
    trace_->span(track, plan::to_text(t.command), phase,
                 start_us_ + static_cast<int64_t>(1e6 * shown.start_s),
                 start_us_ + static_cast<int64_t>(1e6 * shown.end_s), args);
    if (telemetry_)
      telemetry_->phase(report.step, shown.card, plan::to_text(t.command), shown.start_s,
                        shown.end_s);
    moves.push_back(shown);
    push_bounded(report_.transitions, std::move(shown));
  }
  if (options_.board != nullptr) options_.board->add_moves(moves);
  options_.console->update([&](observe::ConsoleState& state) {
    for (const auto& [card, bytes] : report.bytes_per_card)
      for (size_t i = 0; i < options_.cards.size() && i < state.cards.size(); ++i)
        if (options_.cards[i].card == card) {
          state.cards[i].used_bytes = bytes;
          state.cards[i].peak_bytes = std::max(state.cards[i].peak_bytes, bytes);
        }
  });
  if (options_.board != nullptr) options_.board->set_bytes(report.bytes_per_card);
}

void RunLog::compute(uint64_t step, uint32_t card, const std::string& phase, double start_s,
                     double end_s) {
  push_bounded(report_.compute, {step, card, phase, start_s, end_s});
  if (options_.board != nullptr) options_.board->add_span({step, card, phase, start_s, end_s});
  const int64_t start_us = start_us_ + static_cast<int64_t>(1e6 * start_s);
  const observe::TrackId track =
      trace_->span(trace_->track(fmt::format("card {}", card), "compute"), phase, "compute",
                   start_us, start_us_ + static_cast<int64_t>(1e6 * end_s));
  if (phase == plan::to_string(plan::PhaseKind::update)) {
    const auto [first, last] = played_.equal_range(step);
    for (auto each = first; each != last; ++each)
      trace_->flow("trajectories", each->second.track, each->second.end_us, track, start_us);
    played_.erase(played_.begin(), last);
  }
  if (telemetry_) telemetry_->phase(step, card, phase, start_s, end_s);
}

void RunLog::played(uint64_t step, uint32_t replica, double start_s, double end_s) {
  const int64_t end_us = start_us_ + static_cast<int64_t>(1e6 * end_s);
  const observe::TrackId track = trace_->span(
      trace_->track("rollouts", fmt::format("rollout {}", replica)), fmt::format("step {}", step),
      "leases", start_us_ + static_cast<int64_t>(1e6 * start_s), end_us);
  played_.emplace(step, Played{track, end_us});
}

void RunLog::stage(const std::string& stage, const std::string& phase, double done) {
  options_.console->update([&](observe::ConsoleState& state) {
    state.stage = stage;
    state.phase = phase;
    state.stage_done = done;
  });
  if (options_.board != nullptr) options_.board->set_stage(stage, phase, done);
}

void RunLog::event(observe::EventLevel level, uint64_t step, const std::string& text,
                   const std::string& kind) {
  static const std::map<observe::EventLevel, std::string> k_kinds = {
      {observe::EventLevel::info, "info"},
      {observe::EventLevel::warning, "warning"},
      {observe::EventLevel::error, "error"}};
  const observe::EventView shown{seconds_since_start(), step,
                                 kind.empty() ? k_kinds.at(level) : kind, text};
  push_bounded(report_.events, shown);
  if (telemetry_) telemetry_->event(shown.kind);
  if (options_.board != nullptr) options_.board->add_event(shown);
  options_.console->event(level, text);
  log::info("step {}: {}", step, text);
}

void RunLog::lost(const std::vector<uint32_t>& cards, bool is_lost) {
  if (options_.board != nullptr) options_.board->set_lost(cards, is_lost);
}

void RunLog::stopping() {
  options_.console->update([](observe::ConsoleState& state) { state.is_stopping = true; });
  if (options_.board != nullptr) options_.board->set_state(observe::RunState::stopping);
}

Expected<void> RunLog::row(const MetricRow& row, uint64_t trajectories, const StepViews& views) {
  MetricRow named = row;
  add_names(options_.names, named);
  COHORT_TRY(jsonl_.write(named));
  COHORT_TRY(tensorboard_.scalars(named));
  const int64_t every = options_.telemetry.answer_steps;  // the first step has one
  if (every > 0 && !views.answer.empty() && (row.step() - 1) % static_cast<uint64_t>(every) == 0)
    COHORT_TRY(tensorboard_.text("rollout/answer", row.step(), views.answer));
  COHORT_TRY(tensorboard_.histograms(row.step(), views.histograms));
  if (telemetry_) telemetry_->row(named, trajectories);
  if (auto sampled = row.number("val/success"))
    report_.evaluations.push_back(
        {row.step(), trajectories, *sampled,
         row.number("val/success_greedy").value_or(observe::k_not_measured)});
  if (options_.board != nullptr) options_.board->add_row(named, trajectories, now_seconds());
  options_.console->step_done([&](observe::ConsoleState& state) {
    observe::show_row(state, row);
    state.trajectories = trajectories;
  });
  return {};
}

Expected<void> RunLog::close() {
  if (telemetry_) telemetry_->close();
  auto traced = trace_->close();
  if (!traced) log::warn("trace: {}", traced.error().to_string());
  COHORT_TRY(jsonl_.sync());
  return tensorboard_.close();
}

}  // namespace cohort::actors
