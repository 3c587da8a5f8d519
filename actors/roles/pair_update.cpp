#include "actors/roles/pair_update.hpp"

#include <algorithm>
#include <utility>

#include "actors/roles/policy_loss_bridge.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/config/role_weights.hpp"

namespace cohort::actors {
namespace {

using proto::Trajectory;

bool counts(const Trajectory& t) {
  return t.mask_reason.empty() && std::ranges::count(t.response_mask, uint8_t{1}) > 0;
}

}  // namespace

Expected<PairBatch> PairBatch::open(const PairOptions& options, compute::TrainEngine& engine,
                                    const std::vector<Trajectory>& batch) {
  const config::RunConfig& config = options.config;
  COHORT_CHECK(batch.size() % 2 == 0, "PREF-1: a pair has two answers");
  PairBatch pairs;
  const bool reads_reference = config.derived.is_reference_needed;
  for (size_t i = 0; i < batch.size(); i += 2) {
    const Trajectory &chosen = batch[i], &rejected = batch[i + 1];
    COHORT_CHECK(chosen.key.group == rejected.key.group, "PREF-1: a pair is a group");
    if (!counts(chosen) || !counts(rejected)) {
      ++pairs.left_out_;
      continue;
    }
    for (const Trajectory* t : {&chosen, &rejected}) {
      pairs.answers_.push_back(t);
      if (config.pipeline == config::Pipeline::rm) {
        pairs.scored_.push_back(scored_tokens(t->tokens, t->response_mask, options.pad_id));
        pairs.samples_.push_back(pairs.scored_.back().sample());
        continue;
      }
      compute::TrainSample& sample = pairs.samples_.emplace_back();
      sample.tokens = t->tokens;
      sample.response_mask = t->response_mask;
      if (reads_reference) sample.ref_logp = t->ref_logp;
    }
  }
  const bool is_adapter_off = engine.has_adapter() && config::own_reference(config).empty();
  if (reads_reference && is_adapter_off && !pairs.samples_.empty()) COHORT_TRY(pairs.refer(engine));
  return pairs;
}

std::vector<FirstSample> PairBatch::first_samples() const {
  std::vector<FirstSample> result;
  if (!scored_.empty()) return result;
  for (size_t i = 0; i < samples_.size(); ++i)
    result.push_back({answers_[i], {}, samples_[i].ref_logp});
  return result;
}

Expected<void> PairBatch::refer(compute::TrainEngine& engine) {
  const double start = now_seconds();
  COHORT_TRY(engine.log_probs(samples_, reference_, compute::AdapterUse::off));
  for (size_t i = 0; i < samples_.size(); ++i) samples_[i].ref_logp = reference_[i];
  reference_seconds_ = now_seconds() - start;
  return {};
}

void PairBatch::write(const std::string& prefix, control::UpdateReport& report) const {
  report.metrics.emplace_back(prefix + "pairs", static_cast<double>(samples_.size() / 2));
  if (left_out_ > 0)
    report.metrics.emplace_back(prefix + "pairs_left_out", static_cast<double>(left_out_));
  if (reference_seconds_ > 0) report.metrics.emplace_back("time/reference_s", reference_seconds_);
}

Expected<void> measure_pairs(const config::RunConfig& config, compute::TrainEngine& engine,
                             const PairBatch& pairs, control::UpdateReport& report) {
  const std::vector<compute::TrainSample>& samples = pairs.samples();
  if (samples.empty()) return {};
  std::vector<std::vector<float>> found;
  COHORT_TRY(engine.log_probs(samples, found));
  COHORT_ASSIGN(const Numbers numbers, pair_numbers(config, samples, found));
  for (const Number& number : numbers.all())
    report.metrics.emplace_back("val" + std::string(number.name().substr(number.name().find('/'))),
                                number.value);
  return {};
}

}  // namespace cohort::actors
