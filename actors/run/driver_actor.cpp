#include "actors/run/driver_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::actors {

using namespace control;
using plan::PhaseKind;
using proto::TrajectoryKind;

void DriverState::open(DriverOptions options) {
  options_ = std::move(options);
  for (const RolloutActor& rollout : options_.rollouts)
    replicas_.push_back({rollout, Standing::back, 0});
  slow_ = plan::SlowReplicas{replicas_.size()};
}

void DriverState::on_start() {
  step_started_ = now_seconds();
  auto quarantine = Quarantine::open(options_.run_folder);
  if (!quarantine) return on_fail({"driver", "start", quarantine.error().detail});
  quarantine_ = std::move(*quarantine);
  if (!options_.resume_from.empty()) return begin_phase(PhaseKind::init, [this] { resume(); });
  options_.log->stage("start", "init", -1);
  begin_phase(PhaseKind::init, [this] { warm_round(0); });
}

void DriverState::on_stop() {
  if (is_stopping_) return;
  is_stopping_ = true;
  options_.log->stopping();
  options_.log->event(observe::EventLevel::info, step_,
                      "stopping: this step is finished and saved first");
}

void DriverState::on_fail(const Failure& failure) {
  if (failure.is_consequence) {  // the supervisor's word on the first cause is on its way
    Failure last_resort = failure;
    last_resort.is_consequence = false;
    self_->delayed_send(DriverActor{self_}, std::chrono::milliseconds(options_.verdict_wait_ms),
                        fail_atom_v, std::move(last_resort));
    return;
  }
  RunResult result = result_;
  result.error = fmt::format("{} in phase {}: {}", failure.role, failure.phase, failure.detail);
  result.is_loss = failure.is_loss;
  end(std::move(result));
}

void DriverState::on_notice(const std::string& role, const std::string& text) {
  last_notice_ = role + ": " + text;
  options_.log->event(observe::EventLevel::warning, step_, last_notice_, "notice");
  record(static_cast<uint16_t>(stream::RecordType::event),
         nlohmann::json{{"kind", "notice"}, {"step", step_}, {"detail", last_notice_}}.dump());
}

void DriverState::begin_phase(PhaseKind kind, Next next) {
  phase_ = plan::to_string(kind);
  ask(
      "placement", options_.placement,
      [this, next](const PhaseReport& report) {
        placement_seconds_ += report.seconds;
        for (const std::string& alarm : report.alarms) {
          options_.log->event(observe::EventLevel::warning, step_, alarm, "leak");
          record(static_cast<uint16_t>(stream::RecordType::event),
                 nlohmann::json{{"kind", "leak"}, {"step", step_}, {"detail", alarm}}.dump());
        }
        options_.log->phase(report);
        note_served(report);
        next();
      },
      phase_atom_v, PhaseRequest{step_, kind, version_});
}

void DriverState::gather(Batch batch, std::function<void(Gathered)> then) {
  auto gathered = std::make_shared<Gathered>();
  double started = now_seconds();
  CollectRequest request{batch.kind, batch.step, batch.groups, batch.group_size};
  ask(
      "actor_train", options_.trainer,
      [this, batch, gathered, started, then](bool) { lease_all(batch, gathered, started, then); },
      expect_atom_v, request);
}

double DriverState::expert_fraction(uint64_t round) const {
  const auto& warm = options_.config.warm_start;
  if (!warm.expert_fraction_end) return warm.expert_fraction;
  double progress =
      static_cast<double>(round) / static_cast<double>(std::max<int64_t>(1, warm.rounds));
  double blend = std::clamp((progress - 0.5) / 0.25, 0.0, 1.0);
  return warm.expert_fraction + blend * (*warm.expert_fraction_end - warm.expert_fraction);
}

