#include "actors/roles/policy_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "actors/roles/batch_views.hpp"
#include "actors/roles/context_samples.hpp"
#include "actors/roles/loss_columns.hpp"
#include "actors/roles/pair_update.hpp"
#include "actors/roles/policy_loss_bridge.hpp"
#include "actors/roles/sample_masks.hpp"
#include "actors/roles/step_sums.hpp"
#include "actors/roles/survivors.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/config/role_weights.hpp"

namespace cohort::actors {
namespace {

using control::UpdateReport;
using control::UpdateRequest;
using proto::Trajectory;

struct OldLogProbs {
  double seconds = 0;       // of the pass before the update
  double behavior_gap = 0;  // mean |old - recorded| of a response token
};

std::vector<const Trajectory*> pointers_to(const std::vector<Trajectory>& batch) {
  std::vector<const Trajectory*> pointers;
  for (const Trajectory& t : batch) pointers.push_back(&t);
  return pointers;
}

/// LoRA has no reference role: the policy with its adapter off is the reference. Fills ref_logp.
Expected<double> compute_reference(compute::TrainEngine& engine,
                                   const std::vector<Trajectory>& batch, PackedBatch& packed) {
  const double start = now_seconds();
  COHORT_ASSIGN(const auto found,
                log_probs_of(engine, pointers_to(batch), compute::AdapterUse::off));
  for (const std::vector<float>& row : found)
    packed.ref_logp.insert(packed.ref_logp.end(), row.begin(), row.end());
  return now_seconds() - start;
}

/// One forward pass with the parameters the update starts from; the recorded ones are replaced.
Expected<OldLogProbs> recompute_old(compute::TrainEngine& engine,
                                    const std::vector<Trajectory>& batch, PackedBatch& packed) {
  const double start = now_seconds();
  COHORT_ASSIGN(const auto found, log_probs_of(engine, pointers_to(batch)));
  OldLogProbs result;
  double tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto first = static_cast<size_t>(packed.cu_seqlens[i]);
    const bool is_sampled = !proto::is_demonstration(batch[i]);
    for (size_t t = 0; t < found[i].size(); ++t) {
      if (packed.mask[first + t] == 0) continue;
      float& old = packed.old_logp[first + t];
      const double gap = std::abs(static_cast<double>(found[i][t]) - old);
      old = found[i][t];
      if (!is_sampled) continue;
      result.behavior_gap += gap;
      ++tokens;
    }
  }
  result.behavior_gap /= std::max(tokens, 1.0);
  result.seconds = now_seconds() - start;
  return result;
}

/// The gap of the first pass is among the loss's numbers.
void write_old(config::OldLogProbs source, const OldLogProbs& old, UpdateReport& report) {
  report.metrics.emplace_back("old_log_probs/source", static_cast<double>(source));
  if (source != config::OldLogProbs::recomputed) return;
  report.metrics.emplace_back("time/old_log_probs_s", old.seconds);
  report.metrics.emplace_back(std::string(k_behavior_gap), old.behavior_gap);
}

}  // namespace

PolicyUpdater::PolicyUpdater(UpdateOptions options)
    : config_(std::move(options.config)),
      pad_id_(options.pad_id),
      kl_(config_.init_kl_coef, config_.target_kl, static_cast<double>(config_.kl_horizon)) {}

Expected<UpdateReport> PolicyUpdater::update(compute::TrainEngine& engine,
                                             const UpdateRequest& request,
                                             const std::vector<Trajectory>& batch) {
  double start = now_seconds();
  if (config_.self_checks && policy_steps_ == 0 && request.kind == TrajectoryKind::train &&
      !is_critic_warm_up(request))
    first_.emplace(engine);
  auto report = train_on(engine, request, batch);
  if (!report) return report;
  if (first_) first_->close(engine, *report);
  first_.reset();
  report->step = request.step;
  if (report->param_hash == 0) report->param_hash = engine.param_hash();
  report->compute_seconds = now_seconds() - start;
  return report;
}

