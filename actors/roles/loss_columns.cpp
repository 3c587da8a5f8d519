#include "actors/roles/loss_columns.hpp"

#include <algorithm>
#include <span>

#include "actors/roles/policy_loss_bridge.hpp"
#include "actors/roles/sample_masks.hpp"
#include "algorithms/correction.hpp"

namespace cohort::actors {
namespace {

using compute::TrainSample;
using proto::Trajectory;

std::vector<double> doubles(std::span<const float> x) { return {x.begin(), x.end()}; }

TrainSample sample_of(const std::vector<Trajectory>& batch, const PackedBatch& packed,
                      const ContextRange& context) {
  const size_t count = context.tokens.size();
  const size_t first = static_cast<size_t>(packed.cu_seqlens[context.place]) + context.tokens.begin;
  TrainSample sample;
  sample.tokens = std::span(batch[context.place].tokens).subspan(context.tokens.begin, count);
  sample.response_mask = std::span(packed.mask).subspan(first, count);
  sample.old_logp = std::span(packed.old_logp).subspan(first, count);
  sample.advantages = std::span(packed.advantages).subspan(first, count);
  for (const auto& [to, from] :
       {std::pair{&sample.ref_logp, &packed.ref_logp}, std::pair{&sample.weights, &packed.weights},
        std::pair{&sample.marks, &packed.marks}})
    if (!from->empty()) *to = std::span(*from).subspan(first, count);
  return sample;
}

}  // namespace

void correct_batch(const config::RunConfig& config, const std::vector<Trajectory>& batch,
                   PackedBatch& packed, control::UpdateReport& report) {
  if (config.derived.old_log_probs != config::OldLogProbs::recomputed) return;
  std::vector<double> recorded;
  for (const Trajectory& t : batch)
    recorded.insert(recorded.end(), t.behavior_logp.begin(), t.behavior_logp.end());
  const std::vector<double> old = doubles(packed.old_logp);
  std::vector<uint8_t> mask = packed.mask;  // of those that train
  for (size_t i = 0; i < packed.trained.size(); ++i)
    if (packed.trained[i] == 0)
      std::fill(mask.begin() + packed.cu_seqlens[i], mask.begin() + packed.cu_seqlens[i + 1],
                uint8_t{0});
  const std::vector<int32_t> cu_seqlens = context_cu_seqlens(batch);
  const algorithms::CorrectionInput input{{cu_seqlens, mask}, old, recorded};
  for (const auto& [name, value] : algorithms::offpolicy_metrics(input))
    report.metrics.emplace_back("rollout_corr/" + name, value);
  const catalog::Correction& rules = config.train_infer_correction.rules;
  if (!rules.is_asked()) return;
  algorithms::Correction found = algorithms::correct(input, rules);
  for (auto& number : found.numbers) report.metrics.push_back(std::move(number));
  packed.weights.assign(found.weights.begin(), found.weights.end());
  if (!found.mask.empty()) packed.mask = std::move(found.mask);
}

void weigh_lengths(const config::RunConfig& config, const std::vector<Trajectory>& batch,
                   const std::vector<std::pair<size_t, size_t>>& batches, PackedBatch& packed) {
  if (!config.rlvr.length_loss_weight || config.pipeline != config::Pipeline::rlvr) return;
  if (packed.weights.empty()) packed.weights.assign(packed.mask.size(), 1.0f);
  for (const auto& [first, end] : batches) {
    std::vector<size_t> answers;
    std::vector<uint32_t> tokens;
    for (size_t i = first; i < end; ++i) {
      if (packed.is_untrained(i)) continue;
      answers.push_back(i);
      tokens.push_back(static_cast<uint32_t>(std::ranges::count(batch[i].response_mask, 1)));
    }
    const std::vector<double> weights = length_weights(tokens);
    for (size_t k = 0; k < answers.size(); ++k)
      for (auto t = static_cast<size_t>(packed.cu_seqlens[answers[k]]);
           t < static_cast<size_t>(packed.cu_seqlens[answers[k] + 1]); ++t)
        packed.weights[t] *= static_cast<float>(weights[k]);
  }
}

void mark_trajectories(const config::RunConfig& config, const std::vector<Trajectory>& batch,
                       PackedBatch& packed) {
  const catalog::PolicyLossKind kind = policy_loss_kind(config);
  const bool is_topr = kind == catalog::PolicyLossKind::topr;
  if (!is_topr && kind != catalog::PolicyLossKind::luffy) return;
  for (const Trajectory& t : batch)
    packed.marks.insert(packed.marks.end(), t.tokens.size(),
                        (is_topr ? t.score > 0 : proto::is_demonstration(t)) ? 1.0f : 0.0f);
}

std::vector<ContextRange> trained_contexts(const std::vector<Trajectory>& batch,
                                           const PackedBatch& packed,
                                           std::pair<size_t, size_t> range) {
  std::vector<ContextRange> contexts = contexts_of(batch, range.first, range.second);
  std::erase_if(contexts, [&](const ContextRange& x) { return packed.is_untrained(x.place); });
  return contexts;
}

std::vector<TrainSample> policy_samples(const std::vector<Trajectory>& batch,
                                        const PackedBatch& packed,
                                        std::pair<size_t, size_t> range) {
  std::vector<TrainSample> samples;
  for (const ContextRange& context : trained_contexts(batch, packed, range))
    samples.push_back(sample_of(batch, packed, context));
  return samples;
}

Rng picks_rng(const config::RunConfig& config) {
  constexpr uint64_t k_stream = 0x7069636B73;  // "picks": apart from every stream of the run
  return Rng(static_cast<uint64_t>(config.seed)).fork(k_stream);
}

FirstPass::FirstPass(const config::RunConfig& config)
    : config_(config),
      has_picks_(catalog::entry(policy_loss_kind(config)).has(catalog::need::first_pass)),
      has_rejections_(config.derived.old_log_probs == config::OldLogProbs::behavior &&
                      (!config.train_infer_correction.rules.rejections.empty() ||
                       !config.train_infer_correction.rules.filters.empty())) {}

Expected<void> FirstPass::run(compute::TrainEngine& engine, std::vector<TrainSample>& samples,
                              Rng rng) {
  std::vector<std::vector<float>> logp;
  COHORT_TRY(engine.log_probs(samples, logp));
  apply(logp, samples, rng);
  return {};
}

void FirstPass::apply(const std::vector<std::vector<float>>& logp,
                      std::vector<TrainSample>& samples, Rng rng) {
  if (has_rejections_) reject(logp, samples);
  if (has_picks_) pick(logp, samples, rng);
}

void FirstPass::pick(const std::vector<std::vector<float>>& logp, std::vector<TrainSample>& samples,
                     Rng rng) {
  std::vector<double> now, old, advantages;
  const bool is_own = config_.derived.old_log_probs == config::OldLogProbs::first_pass;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t t = 0; t < samples[i].tokens.size(); ++t) {
      if (samples[i].response_mask[t] == 0) continue;
      now.push_back(logp[i][t]);
      old.push_back(is_own ? logp[i][t] : samples[i].old_logp[t]);
      advantages.push_back(samples[i].advantages[t]);
    }
  const std::vector<uint8_t> picks = token_picks(config_, {now, old, advantages, rng});
  size_t next = 0;
  marks_.assign(samples.size(), {});
  for (size_t i = 0; i < samples.size(); ++i) {
    marks_[i].assign(samples[i].tokens.size(), 0.0f);
    for (size_t t = 0; t < marks_[i].size(); ++t)
      if (samples[i].response_mask[t] != 0) marks_[i][t] = picks[next++];
    samples[i].marks = marks_[i];
  }
}

