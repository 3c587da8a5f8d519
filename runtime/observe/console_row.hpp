#pragma once
/// A finished step on the console: which of its row's metrics the panel shows. Pure.
#include "runtime/observe/console.hpp"
#include "runtime/observe/metrics.hpp"

namespace cohort::observe {

/// Takes over step, held-out success, and the numbers and phases of the last step.
void show_row(ConsoleState& state, const MetricRow& row);

}  // namespace cohort::observe