// One replica gets the whole batch at once. Several get groups as they have room for them, so that
// the batch ends for all at about the same time.
void DriverState::lease_all(const Batch& batch, const std::shared_ptr<Gathered>& gathered,
                            double started, const std::function<void(Gathered)>& then) {
  const size_t replicas = replicas_.size();
  auto mean = static_cast<uint64_t>(std::max(1.0, response_tokens_));
  plan::DispatchOptions dispatch;
  dispatch.replicas = static_cast<uint32_t>(replicas);
  dispatch.response_tokens_guess = mean;
  // Half as much again as a replica runs at once: it never waits for the next group.
  dispatch.open_tokens_max =
      replicas == 1 ? std::numeric_limits<uint64_t>::max()
                    : static_cast<uint64_t>(options_.config.max_running_requests) * mean * 3 / 2;
  auto round = std::make_shared<Round>(Round{batch,
                                             gathered,
                                             started,
                                             then,
                                             {},
                                             plan::Suspects{batch.groups},
                                             plan::GroupClock{straggler_options()},
                                             0});
  round_ = round;
  round->dispatcher.emplace(dispatch);
  gathered->leases.resize(replicas);
  for (uint32_t group = 0; group < batch.groups; ++group) {
    if (skip_quarantined(round, group)) continue;
    if (auto added =
            round->dispatcher->add({group, batch.tasks[group].seed, batch.group_size, 0, 0});
        !added)
      return on_fail({"driver", phase_, added.error().to_string()});
  }
  continue_round(round);
}

void DriverState::lease_more(const std::shared_ptr<Round>& round) {
  if (round->questions > 0 || is_reviving_) return;
  std::vector<plan::DispatchPart> parts = round->dispatcher->assign();
  auto attempt_of = [&](const plan::DispatchPart& part) {
    auto found = round->attempts.find(static_cast<uint32_t>(part.group));
    return found == round->attempts.end() ? 0 : found->second;
  };
  for (size_t i = 0; i < parts.size();) {
    std::vector<plan::DispatchPart> together = {parts[i]};
    while (++i < parts.size() && replicas_.size() == 1 &&
           attempt_of(parts[i]) == attempt_of(together.front()))
      together.push_back(parts[i]);
    for (const plan::DispatchPart& part : together) {
      round->clock.opened(part.group, now_seconds());
      round->first_on[static_cast<uint32_t>(part.group)] = part.replica;
    }
    lease_parts(round, together);
  }
}

void DriverState::lease_parts(const std::shared_ptr<Round>& round,
                              const std::vector<plan::DispatchPart>& parts) {
  if (is_over_) return;
  const size_t replica = parts.front().replica;
  Lease lease = lease_of(round->batch);
  bool is_whole = true;
  for (const plan::DispatchPart& part : parts) {
    auto group = static_cast<uint32_t>(part.group);
    lease.groups.push_back(group);
    lease.seeds.push_back(round->batch.tasks[group].seed);
    lease.tags.push_back(round->batch.tasks[group].tag);
    lease.indices.push_back(part.indices);
    is_whole = is_whole && part.indices.size() == lease.group_size;
  }
  if (is_whole) lease.indices.clear();
  if (auto found = round->attempts.find(lease.groups.front()); found != round->attempts.end())
    lease.attempt += found->second;
  note_move(round, replica);
  if (round->suspects.is_isolated(lease.groups.front())) judge(replica, Judgement::alone);
  std::pair<size_t, uint32_t> from{replica, replicas_[replica].attempt};
  send_request(
      self_, replicas_[replica].actor, std::chrono::milliseconds(options_.request_timeout_ms),
      [this, round, from, parts](const LeaseReport& report) {
        if (replicas_[from.first].attempt == from.second)
          on_lease_end(round, from.first, parts, report);
      },
      [this, from](caf::error& e) { on_lease_error(from, e); }, lease_atom_v, lease);
}

Lease DriverState::lease_of(const Batch& batch) const {
  Lease lease;
  lease.kind = batch.kind;
  lease.step = batch.step;
  lease.attempt = options_.attempt;
  lease.group_size = batch.group_size;
  lease.version = version_;
  lease.expert_fraction = expert_fraction(batch.step);
  return lease;
}