bool PolicyUpdater::is_critic_warm_up(const UpdateRequest& request) const {
  return config_.derived.critic.optimizer_batch > 0 &&
         request.step <= static_cast<uint64_t>(config_.critic_warmup);
}

struct PolicyUpdater::Epochs {
  const Survivors& batch;
  const PackedBatch& packed;
  StepSums& sum;
};

namespace {

/// What lr_scheduler_kwargs says, with transformers' defaults.
void fill_schedule(const config::TrainingArgs& args, algorithms::ScheduleOptions& schedule) {
  const config::SchedulerArgs& kwargs = args.lr_scheduler_kwargs;
  const auto ratio = [&](double rate) {
    return args.learning_rate > 0 ? rate / args.learning_rate : 0;
  };
  schedule.cycles = kwargs.num_cycles;
  schedule.power = kwargs.power;
  schedule.decay_steps = static_cast<uint64_t>(kwargs.num_decay_steps);
  if (kwargs.timescale > 0)
    schedule.timescale = static_cast<double>(kwargs.timescale);
  else if (schedule.warmup_steps > 0)
    schedule.timescale = static_cast<double>(schedule.warmup_steps);
  if (args.lr_scheduler_type == config::SchedulerType::cosine_with_min_lr)
    schedule.min_ratio = kwargs.min_lr ? ratio(*kwargs.min_lr) : kwargs.min_lr_rate.value_or(0);
  if (args.lr_scheduler_type == config::SchedulerType::polynomial)
    schedule.min_ratio = ratio(kwargs.lr_end);
  if (args.lr_scheduler_type == config::SchedulerType::warmup_stable_decay)
    schedule.min_ratio = kwargs.min_lr_ratio;
}

}  // namespace

Expected<algorithms::ScheduleOptions> schedule_of(const config::TrainingArgs& args,
                                                  int64_t warmup_steps, int64_t total_steps) {
  algorithms::ScheduleOptions schedule;
  COHORT_ASSIGN(schedule.kind,
                algorithms::parse_schedule_kind(config::to_string(args.lr_scheduler_type)));
  schedule.base = args.learning_rate;
  schedule.warmup_steps = static_cast<uint64_t>(warmup_steps);
  schedule.total_steps = static_cast<uint64_t>(total_steps);
  fill_schedule(args, schedule);
  return schedule;
}

Expected<algorithms::ScheduleOptions> PolicyUpdater::policy_schedule() const {
  return schedule_of(config_.actor_train.training_args, config_.derived.warmup_steps,
                     config_.derived.total_optimizer_steps);
}

namespace {

algorithms::ScheduleOptions warm_schedule_of(const config::WarmStartSection& warm) {
  algorithms::ScheduleOptions schedule;
  schedule.kind = algorithms::ScheduleKind::trapezoid;
  schedule.base = warm.learning_rate;
  schedule.warmup_steps = static_cast<uint64_t>(warm.warmup_steps);
  schedule.total_steps = static_cast<uint64_t>(warm.steps);
  schedule.decay_fraction = warm.decay_fraction;
  return schedule;
}

}  // namespace

/// What the first optimizer batch holds, against what the policy makes of it before any step.
Expected<void> PolicyUpdater::look_first(compute::TrainEngine& engine, const Epochs& run,
                                         std::pair<size_t, size_t> range) {
  if (!first_) return {};
  const PackedBatch& packed = run.packed;
  const bool is_own = config_.derived.old_log_probs == config::OldLogProbs::first_pass;
  std::vector<FirstSample> samples;
  for (size_t i = range.first; i < range.second; ++i) {
    if (packed.is_untrained(i)) continue;
    const Trajectory& t = run.batch.trajectories()[i];
    const auto of = [&](const std::vector<float>& column) {
      return std::span(column).subspan(static_cast<size_t>(packed.cu_seqlens[i]), t.tokens.size());
    };
    FirstSample& sample = samples.emplace_back(FirstSample{&t, {}, {}});
    if (!is_own) sample.old_logp = of(packed.old_logp);
    if (!packed.ref_logp.empty()) sample.ref_logp = of(packed.ref_logp);
  }
  return first_->look(engine, samples);
}

