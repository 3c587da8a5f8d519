#include "actors/run/run_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/roles/first_facts.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"

namespace cohort::actors {

using control::CollectReport;
using control::LeaseReport;
using plan::PhaseKind;
using plan::run::RoundKey;
using stream::RecordType;

namespace {

nlohmann::json to_json(const HeldOut& held_out) {
  if (!held_out.before) return nullptr;
  return {*held_out.before, *held_out.after};
}

bool is_fact(const std::pair<std::string, double>& metric) {
  return metric.first.starts_with(plan::k_check_prefix);
}

HeldOut held_out_of(const nlohmann::json& json) {
  HeldOut held_out;
  if (json.is_array() && json.size() == 2) {
    held_out.before = json[0].get<double>();
    held_out.after = json[1].get<double>();
  }
  return held_out;
}

}  // namespace

// -- commands of plan::run::Run

void RunBook::on(const plan::run::BeginRow& row) {
  rows_.try_emplace(row.step, row.step).first->second.started = now_seconds();
}

void RunBook::on(const plan::run::AskTasks& ask) {
  const auto& warm = options_.config.warm_start;
  switch (ask.round.kind) {
    case TrajectoryKind::train:
      return options_.log->stage("step", is_supervised() ? "rows" : "generate", -1);
    case TrajectoryKind::warm_start:
      return options_.log->stage(
          "warm start", "supervised",
          static_cast<double>(ask.round.step) / static_cast<double>(warm.rounds));
    case TrajectoryKind::val:
      rows_.at(ask.round.step).evaluate_started = now_seconds();
      return options_.log->stage(ask.round.step == 0 ? "evaluate" : "step", "evaluate", -1);
    case TrajectoryKind::val_greedy:
      return;
  }
}

void RunBook::on(const plan::run::BeginPhase& phase) {
  Row* row = front();
  switch (phase.kind) {
    case PhaseKind::init:
      return options_.is_resumed ? void() : options_.log->stage("start", "init", -1);
    case PhaseKind::reference:
      return options_.log->stage("step", "reference", -1);
    case PhaseKind::update:
      return step() > 0 ? options_.log->stage("step", "update", -1) : void();
    case PhaseKind::publish:
      if (row != nullptr && step() == 0 && row->publish_started == 0) {
        options_.log->stage("warm start", "publish", 1);
        if (options_.config.warm_start.steps > 0) {
          row->numbers.set("time/warm_start_s", now_seconds() - row->started);
          row->numbers.set("warm_start/trajectories", static_cast<double>(warm_trajectories_));
        }
      }
      if (auto of = rows_.find(phase.step); of != rows_.end())
        of->second.publish_started = now_seconds();
      return;
    default:
      return;
  }
}

void RunBook::on(const plan::run::Update& update) {
  if (update.round.kind == TrajectoryKind::val) return;  // only the loss is asked for
  auto row = rows_.find(update.round.step);
  if (row == rows_.end()) return;
  row->second.update_started = now_seconds();
  if (is_ahead() && trainer_free_ > 0)
    row->second.numbers.set("time/wait_for_batch_s", now_seconds() - trainer_free_);
}

void RunBook::on(const plan::run::RoundOver& over) {
  const Round round = std::move(rounds_[over.round]);
  std::erase_if(rounds_, [&](const auto& each) {  // with what was told late of earlier ones
    return each.first.kind == over.round.kind && each.first.step <= over.round.step;
  });
  if (is_supervised()) return rows_over(over, round);
  if (over.round.kind == TrajectoryKind::train) return train_over(over, round);
  if (over.round.kind != TrajectoryKind::warm_start) return held_out_over(over, round);
  warm_trajectories_ += round.collected.trajectories;
}

/// Nothing is generated: rows are read, and the trainer's numbers are the step's.
void RunBook::rows_over(const plan::run::RoundOver& over, const Round& round) {
  Row& row = rows_.at(over.round.step);
  for (const auto& [key, value] : round.collected.metrics) row.numbers.set(key, value);
  if (over.round.kind != TrajectoryKind::train) return;
  result_.trajectories += round.collected.trajectories;
  row.tokens += static_cast<double>(round.collected.tokens);
  row.numbers.set("time/rows_s", over.collected - over.opened);
  row.numbers.set("data/epoch", options_.epochs());
}

void RunBook::train_over(const plan::run::RoundOver& over, const Round& round) {
  Row& row = rows_.at(over.round.step);
  const double seconds = over.collected - over.opened;
  const double generate = options_.has_reference_phase ? over.played - over.opened : seconds;
  const double start = options_.log->seconds_since_start() - seconds;
  for (CardId card : options_.infer_cards)
    options_.log->compute(over.round.step, card.value, "generate", start, start + generate);
  for (const auto& [replica, at] : round.lease_ends)
    options_.log->played(over.round.step, replica,
                         std::max(start, at - round.leases.at(replica).wall_seconds), at);
  row.critical += round.busy;
  result_.trajectories += round.collected.trajectories;
  row.tokens += static_cast<double>(round.collected.tokens);
  row.numbers.set("time/generate_s", generate);
  if (options_.has_reference_phase) row.numbers.set("time/reference_s", seconds - generate);
  row.numbers.set("compute/generate_s", round.busy);
  double generated = 0, busy = 0;
  for (const auto& [replica, lease] : round.leases) {
    generated += static_cast<double>(lease.generated_tokens + lease.prefill_tokens);
    busy += lease.busy_seconds / std::max(1e-9, lease.wall_seconds);
  }
  if (is_ahead() && !round.leases.empty())
    row.numbers.set("rollout/idle_ratio",
                    std::max(0.0, 1 - busy / static_cast<double>(round.leases.size())));
  row.numbers.set("generate_tokens_per_s", generated / std::max(1e-9, round.busy));
  for (const auto& [key, value] : round.collected.metrics) row.numbers.set(key, value);
  row.views.answer = round.collected.answer;
  row.views.add(round.collected.histograms);
  if (options_.config.pipeline == config::Pipeline::rlvr)
    row.numbers.set("data/epoch", options_.epochs());
}

void RunBook::held_out_over(const plan::run::RoundOver& over, const Round& round) {
  Row& row = rows_.at(over.round.step);
  row.critical += round.busy;
  const bool is_greedy = over.round.kind == TrajectoryKind::val_greedy;
  if (!is_greedy) write_held_out(row, round.collected);
  double success = 0;
  double tags = 0;
  for (const auto& [tag, share] : round.collected.success) {
    success += share;
    ++tags;
  }
  success /= std::max(1.0, tags);
  row.numbers.set(is_greedy ? "val/success_greedy" : "val/success", success);
  (is_greedy ? result_.greedy : result_.sampled).add(success);
  if (is_greedy) row.numbers.set("time/evaluate_s", now_seconds() - row.evaluate_started);
}

// Held-out numbers of the sampled answers: ROLL's names by tag, verl's by data source.
void RunBook::write_held_out(Row& row, const CollectReport& collected) {
  for (const auto& [metric, value] : collected.metrics) {
    if (metric.starts_with("val")) row.numbers.set(metric, value);
    if (metric.starts_with("env/")) row.numbers.set("val/" + metric, value);
  }
  for (const auto& [tag, share] : collected.success) result_.of_tags[tag].add(share);
}

void RunBook::on(const plan::run::Published& published) {
  if (auto row = rows_.find(published.step); row != rows_.end())
    row->second.numbers.set("time/publish_s", now_seconds() - row->second.publish_started);
  options_.record(RecordType::weight_version,
                  nlohmann::json{{"version", published.version},
                                 {"step", published.step},
                                 {"param_hash", fmt::format("{:016x}", result_.param_hash)}}
                      .dump());
}

Expected<void> RunBook::on(const plan::run::EndRow& end) {
  Row& row = rows_.at(end.step);
  check_first_step();  // of a step that makes no update
  // A step that began beside the one before it counts from the end of that one.
  const double seconds = now_seconds() - std::max(row.started, last_row_ended_);
  last_row_ended_ = now_seconds();
  row.numbers.set("param_hash",
                  fmt::format("{:016x}", row.param_hash.value_or(result_.param_hash)));
  row.numbers.set("policy_version", static_cast<double>(end.version));
  row.numbers.set("trajectories", static_cast<double>(result_.trajectories));
  row.numbers.set("tokens", row.tokens);
  row.numbers.set("time/placement_s", row.placement);
  row.numbers.set("time/step_s", seconds);
  row.numbers.set("orchestrator_share",
                  std::max(0.0, seconds - row.critical) / std::max(1e-9, seconds));
  row.numbers.set("tokens_per_s", row.tokens / std::max(1e-9, seconds));
  options_.record(RecordType::step_result, row.numbers.to_json());
  auto written = options_.log->row(row.numbers, result_.trajectories, row.views);
  rows_.erase(end.step);
  last_step_ = end.step;
  return written;
}

RunResult RunBook::on(const plan::run::End& end) {
  using How = plan::run::End::How;
  check_first_step();  // of a run that ends before its first update
  result_.is_ok = end.how != How::failed;
  result_.is_stopped = end.how == How::stopped;
  result_.is_loss = end.is_loss;
  result_.error = end.error;
  result_.steps = end.steps;
  return result_;
}

// -- what the roles report

void RunBook::phase(const control::PhaseReport& report) {
  if (Row* row = front()) row->placement += report.seconds;
  for (const std::string& alarm : report.alarms) note("leak", alarm, plan::to_string(report.kind));
  options_.log->phase(report);
}

void RunBook::leased(RoundKey key, uint32_t replica, const LeaseReport& report) {
  Round& round = rounds_[key];
  LeaseReport& last = round.leases[replica];
  if (report.generated_tokens >= last.generated_tokens)
    last = report;  // it counts since the round began there
  round.lease_ends[replica] = options_.log->seconds_since_start();
  round.busy = std::max(round.busy, report.busy_seconds);
}

void RunBook::collected(RoundKey key, const CollectReport& report) {
  CollectReport& collected = rounds_[key].collected = report;
  take_facts(report.metrics, key.step);
  std::erase_if(collected.metrics, is_fact);
}

void RunBook::updated(RoundKey key, const control::UpdateReport& report) {
  Row& row = key.kind == TrajectoryKind::warm_start ? *front() : rows_.at(key.step);
  const uint64_t row_step = key.kind == TrajectoryKind::warm_start ? step() : key.step;
  row.param_hash = report.param_hash;
  result_.param_hash = report.param_hash;
  trainer_free_ = now_seconds();
  take_facts(report.metrics, key.step);
  const bool is_told = check_first_step();
  for (const auto& [name, value] : report.metrics)
    if (name.ends_with("/nonfinite_steps") && !is_told)
      note("nonfinite",
           fmt::format("step {}: {:.0f} optimizer steps of the {} are left out: their loss or "
                       "gradient is not finite; their trajectories are in the stream",
                       row_step, value, name.substr(0, name.find('/'))),
           plan::to_string(PhaseKind::update));
  const double end = options_.log->seconds_since_start();
  options_.log->compute(row_step, options_.train_card.value, "update", end - report.compute_seconds,
                        end);
  row.critical += report.compute_seconds;
  if (key.kind == TrajectoryKind::train) {
    row.numbers.set("time/update_s", now_seconds() - row.update_started);
    row.numbers.set("compute/update_s", report.compute_seconds);
    row.numbers.set("train_tokens_per_s",
                    static_cast<double>(report.tokens) / std::max(1e-9, report.compute_seconds));
    row.views.add(report.histograms);
  }
  if (report.critic_hash != 0)
    row.numbers.set("critic/param_hash", fmt::format("{:016x}", report.critic_hash));
  for (const auto& [name, value] : report.metrics) {
    if (is_fact({name, value})) continue;
    row.numbers.set(name, value);
    if (name == "val/loss") result_.loss.add(value);
  }
  if (key.kind == TrajectoryKind::val)
    row.numbers.set("time/evaluate_s", now_seconds() - row.evaluate_started);
}

// -- the first step's checks

void RunBook::take_facts(const control::NamedNumbers& metrics, uint64_t step) {
  for (const auto& [name, value] : metrics) {
    if (!is_fact({name, value})) continue;
    if (!first_) first_ = first_step_of(options_.config);
    first_->take(name, value, step);
  }
}

/// Tells what is wrong with the facts that have come. Returns whether that is a gradient that is
/// not finite.
bool RunBook::check_first_step() {
  if (!first_) return false;
  bool is_nonfinite = false;
  for (const plan::Finding& found : plan::first_step_findings(*first_, options_.run_folder)) {
    is_nonfinite = is_nonfinite || found.check == plan::k_nonfinite_check;
    const nlohmann::json entry = {{"check", found.check},
                                  {"seen", found.seen},
                                  {"limit", found.limit},
                                  {"trajectory", found.trajectory}};
    note("self_check", "first step: " + found.sentence, plan::to_string(PhaseKind::update),
         entry.dump());
  }
  first_.reset();
  return is_nonfinite;
}

void RunBook::saved(const control::CheckpointReport& report) {
  log::info("checkpoint {} ({:.3f} s)", report.folder, report.seconds);
  options_.record(RecordType::checkpoint,
                  nlohmann::json{{"step", step()},
                                 {"folder", report.folder},
                                 {"param_hash", fmt::format("{:016x}", report.param_hash)},
                                 {"seconds", report.seconds}}
                      .dump());
}

void RunBook::stopping() {
  options_.log->stopping();
  options_.log->event(observe::EventLevel::info, step(),
                      "stopping: this step is finished and saved first");
}

std::string event_record(const std::string& kind, uint64_t step, std::string_view phase,
                         const std::string& text, const std::string& entry) {
  nlohmann::json json = {{"kind", kind},
                         {"step", step},
                         {"phase", phase},
                         {"detail", text},
                         {"time_us", wall_time_us()}};
  if (!entry.empty()) json["entry"] = nlohmann::json::parse(entry);
  return json.dump();
}

void RunBook::note(const std::string& kind, const std::string& text, std::string_view phase,
                   const std::string& entry) {
  options_.log->event(observe::EventLevel::warning, step(), text, kind);
  options_.record(RecordType::event, event_record(kind, step(), phase, text, entry));
}

// -- checkpoints

std::string RunBook::state(const plan::run::Cursor& cursor, const std::string& tasks) const {
  nlohmann::json of_tags = nlohmann::json::object();
  for (const auto& [tag, held_out] : result_.of_tags) of_tags[tag] = to_json(held_out);
  return nlohmann::json{{"format", 1},
                        {"stage", cursor.is_warm ? "warm_start" : "policy"},
                        {"step", cursor.step},
                        {"version", cursor.version},
                        {"warm_round", cursor.warm_round},
                        {"steps_ahead", options_.config.derived.steps_ahead},
                        {"trajectories", result_.trajectories},
                        {"run_id", options_.run_id},
                        {"seed", options_.config.seed},
                        {"tasks", tasks},
                        {"held_out",
                         {{"sampled", to_json(result_.sampled)},
                          {"greedy", to_json(result_.greedy)},
                          {"loss", to_json(result_.loss)},
                          {"of_tags", of_tags}}}}
      .dump();
}

Expected<std::pair<plan::run::Cursor, std::string>> RunBook::restore(
    const control::CheckpointReport& report) {
  const nlohmann::json state = nlohmann::json::parse(report.state_json, nullptr, false);
  if (state.is_discarded() || !state.contains("step"))
    return Error{Errc::corrupt, report.folder + ": state.json lacks the driver's part"};
  plan::run::Cursor cursor;
  cursor.is_warm = state.at("stage").get<std::string>() == "warm_start";
  cursor.step = state.at("step").get<uint64_t>();
  cursor.version = state.at("version").get<uint64_t>();
  cursor.warm_round = state.at("warm_round").get<uint64_t>();
  if (const auto ahead = state.value("steps_ahead", int64_t{0});
      ahead > options_.config.derived.steps_ahead)
    return Error{
        Errc::config,
        fmt::format("{} was made {} steps ahead of its optimizer, this run may be {}: what "
                    "it has would be too old (FLOW-3); give async.bound {} or more",
                    report.folder, ahead, options_.config.derived.steps_ahead, ahead)};
  result_.trajectories = state.at("trajectories").get<uint64_t>();
  last_step_ = cursor.step;
  result_.param_hash = report.param_hash;
  // A checkpoint of before 2026-11-22 does not say how the run was at its beginning.
  const nlohmann::json held_out = state.value("held_out", nlohmann::json::object());
  result_.sampled = held_out_of(held_out.value("sampled", nlohmann::json()));
  result_.greedy = held_out_of(held_out.value("greedy", nlohmann::json()));
  result_.loss = held_out_of(held_out.value("loss", nlohmann::json()));
  const nlohmann::json of_tags = held_out.value("of_tags", nlohmann::json::object());
  for (const auto& [tag, each] : of_tags.items()) result_.of_tags[tag] = held_out_of(each);
  options_.log->event(
      observe::EventLevel::info, cursor.step,
      fmt::format("resumed from {} (parameters {:016x})", report.folder, result_.param_hash));
  options_.record(
      RecordType::event,
      nlohmann::json{{"kind", "resume"}, {"step", cursor.step}, {"detail", report.folder}}.dump());
  return std::pair{cursor, state.value("tasks", "{}")};
}

}  // namespace cohort::actors
