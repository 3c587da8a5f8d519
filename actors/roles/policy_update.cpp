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

#include "actors/roles/loss_columns.hpp"
#include "actors/roles/policy_loss_bridge.hpp"
#include "actors/roles/sample_masks.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/failpoint.hpp"
#include "runtime/config/role_weights.hpp"

namespace cohort::actors {
namespace {

using control::UpdateReport;
using control::UpdateRequest;
using proto::Trajectory;

compute::TrainSample sample_of(const std::vector<Trajectory>& batch, const PackedBatch& packed,
                               size_t index) {
  const Trajectory& t = batch[index];
  auto first = static_cast<size_t>(packed.cu_seqlens[index]);
  size_t count = t.tokens.size();
  compute::TrainSample sample;
  sample.tokens = t.tokens;
  sample.response_mask = std::span(packed.mask).subspan(first, count);
  sample.old_logp = std::span(packed.old_logp).subspan(first, count);
  sample.advantages = std::span(packed.advantages).subspan(first, count);
  for (const auto& [to, from] :
       {std::pair{&sample.ref_logp, &packed.ref_logp}, std::pair{&sample.weights, &packed.weights},
        std::pair{&sample.marks, &packed.marks}})
    if (!from->empty()) *to = std::span(*from).subspan(first, count);
  return sample;
}

/// A mask has taken all its tokens: it costs no pass.
bool is_untrained(const PackedBatch& packed, size_t index) {
  return !packed.trained.empty() && packed.trained[index] == 0;
}

/// What is trained on: all but the masked (REWARD-3), greedy answers, and those that have nobody to
/// be compared with. Where each stood in the batch without greedy answers, so that a masked one
/// moves no other to another optimizer step.
struct Survivors {
  std::vector<Trajectory> trajectories;
  std::vector<size_t> places;
  size_t total = 0;                    // places of the batch
  std::vector<double> baselines = {};  // of each trajectory; empty: there are no greedy answers
  size_t lone = 0;                     // left out: the last of its group, or without a baseline
};

Survivors survivors_of(const config::RunConfig& config, const std::vector<Trajectory>& batch) {
  const bool is_compared = config.derived.group_size > 1 && compares_groups(config);
  std::map<uint32_t, size_t> left_of;
  std::map<uint32_t, std::optional<double>> greedy;  // score, by group
  for (const Trajectory& t : batch) {
    const bool is_scored = t.mask_reason.empty();
    if (t.is_greedy)
      greedy[t.key.group] = is_scored ? std::optional(t.score) : std::nullopt;
    else
      left_of[t.key.group] += is_scored ? 1 : 0;
  }
  Survivors left;
  for (const Trajectory& t : batch) {
    if (t.is_greedy) continue;
    const size_t place = left.total++;
    if (!t.mask_reason.empty()) continue;
    const bool has_baseline = greedy.empty() || greedy[t.key.group];
    if ((is_compared && left_of[t.key.group] == 1) || !has_baseline) {
      ++left.lone;
      continue;
    }
    left.trajectories.push_back(t);
    left.places.push_back(place);
    if (!greedy.empty()) left.baselines.push_back(*greedy[t.key.group]);
  }
  return left;
}

/// Some of it does not train.
bool is_cut(const std::vector<Trajectory>& batch) {
  return std::ranges::any_of(
      batch, [](const Trajectory& t) { return t.is_greedy || !t.mask_reason.empty(); });
}

struct OldLogProbs {
  double seconds = 0;       // of the pass before the update
  double behavior_gap = 0;  // mean |old - recorded| of a response token
};

/// LoRA has no reference role: the policy with its adapter off is the reference. Fills ref_logp.
Expected<double> compute_reference(compute::TrainEngine& engine,
                                   const std::vector<Trajectory>& batch, PackedBatch& packed) {
  const double start = now_seconds();
  std::vector<compute::TrainSample> samples;
  for (const Trajectory& t : batch) samples.push_back({t.tokens, t.response_mask, {}, {}, {}});
  std::vector<std::vector<float>> found;
  COHORT_TRY(engine.log_probs(samples, found, compute::AdapterUse::off));
  for (const std::vector<float>& row : found)
    packed.ref_logp.insert(packed.ref_logp.end(), row.begin(), row.end());
  return now_seconds() - start;
}

/// One forward pass with the parameters the update starts from; the recorded ones are replaced.
Expected<OldLogProbs> recompute_old(compute::TrainEngine& engine,
                                    const std::vector<Trajectory>& batch, PackedBatch& packed) {
  const double start = now_seconds();
  std::vector<compute::TrainSample> samples;
  for (const Trajectory& t : batch) samples.push_back({t.tokens, t.response_mask, {}, {}, {}});
  std::vector<std::vector<float>> found;
  COHORT_TRY(engine.log_probs(samples, found));
  OldLogProbs result;
  double tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto first = static_cast<size_t>(packed.cu_seqlens[i]);
    for (size_t t = 0; t < found[i].size(); ++t) {
      if (packed.mask[first + t] == 0) continue;
      float& old = packed.old_logp[first + t];
      result.behavior_gap += std::abs(static_cast<double>(found[i][t]) - old);
      old = found[i][t];
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

/// The numbers of the optimizer steps of a pipeline step, each reduced by its rule.
class PolicyUpdater::ReportSum {
 public:
  void add(const compute::StepReport& report) {
    if (!report.is_finite) {
      ++nonfinite_;
      return;
    }
    ++count_;
    sums_.add("loss", report.loss);
    sums_.add("actor/grad_norm", report.grad_norm);
    sums_.add(report.numbers);
    learning_rate_ = report.learning_rate;
    tokens_ += report.tokens;
  }
  /// An optimizer batch of which no token is left to train on.
  void skip() { ++skipped_; }
  void write(UpdateReport& report) const {
    const double n = std::max<double>(1, static_cast<double>(count_));
    report.tokens = tokens_;
    report.metrics.emplace_back("loss", sums_.at("loss") / n);
    report.metrics.emplace_back("actor/grad_norm", sums_.at("actor/grad_norm") / n);
    report.metrics.emplace_back("actor/lr", learning_rate_);
    if (nonfinite_ > 0)
      report.metrics.emplace_back("actor/nonfinite_steps", static_cast<double>(nonfinite_));
    if (skipped_ > 0)
      report.metrics.emplace_back("actor/skipped_steps", static_cast<double>(skipped_));
    for (const Number& number : sums_.all())
      if (number.name() != "loss" && number.name() != "actor/grad_norm")
        report.metrics.emplace_back(std::string(number.name()),
                                    number.reduce == Reduce::max ? number.value : number.value / n);
  }

 private:
  uint64_t count_ = 0, nonfinite_ = 0, skipped_ = 0;
  uint64_t tokens_ = 0;
  Numbers sums_;
  double learning_rate_ = 0;
};

/// TRAIN-2: a step that is not finite has changed nothing; now and then one is bad luck, several in
/// a row are a run that has diverged.
Expected<void> PolicyUpdater::take(const compute::StepReport& report, ReportSum& sum) {
  sum.add(report);
  nonfinite_in_row_ = report.is_finite ? 0 : nonfinite_in_row_ + 1;
  if (nonfinite_in_row_ <= config_.nonfinite_steps_max) return {};
  return Error{Errc::compute,
               fmt::format("the loss or a gradient is not finite in {} optimizer steps in a row "
                           "(nonfinite_steps_max: {}); the parameters are those before them",
                           nonfinite_in_row_, config_.nonfinite_steps_max)};
}

PolicyUpdater::PolicyUpdater(UpdateOptions options)
    : config_(std::move(options.config)),
      kl_(config_.init_kl_coef, config_.target_kl, static_cast<double>(config_.kl_horizon)) {}

Expected<UpdateReport> PolicyUpdater::update(compute::TrainEngine& engine,
                                             const UpdateRequest& request,
                                             const std::vector<Trajectory>& batch) {
  double start = now_seconds();
  auto report = train_on(engine, request, batch);
  if (!report) return report;
  report->step = request.step;
  report->param_hash = engine.param_hash();
  report->compute_seconds = now_seconds() - start;
  return report;
}

/// `batch` in optimizer batches of `total` places; `places` of its members, empty: they are all
/// there.
struct PolicyUpdater::Epochs {
  const std::vector<Trajectory>& batch;
  const std::vector<size_t>& places;
  size_t total;
  const PackedBatch& packed;
  ReportSum& sum;
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

Expected<algorithms::ScheduleOptions> schedule_of(const config::RunConfig& config) {
  algorithms::ScheduleOptions schedule;
  const config::TrainingArgs& args = config.actor_train.training_args;
  COHORT_ASSIGN(schedule.kind,
                algorithms::parse_schedule_kind(config::to_string(args.lr_scheduler_type)));
  schedule.base = args.learning_rate;
  schedule.warmup_steps = static_cast<uint64_t>(config.derived.warmup_steps);
  schedule.total_steps = static_cast<uint64_t>(config.derived.total_optimizer_steps);
  fill_schedule(args, schedule);
  return schedule;
}

algorithms::ScheduleOptions schedule_of(const config::WarmStartSection& warm) {
  algorithms::ScheduleOptions schedule;
  schedule.kind = algorithms::ScheduleKind::trapezoid;
  schedule.base = warm.learning_rate;
  schedule.warmup_steps = static_cast<uint64_t>(warm.warmup_steps);
  schedule.total_steps = static_cast<uint64_t>(warm.steps);
  schedule.decay_fraction = warm.decay_fraction;
  return schedule;
}

}  // namespace

constexpr uint64_t k_picks_stream = 0x7069636B73;  // "picks": apart from every stream of the run

Expected<void> PolicyUpdater::run_epochs(compute::TrainEngine& engine, const Epochs& run) {
  COHORT_ASSIGN(const algorithms::ScheduleOptions schedule, schedule_of(config_));
  compute::LossFactory loss = make_policy_loss(config_);
  FirstPass first_pass(config_);
  const Rng rng = Rng(static_cast<uint64_t>(config_.seed)).fork(k_picks_stream);
  auto mini_batch = static_cast<size_t>(config_.derived.optimizer_batch);
  for (int64_t epoch = 0; epoch < config_.ppo_epochs; ++epoch) {
    size_t next = 0;
    for (size_t first = 0; first < run.total; first += mini_batch) {
      std::vector<compute::TrainSample> samples;
      for (; next < run.batch.size() &&
             (run.places.empty() ? next : run.places[next]) < first + mini_batch;
           ++next)
        if (!is_untrained(run.packed, next))
          samples.push_back(sample_of(run.batch, run.packed, next));
      const double rate = algorithms::learning_rate(schedule, policy_steps_);
      const Rng own = rng.fork(policy_steps_++);
      if (samples.empty()) continue;  // every trajectory of it is masked
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
      Expected<void> taken = done ? take(*done, run.sum) : done.error();
      if (!taken)
        return taken.error().with_context(
            fmt::format("epoch {}, trajectories {}..{}", epoch, first, first + mini_batch - 1));
    }
  }
  return {};
}

Expected<UpdateReport> PolicyUpdater::update_policy(compute::TrainEngine& engine,
                                                    const std::vector<Trajectory>& all) {
  const bool has_left = is_cut(all);
  Survivors left;
  left.total = all.size();
  if (has_left) left = survivors_of(config_, all);
  const std::vector<Trajectory>& batch = has_left ? left.trajectories : all;
  PackedBatch packed = pack(batch);
  packed.baselines = std::move(left.baselines);
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
                fill_advantages(config_, kl_.coefficient(), batch, packed));
  UpdateReport report;
  correct_batch(config_, batch, packed, report);
  mark_trajectories(config_, batch, packed);
  ReportSum sum;
  COHORT_TRY(run_epochs(engine, {batch, left.places, left.total, packed, sum}));
  sum.write(report);
  write_old(source, old, report);
  if (is_reference) report.metrics.emplace_back("time/reference_s", reference_seconds);
  if (left.lone > 0)
    report.metrics.emplace_back("critic/lone_survivors", static_cast<double>(left.lone));
  report.metrics.emplace_back("critic/advantages/mean", advantages.summary.mean);
  report.metrics.emplace_back("critic/advantages/std", advantages.summary.std);
  if (has_sample_masks(config_))
    report.metrics.emplace_back("actor/untrained", advantages.untrained);
  report.metrics.emplace_back(
      "critic/mixed_groups",
      static_cast<double>(advantages.groups.mixed_groups) /
          std::max<double>(1, static_cast<double>(advantages.groups.groups)));
  if (!packed.ref_logp.empty()) {
    report.metrics.emplace_back("critic/kl", advantages.kl);
    report.metrics.emplace_back("critic/kl_coef", kl_.coefficient());
    kl_.update(advantages.kl, static_cast<double>(batch.size()));
  }
  return report;
}

/// Supervised optimizer steps: of the warm start, and of pipeline sft.
struct PolicyUpdater::Imitation {
  const std::vector<Trajectory>& batch;
  algorithms::ScheduleOptions schedule;
  size_t size;      // trajectories of an optimizer step
  uint64_t& steps;  // done so far
  std::string_view name;
};

namespace {

uint64_t counted_tokens(std::span<const compute::TrainSample> samples) {
  uint64_t tokens = 0;
  for (const compute::TrainSample& sample : samples)
    tokens += static_cast<uint64_t>(std::ranges::count(sample.response_mask, uint8_t{1}));
  return tokens;
}

compute::TrainSample sample_of(const Trajectory& t) {
  return {t.tokens, t.response_mask, {}, {}, {}};
}

}  // namespace

// The mean over all counted tokens of the optimizer step, however it is cut: LOSS-1. Without one
// there is no mean, and no step.
Expected<UpdateReport> PolicyUpdater::imitate(compute::TrainEngine& engine, const Imitation& run) {
  UpdateReport report;
  ReportSum sum;
  uint64_t counted = 0, skipped = 0;
  const compute::LossFactory loss = make_sft_loss();
  for (size_t first = 0; first < run.batch.size(); first += run.size) {
    std::vector<compute::TrainSample> samples;
    for (size_t i = first; i < std::min(run.batch.size(), first + run.size); ++i)
      if (run.batch[i].mask_reason.empty()) samples.push_back(sample_of(run.batch[i]));
    const double rate = algorithms::learning_rate(run.schedule, run.steps);
    ++run.steps;
    const uint64_t tokens = counted_tokens(samples);
    if (tokens == 0) {
      ++skipped;
      continue;
    }
    counted += tokens;
    auto done = engine.step(samples, loss, rate);
    Expected<void> taken = done ? take(*done, sum) : done.error();
    if (!taken)
      return taken.error().with_context(
          fmt::format("{}, optimizer step {}", run.name, run.steps - 1));
  }
  sum.write(report);
  if (config_.pipeline != config::Pipeline::sft) return report;
  report.metrics.emplace_back("sft/counted_tokens", static_cast<double>(counted));
  if (skipped > 0) report.metrics.emplace_back("sft/skipped_steps", static_cast<double>(skipped));
  return report;
}

/// The mean loss of a counted token of held-out rows. Collective.
Expected<UpdateReport> PolicyUpdater::measure(compute::TrainEngine& engine,
                                              const std::vector<Trajectory>& batch) {
  std::vector<compute::TrainSample> samples;
  for (const Trajectory& t : batch) samples.push_back(sample_of(t));
  std::vector<std::vector<float>> found;
  COHORT_TRY(engine.log_probs(samples, found));
  double sum = 0;
  for (size_t i = 0; i < batch.size(); ++i)
    for (size_t t = 0; t < found[i].size(); ++t)
      if (batch[i].response_mask[t] != 0) sum -= static_cast<double>(found[i][t]);
  const auto tokens = static_cast<double>(counted_tokens(samples));
  UpdateReport report;
  if (tokens > 0) report.metrics.emplace_back("val/loss", sum / tokens);
  report.metrics.emplace_back("val/counted_tokens", tokens);
  return report;
}

Expected<UpdateReport> PolicyUpdater::train_on(compute::TrainEngine& engine,
                                               const UpdateRequest& request,
                                               const std::vector<Trajectory>& batch) {
  if (request.kind == TrajectoryKind::warm_start)
    return imitate(engine,
                   {batch, schedule_of(config_.warm_start),
                    static_cast<size_t>(config_.warm_start.batch_size), warm_steps_, "warm start"});
  if (config_.pipeline != config::Pipeline::sft) return update_policy(engine, batch);
  if (request.kind != TrajectoryKind::train) return measure(engine, batch);
  COHORT_ASSIGN(const algorithms::ScheduleOptions schedule, schedule_of(config_));
  return imitate(engine, {batch, schedule, static_cast<size_t>(config_.derived.optimizer_batch),
                          policy_steps_, "sft"});
}

std::string PolicyUpdater::state_json(const std::string& driver_state) const {
  return nlohmann::json{{"driver", nlohmann::json::parse(driver_state, nullptr, false)},
                        {"policy_optimizer_steps", policy_steps_},
                        {"warm_start_optimizer_steps", warm_steps_},
                        {"kl_coef", kl_.coefficient()}}
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
  return json["driver"].dump();
}

}  // namespace cohort::actors