void DriverState::on_lease_end(const std::shared_ptr<Round>& round, size_t replica,
                               const std::vector<plan::DispatchPart>& parts,
                               const LeaseReport& report) {
  Gathered& gathered = *round->gathered;
  if (report.generated_tokens >= gathered.leases[replica].generated_tokens)
    gathered.leases[replica] = report;  // it counts since the round began there
  gathered.busy_seconds = std::max(gathered.busy_seconds, report.busy_seconds);
  uint64_t each =
      std::max<uint64_t>(1, report.response_tokens / std::max<uint64_t>(1, report.trajectories));
  note_move(round, replica);
  bool is_first = false;
  for (const plan::DispatchPart& part : parts) {
    if (round->suspects.is_isolated(part.group)) judge(replica, Judgement::shared);
    round->suspects.acquit(part.group);
    is_first = take_end(round, static_cast<uint32_t>(replica), part, each) || is_first;
  }
  if (!is_first) return;  // another has played it
  round->response_tokens += report.response_tokens;
  end_leaves();
  continue_round(round);
}

void DriverState::leases_over(const std::shared_ptr<Round>& round) {
  if (std::exchange(round->is_collecting, true)) return;  // its answer is on its way
  end_of_round(round);
  const Batch& batch = round->batch;
  Gathered& gathered = *round->gathered;
  response_tokens_ = static_cast<double>(round->response_tokens) /
                     std::max(1.0, static_cast<double>(batch.groups) * batch.group_size);
  gathered.generate_seconds = now_seconds() - round->started;
  bool is_train = batch.kind == static_cast<uint8_t>(TrajectoryKind::train);
  if (!is_train || !options_.has_reference_phase) return collect(round);
  // What was played waits at the reference until its weights have the card.
  options_.log->stage("step", "reference", -1);
  begin_phase(PhaseKind::reference, [this, round] { collect(round); });
}

void DriverState::collect(const std::shared_ptr<Round>& round) {
  ask(
      "actor_train", options_.trainer,
      [this, round](const CollectReport& report) {
        Gathered& gathered = *round->gathered;
        gathered.collected = report;
        gathered.seconds = now_seconds() - round->started;
        if (!options_.has_reference_phase) gathered.generate_seconds = gathered.seconds;
        round->is_collected = true;
        close_round(round);
      },
      collect_atom_v, round->batch.kind, round->batch.step);
}

// A group that is played again, because a rollout was lost or has left, may have come from that one
// after all: what plays it now is still to end, for no card may move under a lease (PLACE-4).
void DriverState::close_round(const std::shared_ptr<Round>& round) {
  if (round_ != round || is_reviving_ || round->questions > 0) return;
  for (uint32_t replica = 0; replica < replicas_.size(); ++replica)
    if (round->dispatcher->open_groups(replica) > 0) return;
  round_.reset();
  end_leaves();
  round->then(*round->gathered);
}

void DriverState::load(const std::string& folder,
                       std::function<void(const CheckpointReport&)> then) {
  phase_ = "resume";
  ask("actor_train", options_.trainer, std::move(then), load_atom_v,
      CheckpointRequest{0, folder, ""});
}

void DriverState::resume() {
  auto continue_run = [this] {
    load(options_.resume_from, [this](const CheckpointReport& report) {
      nlohmann::json state = nlohmann::json::parse(report.state_json, nullptr, false);
      if (state.is_discarded() || !state.contains("step"))
        return on_fail(
            {"driver", "resume", options_.resume_from + ": state.json lacks the driver's part"});
      step_ = state.at("step").get<uint64_t>();
      version_ = std::max(version_, state.at("version").get<uint64_t>());
      warm_round_ = state.at("warm_round").get<uint64_t>();
      trajectories_ = state.at("trajectories").get<uint64_t>();
      param_hash_ = report.param_hash;
      if (auto restored = options_.tasks->restore(state.value("tasks", "{}")); !restored)
        return on_fail({"driver", "resume", restored.error().to_string()});
      bool is_warm = state.at("stage").get<std::string>() == "warm_start";
      options_.log->event(
          observe::EventLevel::info, step_,
          fmt::format("resumed from {} (parameters {:016x})", report.folder, param_hash_));
      record(static_cast<uint16_t>(stream::RecordType::event),
             nlohmann::json{{"kind", "resume"}, {"step", step_}, {"detail", report.folder}}.dump());
      if (is_warm) return warm_round(warm_round_);
      result_.steps = step_;
      publish([this] {
        step_ >= static_cast<uint64_t>(options_.config.max_steps) ? finish(false)
                                                                  : run_step(step_ + 1);
      });
    });
  };
  // The frozen reference is the policy of step 0: publish that one first, the reference keeps its
  // copy.
  if (!options_.config.derived.is_reference_needed || options_.resume_first.empty())
    return continue_run();
  load(options_.resume_first, [this, continue_run](const CheckpointReport&) {
    publish([this, continue_run] {
      ++version_;
      continue_run();
    });
  });
}