Expected<void> PolicyUpdater::run_epochs(compute::TrainEngine& engine, const Epochs& run) {
  COHORT_ASSIGN(const algorithms::ScheduleOptions schedule, policy_schedule());
  if (first_) first_->schedule(schedule);
  compute::LossFactory loss = make_policy_loss(config_);
  FirstPass first_pass(config_);
  const Rng rng = picks_rng(config_);
  const auto batches =
      run.batch.optimizer_batches(static_cast<size_t>(config_.derived.optimizer_batch));
  for (int64_t epoch = 0; epoch < config_.ppo_epochs; ++epoch) {
    for (size_t at = 0; at < batches.size(); ++at) {
      std::vector<compute::TrainSample> samples =
          policy_samples(run.batch.trajectories(), run.packed, batches[at]);
      const double rate = algorithms::learning_rate(schedule, policy_steps_);
      const Rng own = rng.fork(policy_steps_++);
      if (samples.empty()) continue;  // every trajectory of it is masked
      COHORT_TRY(look_first(engine, run, batches[at]));
      if (first_pass.is_needed() && has_response(samples))
        COHORT_TRY(first_pass.run(engine, samples, own));
      if (!has_response(samples)) {
        run.sum.skip();
        continue;
      }
      std::vector<float> poison;
      if (failpoint::hit("trainer.nan")) {
        poison.assign(samples.front().advantages.size(), std::numeric_limits<float>::quiet_NaN());
        samples.front().advantages = poison;
      }
      auto done = engine.step(samples, loss, rate);
      if (done && first_) first_->stepped(*done, samples);
      Expected<void> taken = done ? run.sum.take(*done) : done.error();
      if (!taken)
        return taken.error().with_context(fmt::format("epoch {}, trajectories {}..{}", epoch,
                                                      batches[at].first, batches[at].second - 1));
    }
  }
  return {};
}

Expected<UpdateReport> PolicyUpdater::update_policy(compute::TrainEngine& engine,
                                                    const UpdateRequest& request,
                                                    const std::vector<Trajectory>& all) {
  const Survivors left(config_, all);
  const std::vector<Trajectory>& batch = left.trajectories();
  PackedBatch packed = pack(batch);
  packed.baselines = left.baselines();
  const config::OldLogProbs source = config_.derived.old_log_probs;
  OldLogProbs old;
  if (source == config::OldLogProbs::recomputed) {
    COHORT_ASSIGN(old, recompute_old(engine, batch, packed));
  }
  double reference_seconds = 0;
  const bool is_reference = config_.derived.is_reference_needed && engine.has_adapter() &&
                            config::own_reference(config_).empty();
  if (is_reference && !batch.empty()) {
    COHORT_ASSIGN(reference_seconds, compute_reference(engine, batch, packed));
  }
  COHORT_ASSIGN(AdvantageMetrics advantages,
                fill_advantages(config_, kl_.coefficient(), batch, packed, &running_));
  UpdateReport report;
  correct_batch(config_, batch, packed, report);
  weigh_lengths(config_, batch,
                left.optimizer_batches(static_cast<size_t>(config_.derived.optimizer_batch)),
                packed);
  mark_trajectories(config_, batch, packed);
  StepSums sum("actor", config_.nonfinite_steps_max, nonfinite_in_row_);
  // In the critic's warm-up the policy computes what a step's row tells, and stays as it is.
  if (first_) first_->advantages(packed.advantages);
  if (!is_critic_warm_up(request)) {
    COHORT_TRY(run_epochs(engine, {left, packed, sum}));
    sum.write(report);
  }
  write_old(source, old, report);
  if (is_reference) report.metrics.emplace_back("time/reference_s", reference_seconds);
  report.histograms = update_histograms(source, batch, packed);
  if (left.lone() > 0)
    report.metrics.emplace_back("critic/lone_survivors", static_cast<double>(left.lone()));
  report.metrics.emplace_back("critic/advantages/mean", advantages.summary.mean);
  report.metrics.emplace_back("critic/advantages/std", advantages.summary.std);
  for (const auto& [name, spread] : report.histograms) {
    if (name != k_advantages) continue;
    report.metrics.emplace_back("critic/advantages/max", spread.greatest);
    report.metrics.emplace_back("critic/advantages/min", spread.least);
  }
  if (has_sample_masks(config_))
    report.metrics.emplace_back("actor/untrained", advantages.untrained);
  report.metrics.emplace_back(
      "critic/mixed_groups",
      static_cast<double>(advantages.groups.mixed_groups) /
          std::max<double>(1, static_cast<double>(advantages.groups.groups)));
  if (advantages.teacher) {
    report.metrics.emplace_back("distillation/teacher_kl", advantages.teacher->kl);
    report.metrics.emplace_back("distillation/agreement", advantages.teacher->agreement);
  }
  if (!packed.ref_logp.empty()) {
    report.metrics.emplace_back("critic/kl", advantages.kl);
    report.metrics.emplace_back("critic/kl_coef", kl_.coefficient());
    kl_.update(advantages.kl, static_cast<double>(batch.size()));
  }
  return report;
}

