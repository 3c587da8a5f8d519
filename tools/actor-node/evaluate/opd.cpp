/// {"coef": 1, "kl_penalty": a name of the catalogue (default kl), "clip": none};
/// sampled_log_probs, teacher_log_probs, optionally task_advantages, mask [B][T] -> pure: the
/// advantages of distillation alone, with coef 1; mixed (with task_advantages): those of the task
/// plus coef times these [B][T].
#include "algorithms/advantage.hpp"
#include "algorithms/teacher.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

/// The advantages of a task and the leads of a teacher as a run joins them.
Expected<Json> joined_advantages(const Case& in, const Array& mask, const Packed& batch,
                                 const std::vector<double>& task,
                                 const std::vector<double>& leads) {
  algorithms::AdvantageOptions options;
  options.gamma = 0;  // a token's reward is its advantage
  COHORT_ASSIGN(
      const algorithms::TokenCredit credit,
      algorithms::credit_tokens(
          {.rewards = task, .layout = {batch.cu_seqlens, batch.mask}, .leads = leads}, options));
  return in.answer(credit.advantages, mask);
}

}  // namespace

Expected<Json> opd(Case& in) {
  algorithms::TeacherOptions options;
  const double coef = in.number("coef", 1);
  options.clip = in.maybe_number("clip");
  const std::string kind = in.text("kl_penalty", "kl");
  const auto found = catalog::find<catalog::KlKind>(kind, catalog::Dialect::verl);
  if (!found || !catalog::entry(*found).is_built)
    in.refuse("params: 'kl_penalty' is no estimator of the catalogue: " + kind);
  options.kind = found.value_or(catalog::KlKind::kl);
  const Array mask = in.array("mask", 2);
  const Array logp = in.array_like("sampled_log_probs", mask);
  const Array teacher = in.array_like("teacher_log_probs", mask);
  const bool is_mixed = in.has_input("task_advantages");
  Array task = mask;
  if (is_mixed) task = in.array_like("task_advantages", mask);
  COHORT_TRY(in.read());
  const Packed batch = packed_of(mask);
  const std::vector<double> nothing(mask.values.size(), 0);
  const auto leads = [&] {
    return algorithms::teacher_leads(options, batch.mask, logp.values, teacher.values);
  };
  Json out;
  COHORT_ASSIGN(out["pure"], joined_advantages(in, mask, batch, nothing, leads()));
  options.coef = coef;
  if (is_mixed) {
    COHORT_ASSIGN(out["mixed"], joined_advantages(in, mask, batch, task.values, leads()));
  }
  return out;
}

}  // namespace cohort::evaluate