void DriverState::start_row(uint64_t step) {
  step_ = step;
  row_.emplace(step);
  step_started_ = now_seconds();
  critical_seconds_ = placement_seconds_ = step_tokens_ = 0;
}

void DriverState::warm_round(uint64_t round) {
  const auto& warm = options_.config.warm_start;
  warm_round_ = round;
  if (round == 0)
    start_row(0);
  else if (!row_)
    start_row(0);
  if (warm.steps == 0 || round >= static_cast<uint64_t>(warm.rounds)) return warm_end();
  if (is_stopping_) return checkpoint(fmt::format("warm_{}", round), [this] { finish(true); });
  options_.log->stage("warm start", "supervised",
                      static_cast<double>(round) / static_cast<double>(warm.rounds));
  // Optimizer steps of this round: the steps spread evenly over the rounds.
  auto steps_until = [&](uint64_t r) {
    return static_cast<uint64_t>(warm.steps) * r / static_cast<uint64_t>(warm.rounds);
  };
  uint64_t count =
      (steps_until(round + 1) - steps_until(round)) * static_cast<uint64_t>(warm.batch_size);
  Batch batch{static_cast<uint8_t>(TrajectoryKind::warm_start), round, static_cast<uint32_t>(count),
              1, options_.tasks->warm(round, static_cast<uint32_t>(count))};
  phase_ = "warm_start";
  auto play = [this, batch, round] {
    gather(batch, [this, round](const Gathered& gathered) {
      warm_trajectories_ += gathered.collected.trajectories;
      update(static_cast<uint8_t>(TrajectoryKind::warm_start), round,
             [this, round](const UpdateReport& report) {
               critical_seconds_ += report.compute_seconds;
               for (const auto& [key, value] : report.metrics) row_->set(key, value);
               warm_round(round + 1);
             });
    });
  };
  if (round == 0 || critical_seconds_ == 0) return begin_phase(PhaseKind::update, play);
  play();
}

void DriverState::warm_end() {
  version_ = 0;
  options_.log->stage("warm start", "publish", 1);
  double seconds = now_seconds() - step_started_;
  if (options_.config.warm_start.steps > 0) {
    row_->set("time/warm_start_s", seconds);
    row_->set("warm_start/trajectories", static_cast<double>(warm_trajectories_));
  }
  publish([this] { evaluate([this] { end_step(); }); });
}

void DriverState::update(uint8_t kind, uint64_t step,
                         std::function<void(const UpdateReport&)> then) {
  phase_ = "update";
  ask(
      "actor_train", options_.trainer,
      [this, then](const UpdateReport& report) {
        param_hash_ = report.param_hash;
        for (const auto& [key, value] : report.metrics)
          if (key == "actor/nonfinite_steps")
            note("nonfinite",
                 fmt::format("step {}: {:.0f} optimizer steps are left out: their loss or gradient "
                             "is not finite; their trajectories are in the stream",
                             step_, value));
        double end = options_.log->seconds_since_start();
        options_.log->compute(step_, options_.train_card.value, "update",
                              end - report.compute_seconds, end);
        then(report);
      },
      update_atom_v, UpdateRequest{kind, step, version_ + 1});
}