/// Supervised optimizer steps: of the warm start, and of pipelines sft and distill.
struct PolicyUpdater::Imitation {
  const std::vector<Trajectory>& batch;
  algorithms::ScheduleOptions schedule;
  size_t size;      // trajectories of an optimizer step
  uint64_t& steps;  // done so far
  std::string_view name;
  compute::LossFactory loss = make_sft_loss();
};

namespace {

uint64_t counted_tokens(std::span<const compute::TrainSample> samples) {
  uint64_t tokens = 0;
  for (const compute::TrainSample& sample : samples)
    tokens += static_cast<uint64_t>(std::ranges::count(sample.response_mask, uint8_t{1}));
  return tokens;
}

}  // namespace

// The mean over all counted tokens of the optimizer step, however it is cut: LOSS-1. Without one
// there is no mean, and no step.
Expected<UpdateReport> PolicyUpdater::imitate(compute::TrainEngine& engine, const Imitation& run) {
  UpdateReport report;
  StepSums sum("actor", config_.nonfinite_steps_max, nonfinite_in_row_);
  if (first_) first_->schedule(run.schedule);
  uint64_t counted = 0, skipped = 0;
  for (size_t first = 0; first < run.batch.size(); first += run.size) {
    std::vector<compute::TrainSample> samples;
    for (size_t i = first; i < std::min(run.batch.size(), first + run.size); ++i)
      if (run.batch[i].mask_reason.empty()) add_samples(run.batch[i], samples);
    const double rate = algorithms::learning_rate(run.schedule, run.steps);
    ++run.steps;
    const uint64_t tokens = counted_tokens(samples);
    if (tokens == 0) {
      ++skipped;
      continue;
    }
    counted += tokens;
    auto done = engine.step(samples, run.loss, rate);
    if (done && first_) {
      const bool is_sft = config_.pipeline == config::Pipeline::sft;
      if (counted == tokens && done->is_finite)  // the first one
        first_->surprise(is_sft ? done->loss : done->numbers.at("distill/nll"),
                         engine.config().vocab_size);
      first_->stepped(*done, samples);
    }
    Expected<void> taken = done ? sum.take(*done) : done.error();
    if (!taken)
      return taken.error().with_context(
          fmt::format("{}, optimizer step {}", run.name, run.steps - 1));
  }
  sum.write(report);
  if (!config::is_supervised(config_.pipeline)) return report;
  const std::string prefix = std::string(run.name) + "/";
  report.metrics.emplace_back(prefix + "counted_tokens", static_cast<double>(counted));
  if (skipped > 0)
    report.metrics.emplace_back(prefix + "skipped_steps", static_cast<double>(skipped));
  return report;
}

/// The mean loss of a counted token of held-out rows. Collective.
Expected<UpdateReport> PolicyUpdater::measure(compute::TrainEngine& engine,
                                              const std::vector<Trajectory>& batch) {
  COHORT_ASSIGN(const auto found, log_probs_of(engine, pointers_to(batch)));
  double sum = 0, tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i)
    for (size_t t = 0; t < found[i].size(); ++t) {
      if (batch[i].response_mask[t] == 0) continue;
      sum -= static_cast<double>(found[i][t]);
      ++tokens;
    }
  UpdateReport report;
  if (tokens > 0) report.metrics.emplace_back("val/loss", sum / tokens);
  report.metrics.emplace_back("val/counted_tokens", tokens);
  return report;
}

