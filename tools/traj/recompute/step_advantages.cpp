#include "tools/traj/recompute/step_advantages.hpp"

#include <algorithm>
#include <utility>

namespace cohort::traj {
namespace {

StepAdvantages packed_of(const AdvantageSources& sources, std::vector<proto::Trajectory> batch) {
  StepAdvantages step;
  step.batch = std::make_unique<const std::vector<proto::Trajectory>>(std::move(batch));
  step.left = std::make_unique<const actors::Survivors>(sources.config, *step.batch);
  step.packed = actors::pack(step.trajectories());
  step.packed.baselines = step.left->baselines();
  if (sources.old != nullptr)
    for (size_t i = 0; i < step.trajectories().size(); ++i) {
      const std::vector<float>& row = sources.old->logp.at(step.trajectories()[i].key);
      std::ranges::copy(row, step.packed.old_logp.begin() + step.packed.cu_seqlens[i]);
    }
  return step;
}

}  // namespace

Expected<StepAdvantages> advantages_of(const AdvantageSources& sources,
                                       std::vector<proto::Trajectory> batch) {
  actors::RunningScores running;
  if (actors::has_running_norm(sources.config))
    for (const std::vector<proto::Trajectory>& earlier : sources.earlier) {
      StepAdvantages before = packed_of({sources.config, 0, nullptr, sources.earlier}, earlier);
      if (auto filled = actors::fill_advantages(sources.config, sources.kl_coefficient,
                                                before.trajectories(), before.packed, &running);
          !filled)
        return filled.error();
    }
  StepAdvantages step = packed_of(sources, std::move(batch));
  COHORT_ASSIGN(step.metrics, actors::fill_advantages(sources.config, sources.kl_coefficient,
                                                      step.trajectories(), step.packed, &running));
  return step;
}

AdvantageRange range_of(const StepAdvantages& step, size_t place) {
  AdvantageRange range;
  const proto::Trajectory& t = step.trajectories()[place];
  const auto first = static_cast<size_t>(step.packed.cu_seqlens[place]);
  for (size_t i = 0; i < t.tokens.size(); ++i) {
    if (t.response_mask[i] == 0) continue;
    const auto value = static_cast<double>(step.packed.advantages[first + i]);
    range.low = range.tokens == 0 ? value : std::min(range.low, value);
    range.high = range.tokens == 0 ? value : std::max(range.high, value);
    range.mean += value;
    ++range.tokens;
  }
  range.mean /= std::max(1.0, static_cast<double>(range.tokens));
  return range;
}

std::vector<std::string> missing_parts(const config::RunConfig& config, const StepAdvantages& step,
                                       bool has_old) {
  std::vector<std::string> parts;
  const bool is_kl = config.add_token_level_kl || config.use_kl_loss;
  if (is_kl && step.packed.ref_logp.empty())
    parts.emplace_back(
        "the stream has no log-probs of a reference: every term of the KL is left out");
  const bool is_recomputed = config.derived.old_log_probs == config::OldLogProbs::recomputed;
  if (is_recomputed && !has_old)
    parts.emplace_back(
        "the config's old log-probs are the trainer's own, which the stream does not have: those "
        "recorded at generation stand for them (`traj loss --old` takes others)");
  return parts;
}

}  // namespace cohort::traj