void DriverState::run_step(uint64_t step) {
  if (is_stopping_) return finish(true);
  start_row(step);
  options_.log->stage("step", "generate", -1);
  auto tasks = options_.tasks->train(step);
  if (!tasks) return on_fail({"driver", "generate", tasks.error().to_string()});
  Batch batch{static_cast<uint8_t>(TrajectoryKind::train), step,
              static_cast<uint32_t>(tasks->size()),
              static_cast<uint32_t>(options_.config.derived.group_size), std::move(*tasks)};
  begin_phase(PhaseKind::generate, [this, batch, step] {
    gather(batch, [this, step](const Gathered& gathered) {
      double end = options_.log->seconds_since_start();
      for (CardId card : options_.infer_cards)
        options_.log->compute(step, card.value, "generate", end - gathered.seconds,
                              end - gathered.seconds + gathered.generate_seconds);
      critical_seconds_ += gathered.busy_seconds;
      trajectories_ += gathered.collected.trajectories;
      step_tokens_ += static_cast<double>(gathered.collected.tokens);
      row_->set("time/generate_s", gathered.generate_seconds);
      if (options_.has_reference_phase)
        row_->set("time/reference_s", gathered.seconds - gathered.generate_seconds);
      row_->set("compute/generate_s", gathered.busy_seconds);
      double generated = 0;
      for (const LeaseReport& lease : gathered.leases)
        generated += static_cast<double>(lease.generated_tokens + lease.prefill_tokens);
      row_->set("generate_tokens_per_s", generated / std::max(1e-9, gathered.busy_seconds));
      for (const auto& [key, value] : gathered.collected.metrics) row_->set(key, value);
      if (options_.config.pipeline == config::Pipeline::rlvr)
        row_->set("data/epoch", options_.tasks->epochs());
      if (is_all_masked(gathered.collected)) return;
      options_.log->stage("step", "update", -1);
      begin_phase(PhaseKind::update, [this, step] {
        double started = now_seconds();
        update(static_cast<uint8_t>(TrajectoryKind::train), step,
               [this, started](const UpdateReport& report) {
                 critical_seconds_ += report.compute_seconds;
                 row_->set("time/update_s", now_seconds() - started);
                 row_->set("compute/update_s", report.compute_seconds);
                 row_->set("train_tokens_per_s", static_cast<double>(report.tokens) /
                                                     std::max(1e-9, report.compute_seconds));
                 for (const auto& [key, value] : report.metrics) row_->set(key, value);
                 ++version_;
                 publish([this] {
                   if (is_eval_step(step_) || is_stopping_) return evaluate([this] { end_step(); });
                   end_step();
                 });
               });
      });
    });
  });
}

void DriverState::publish(Next next) {
  double started = now_seconds();
  begin_phase(PhaseKind::publish, [this, started, next] {
    if (row_) row_->set("time/publish_s", now_seconds() - started);
    record(static_cast<uint16_t>(stream::RecordType::weight_version),
           nlohmann::json{{"version", version_},
                          {"step", step_},
                          {"param_hash", fmt::format("{:016x}", param_hash_)}}
               .dump());
    next();
  });
}

bool DriverState::is_eval_step(uint64_t step) const {
  const auto& config = options_.config;
  return step == static_cast<uint64_t>(config.max_steps) ||
         (config.eval_steps > 0 && step % static_cast<uint64_t>(config.eval_steps) == 0);
}

void DriverState::evaluate(Next next) {
  if (options_.config.eval_steps <= 0) return next();
  options_.log->stage(step_ == 0 ? "evaluate" : "step", "evaluate", -1);
  double started = now_seconds();
  begin_phase(PhaseKind::evaluate, [this, started, next] {
    evaluate_kind(static_cast<uint8_t>(TrajectoryKind::val), "val/success", [this, started, next] {
      evaluate_kind(static_cast<uint8_t>(TrajectoryKind::val_greedy), "val/success_greedy",
                    [this, started, next] {
                      row_->set("time/evaluate_s", now_seconds() - started);
                      next();
                    });
    });
  });
}