/// A step of pairs is one optimizer step. Without a pair that counts there is none.
Expected<UpdateReport> PolicyUpdater::compare(compute::TrainEngine& engine,
                                              const UpdateRequest& request,
                                              const std::vector<Trajectory>& batch) {
  const bool trains = request.kind == TrajectoryKind::train;
  COHORT_ASSIGN(const PairBatch pairs, PairBatch::open({config_, pad_id_}, engine, batch));
  UpdateReport report;
  if (trains) {
    COHORT_ASSIGN(const algorithms::ScheduleOptions schedule, policy_schedule());
    StepSums sum("actor", config_.nonfinite_steps_max, nonfinite_in_row_);
    const double rate = algorithms::learning_rate(schedule, policy_steps_++);
    if (first_) first_->schedule(schedule);
    if (pairs.samples().empty()) {
      sum.skip();
    } else {
      if (first_) COHORT_TRY(first_->look(engine, pairs.first_samples()));
      auto done = engine.step(pairs.samples(), make_pair_loss(config_), rate, 2);
      if (done && first_) first_->stepped(*done, pairs.samples());
      Expected<void> taken = done ? sum.take(*done) : done.error();
      if (!taken) return taken.error();
    }
    sum.write(report);
  } else {
    COHORT_TRY(measure_pairs(config_, engine, pairs, report));
  }
  pairs.write(trains ? std::string(config::to_string(config_.pipeline)) + "/" : "val/", report);
  return report;
}

Expected<UpdateReport> PolicyUpdater::train_on(compute::TrainEngine& engine,
                                               const UpdateRequest& request,
                                               const std::vector<Trajectory>& batch) {
  if (request.kind == TrajectoryKind::warm_start)
    return imitate(engine,
                   {batch, warm_schedule_of(config_.warm_start),
                    static_cast<size_t>(config_.warm_start.batch_size), warm_steps_, "warm start"});
  if (config::has_pairs(config_.pipeline)) return compare(engine, request, batch);
  if (!config::is_supervised(config_.pipeline)) return update_policy(engine, request, batch);
  if (request.kind != TrajectoryKind::train) return measure(engine, batch);
  COHORT_ASSIGN(const algorithms::ScheduleOptions schedule, policy_schedule());
  Imitation run{batch, schedule, static_cast<size_t>(config_.derived.optimizer_batch),
                policy_steps_, config::to_string(config_.pipeline)};
  if (config_.pipeline == config::Pipeline::distill) run.loss = make_distill_loss(config_);
  return imitate(engine, run);
}

std::string PolicyUpdater::state_json(const std::string& driver_state) const {
  return nlohmann::json{{"driver", nlohmann::json::parse(driver_state, nullptr, false)},
                        {"policy_optimizer_steps", policy_steps_},
                        {"warm_start_optimizer_steps", warm_steps_},
                        {"kl_coef", kl_.coefficient()},
                        {"running_scores", json_of(running_)}}
      .dump(2);
}

Expected<std::string> PolicyUpdater::restore(const std::string& state) {
  nlohmann::json json = nlohmann::json::parse(state, nullptr, false);
  for (const char* key :
       {"driver", "policy_optimizer_steps", "warm_start_optimizer_steps", "kl_coef"})
    if (!json.is_object() || !json.contains(key))
      return Error{Errc::corrupt, fmt::format("state.json lacks '{}'", key)};
  policy_steps_ = json["policy_optimizer_steps"].get<uint64_t>();
  warm_steps_ = json["warm_start_optimizer_steps"].get<uint64_t>();
  kl_.restore(json["kl_coef"].get<double>());
  running_ = running_scores_of(json.value("running_scores", nlohmann::json()));
  return json["driver"].dump();
}

}  // namespace cohort::actors
