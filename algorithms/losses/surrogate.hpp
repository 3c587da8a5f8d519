#pragma once
/// What a policy loss is: one loss per token behind one name of the catalogue. Masks, aggregation,
/// entropy and KL are the same for all (loss.hpp). Each built row of
/// runtime/catalog/policy_losses.def has its function <id>_surrogate in algorithms/losses/<id>.cpp.
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/loss.hpp"
#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

/// Live tokens only: masked ones are 0, and old_logp is there.
struct SurrogateInput {
  at::Tensor logp, old_logp, advantages;  // [M] f32
  at::Tensor mask;                        // [M] bool or undefined: all
  at::Tensor seq_id;                      // [M] i64 or undefined
  int64_t seq_count = 0;
};

struct Surrogate {
  at::Tensor loss;       // [M], minimised
  at::Tensor ratio;      // [M] rho = exp(log_ratio)
  at::Tensor log_ratio;  // [M] lp - old, clamped to +-20 (verl)
  /// Further metrics: name, and a value per token [M], 0 where masked. The row shows their mean.
  std::vector<std::pair<std::string_view, at::Tensor>> per_token = {};
};
using SurrogateLoss = Surrogate (*)(const SurrogateInput& in, const PolicyLossOptions& options);

#define COHORT_BUILT(id, ...) \
  Surrogate id##_surrogate(const SurrogateInput& in, const PolicyLossOptions& options);
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/policy_losses.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED

/// Returns the function of a row. COHORT_CHECK on one that this version does not run.
SurrogateLoss surrogate_of(catalog::PolicyLossKind x);

}  // namespace cohort::algorithms
