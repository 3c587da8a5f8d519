#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {

SurrogateLoss surrogate_of(catalog::PolicyLossKind x) {
  using catalog::PolicyLossKind;
  switch (x) {
#define COHORT_BUILT(id, ...) \
  case PolicyLossKind::id:    \
    return id##_surrogate;
#define COHORT_PLANNED(id, ...) \
  case PolicyLossKind::id:      \
    break;
#include "runtime/catalog/policy_losses.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED
  }
  COHORT_CHECK(false, "CONF-3: preflight refuses a policy loss that is not built in");
  return nullptr;
}

}  // namespace cohort::algorithms