void DriverState::evaluate_kind(uint8_t kind, const std::string& metric, Next next) {
  std::vector<GroupTask> tasks = options_.tasks->held_out();
  bool is_single = kind == static_cast<uint8_t>(TrajectoryKind::val_greedy) &&
                   options_.config.pipeline == config::Pipeline::rlvr;
  Batch batch{kind, step_, static_cast<uint32_t>(tasks.size()),
              is_single ? 1U : static_cast<uint32_t>(options_.config.derived.val_group_size),
              std::move(tasks)};
  phase_ = "evaluate";
  gather(batch, [this, metric, next](const Gathered& gathered) {
    critical_seconds_ += gathered.busy_seconds;
    if (metric == "val/success") write_held_out(gathered.collected);
    double success = 0;
    double tags = 0;
    for (const auto& [key, value] : gathered.collected.metrics)
      if (key.ends_with("/success")) {
        success += value;
        ++tags;
      }
    success /= std::max(1.0, tags);
    row_->set(metric, success);
    bool is_greedy = metric == "val/success_greedy";
    auto& before = is_greedy ? result_.greedy_before : result_.success_before;
    auto& after = is_greedy ? result_.greedy_after : result_.success_after;
    if (!before) before = success;
    after = success;
    next();
  });
}

// Held-out numbers of the sampled answers: ROLL's names by tag, verl's by data source.
void DriverState::write_held_out(const CollectReport& collected) {
  for (const auto& [metric, value] : collected.metrics) {
    if (metric.starts_with("val")) row_->set(metric, value);
    if (!metric.starts_with("env/")) continue;
    row_->set("val/" + metric, value);
    if (!metric.ends_with("/success")) continue;
    constexpr size_t k_prefix = 4, k_suffix = 8;  // "env/", "/success"
    std::string tag = metric.substr(k_prefix, metric.size() - k_prefix - k_suffix);
    auto [found, is_new] = result_.success_of_tags.try_emplace(tag, value, value);
    if (!is_new) found->second.second = value;
  }
}

// A step without a single score teaches nothing and costs nothing; several in a row are a reward
// that does not work.
bool DriverState::is_all_masked(const CollectReport& collected) {
  constexpr uint64_t k_masked_steps_max = 3;
  double share = 0;
  for (const auto& [metric, value] : collected.metrics)
    if (metric == "reward/masked") share = value;
  masked_steps_ = share < 1 ? 0 : masked_steps_ + 1;
  if (masked_steps_ < k_masked_steps_max) return false;
  on_fail({"rewards", "score",
           fmt::format("every trajectory of {} steps in a row is masked; the last word: {}",
                       masked_steps_, last_notice_)});
  return true;
}

void DriverState::end_step() {
  double seconds = now_seconds() - step_started_;
  row_->set("param_hash", fmt::format("{:016x}", param_hash_));
  row_->set("policy_version", static_cast<double>(version_));
  row_->set("trajectories", static_cast<double>(trajectories_));
  row_->set("tokens", step_tokens_);
  row_->set("time/placement_s", placement_seconds_);
  row_->set("time/step_s", seconds);
  row_->set("orchestrator_share",
            std::max(0.0, seconds - critical_seconds_) / std::max(1e-9, seconds));
  row_->set("tokens_per_s", step_tokens_ / std::max(1e-9, seconds));
  record(static_cast<uint16_t>(stream::RecordType::step_result), row_->to_json());
  if (auto written = options_.log->row(*row_, trajectories_); !written)
    return on_fail({"driver", "metrics", written.error().to_string()});
  row_.reset();
  result_.steps = step_;
  uint64_t step = step_;
  const auto& config = options_.config;
  bool is_last = step >= static_cast<uint64_t>(config.max_steps) || is_stopping_;
  bool is_saved = step == 0 || is_last ||
                  (config.save_steps > 0 && step % static_cast<uint64_t>(config.save_steps) == 0);
  auto next = [this, is_last, step] { is_last ? finish(is_stopping_) : run_step(step + 1); };
  if (is_saved) return checkpoint(fmt::format("step_{}", step), next);
  next();
}

}  // namespace cohort::actors
