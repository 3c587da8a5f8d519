#pragma once
/// JSON to values. Whole numbers of 64 bits are exact, objects their order; of equal
/// keys the last value counts, as in Python. Bounded by k_max_value_depth and the budget.
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

/// Fails with a Failure if it is too deep or too large.
Value value_of(Budget& budget, const nlohmann::ordered_json& json);

}  // namespace cohort::text::jinja
