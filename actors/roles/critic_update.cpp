#include "actors/roles/critic_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "actors/roles/policy_loss_bridge.hpp"
#include "runtime/base/clock.hpp"

namespace cohort::actors {
namespace {

using control::UpdateReport;
using control::UpdateRequest;
using proto::Trajectory;

/// The engine's columns: a value is what it calls a log-probability, a return what the value is
/// held against.
std::vector<compute::TrainSample> samples_of(const std::vector<Trajectory>& batch,
                                             const PackedBatch& packed,
                                             std::pair<size_t, size_t> range) {
  std::vector<compute::TrainSample> samples;
  for (size_t i = range.first; i < range.second; ++i) {
    if (packed.is_untrained(i)) continue;
    const auto first = static_cast<size_t>(packed.cu_seqlens[i]);
    const size_t count = batch[i].tokens.size();
    compute::TrainSample sample;
    sample.tokens = batch[i].tokens;
    sample.response_mask = std::span(packed.mask).subspan(first, count);
    sample.old_logp = std::span(packed.values).subspan(first, count);
    sample.advantages = std::span(packed.advantages).subspan(first, count);
    samples.push_back(sample);
  }
  return samples;
}

/// Mean, least and greatest over the tokens that the policy sampled, and their histogram.
void write_summary(const std::string& name, std::span<const float> x, std::span<const uint8_t> mask,
                   UpdateReport& report) {
  double sum = 0, tokens = 0, least = 0, greatest = 0;
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] == 0) continue;
    const auto value = static_cast<double>(x[t]);
    least = tokens == 0 ? value : std::min(least, value);
    greatest = tokens == 0 ? value : std::max(greatest, value);
    sum += value;
    ++tokens;
  }
  if (tokens == 0) return;
  add_histogram(report.histograms, name, x, mask);
  report.metrics.emplace_back(name + "/mean", sum / tokens);
  report.metrics.emplace_back(name + "/min", least);
  report.metrics.emplace_back(name + "/max", greatest);
}

config::RunConfig with_raw_advantages(config::RunConfig config) {
  config.whiten_advantages = false;
  config.opd = {};  // values are those of rewards; a teacher's leads are the policy's alone
  config.advantage_clip.reset();
  return config;
}

}  // namespace

CriticUpdater::CriticUpdater(config::RunConfig config)
    : config_(with_raw_advantages(std::move(config))),
      kl_(config_.init_kl_coef, config_.target_kl, static_cast<double>(config_.kl_horizon)) {}

Expected<void> CriticUpdater::value(compute::TrainEngine& engine,
                                    std::vector<Trajectory>& batch) const {
  std::vector<compute::TrainSample> samples;
  std::vector<Trajectory*> wanted;
  std::list<std::vector<uint8_t>> masks;
  for (Trajectory& t : batch) {
    if (!t.mask_reason.empty()) continue;
    std::vector<uint8_t>& mask = masks.emplace_back(t.response_mask);
    const auto first = std::ranges::find(mask, uint8_t{1});
    std::fill(first, mask.end(), uint8_t{1});
    samples.push_back({t.tokens, mask, {}, {}, {}});
    wanted.push_back(&t);
  }
  if (samples.empty()) return {};
  std::vector<std::vector<float>> values;
  COHORT_TRY(engine.log_probs(samples, values));
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i]->values = std::move(values[i]);
  return {};
}

Expected<void> CriticUpdater::run_epochs(compute::TrainEngine& engine, const Survivors& left,
                                         const PackedBatch& packed, StepSums& sums) {
  const config::DerivedCritic& derived = config_.derived.critic;
  COHORT_ASSIGN(const algorithms::ScheduleOptions schedule,
                schedule_of(config_.critic.training_args, derived.warmup_steps,
                            derived.total_optimizer_steps));
  const compute::LossFactory loss = make_value_loss(config_);
  const auto batches = left.optimizer_batches(static_cast<size_t>(derived.optimizer_batch));
  for (int64_t epoch = 0; epoch < derived.ppo_epochs; ++epoch) {
    for (size_t at = 0; at < batches.size(); ++at) {
      const double rate = algorithms::learning_rate(schedule, steps_);
      ++steps_;
      const auto samples = samples_of(left.trajectories(), packed, batches[at]);
      if (samples.empty()) continue;  // every trajectory of it is masked
      auto done = engine.step(samples, loss, rate);
      if (done && steps_ == 1 && config_.self_checks) first_ = critic_facts(schedule, *done);
      Expected<void> taken = done ? sums.take(*done) : done.error();
      if (!taken)
        return taken.error().with_context(fmt::format("epoch {}, optimizer batch {}", epoch, at));
    }
  }
  return {};
}

Expected<UpdateReport> CriticUpdater::update(compute::TrainEngine& engine,
                                             const UpdateRequest& request,
                                             const std::vector<Trajectory>& batch) {
  const double start = now_seconds();
  const Survivors left(config_, batch);
  PackedBatch packed = pack(left.trajectories());
  COHORT_ASSIGN(
      const AdvantageMetrics metrics,
      fill_advantages(config_, kl_.coefficient(), left.trajectories(), packed, &running_));
  if (!packed.ref_logp.empty())
    kl_.update(metrics.kl, static_cast<double>(left.trajectories().size()));
  // In the place of the advantages, which this role has no other use for.
  for (size_t t = 0; t < packed.advantages.size(); ++t)
    if (packed.mask[t] != 0) packed.advantages[t] += packed.values[t];
  StepSums sums("critic", config_.nonfinite_steps_max, nonfinite_in_row_);
  COHORT_TRY(run_epochs(engine, left, packed, sums));
  UpdateReport report;
  sums.write(report);
  std::exchange(first_, {}).append_to(report.metrics);
  write_summary("critic/values", packed.values, packed.mask, report);
  write_summary("critic/returns", packed.advantages, packed.mask, report);
  report.metrics.emplace_back(
      "critic/vf_explained_var",
      algorithms::explained_variance(
          std::vector<double>(packed.values.begin(), packed.values.end()),
          std::vector<double>(packed.advantages.begin(), packed.advantages.end()), packed.mask));
  report.step = request.step;
  if (report.param_hash == 0) report.param_hash = engine.param_hash();
  report.compute_seconds = now_seconds() - start;
  report.metrics.emplace_back("time/critic_update_s", report.compute_seconds);
  return report;
}

std::string CriticUpdater::state_json() const {
  return nlohmann::json{{"critic_optimizer_steps", steps_},
                        {"kl_coef", kl_.coefficient()},
                        {"running_scores", json_of(running_)}}
      .dump(2);
}

Expected<void> CriticUpdater::restore(const std::string& state) {
  const nlohmann::json json = nlohmann::json::parse(state, nullptr, false);
  for (const char* key : {"critic_optimizer_steps", "kl_coef"})
    if (!json.is_object() || !json.contains(key) || !json[key].is_number())
      return Error{Errc::corrupt, fmt::format("state.json lacks '{}'", key)};
  steps_ = json["critic_optimizer_steps"].get<uint64_t>();
  kl_.restore(json["kl_coef"].get<double>());
  running_ = running_scores_of(json.value("running_scores", nlohmann::json()));
  return {};
}

}  // namespace cohort::actors
