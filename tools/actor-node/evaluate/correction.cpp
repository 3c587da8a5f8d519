/// old_log_probs, rollout_log_probs, mask [B][T] of each:
/// is_weights: {"rollout_is": token or sequence (also segment, geometric), "rollout_is_threshold":
/// a bound, or "lo_up" outside of which a weight is 0, "rollout_is_batch_normalize"} -> weights.
/// rejection: {"rollout_rs", "rollout_rs_threshold": by commas} -> mask; null or "": no rule.
/// offpolicy_metrics: {} -> verl's numbers of the gap.
#include "algorithms/correction.hpp"

#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

struct Gap {
  Array mask, old_logp, behavior_logp;
  Packed packed;
  algorithms::CorrectionInput input() const {
    return {{packed.cu_seqlens, packed.mask}, old_logp.values, behavior_logp.values};
  }
};

Gap read_gap(Case& in) {
  Gap gap;
  gap.mask = in.array("mask", 2);
  gap.old_logp = in.array_like("old_log_probs", gap.mask);
  gap.behavior_logp = in.array_like("rollout_log_probs", gap.mask);
  gap.packed = packed_of(gap.mask);
  return gap;
}

}  // namespace

Expected<Json> is_weights(Case& in) {
  catalog::Correction rules;
  rules.is_weighted = true;
  const std::string level = in.choice("rollout_is", {"token", "segment", "geometric", "sequence"});
  const auto names = catalog::words(names_of(rules.level));
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == level) rules.level = static_cast<catalog::CorrectionLevel>(i);
  const std::string threshold = in.loose_text("rollout_is_threshold", "2.0");
  rules.is_normalized = in.flag("rollout_is_batch_normalize", false);
  const Gap gap = read_gap(in);
  COHORT_TRY(in.read());
  COHORT_TRY(catalog::read_weight_bound(threshold, rules));
  return Json{{"weights", in.answer(algorithms::correct(gap.input(), rules).weights, gap.mask)}};
}

Expected<Json> rejection(Case& in) {
  catalog::Correction rules;
  const std::string options = in.loose_text("rollout_rs");
  const std::string thresholds = in.loose_text("rollout_rs_threshold", "");
  const Gap gap = read_gap(in);
  COHORT_TRY(in.read());
  COHORT_ASSIGN(rules.rejections, catalog::parse_rejections(options, thresholds));
  if (rules.rejections.empty()) return Json{{"mask", in.answer(gap.mask.values, gap.mask)}};
  const std::vector<uint8_t> kept = algorithms::correct(gap.input(), rules).mask;
  const std::vector<double> mask(kept.begin(), kept.end());
  return Json{{"mask", in.answer(mask, gap.mask)}};
}

Expected<Json> offpolicy_metrics(Case& in) {
  const Gap gap = read_gap(in);
  COHORT_TRY(in.read());
  Json out;
  for (const auto& [name, value] : algorithms::offpolicy_metrics(gap.input()))
    out[name] = in.answer(value);
  return out;
}

}  // namespace cohort::evaluate
