#pragma once
/// The kinds of cases: each reads its case, calls the functions that a run calls, and returns the
/// outputs by name. Errors: invalid_argument, naming the parameter or input. May throw c10::Error.
#include "tools/actor-node/evaluate/case.hpp"

namespace cohort::evaluate {

#define COHORT_KIND(name) Expected<Json> name(Case& in);
#include "tools/actor-node/evaluate/kinds.def"
#undef COHORT_KIND

/// Returns the outputs of a case, or Errc::invalid_argument for a kind that is not there, naming
/// those that are. Catches what libtorch throws (Errc::compute).
Expected<Json> outputs_of(Case& in);

}  // namespace cohort::evaluate