void FirstPass::reject(const std::vector<std::vector<float>>& logp,
                       std::vector<TrainSample>& samples) {
  std::vector<int32_t> cu_seqlens{0};
  std::vector<uint8_t> mask;
  std::vector<double> now, recorded;
  for (size_t i = 0; i < samples.size(); ++i) {
    const TrainSample& sample = samples[i];
    mask.insert(mask.end(), sample.response_mask.begin(), sample.response_mask.end());
    now.insert(now.end(), logp[i].begin(), logp[i].end());
    recorded.insert(recorded.end(), sample.old_logp.begin(), sample.old_logp.end());
    cu_seqlens.push_back(static_cast<int32_t>(mask.size()));
  }
  catalog::Correction rules = config_.train_infer_correction.rules;
  rules.is_weighted = false;  // the loss has the ratio
  const algorithms::Correction found =
      algorithms::correct({{cu_seqlens, mask}, now, recorded}, rules);
  masks_.assign(samples.size(), {});
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto begin = found.mask.begin() + cu_seqlens[i];
    masks_[i].assign(begin, found.mask.begin() + cu_seqlens[i + 1]);
    samples[i].response_mask = masks_[i];
  }
}

bool has_response(const std::vector<TrainSample>& samples) {
  return std::ranges::any_of(samples, [](const TrainSample& sample) {
    return std::ranges::any_of(sample.response_mask, [](uint8_t mask) { return mask != 0; });
  });
}

}  // namespace cohort::actors
