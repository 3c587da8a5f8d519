#pragma once
/// Histograms of plain numbers, as inline SVG. Pure. Internal to runtime/observe.
#include <string>
#include <string_view>
#include <vector>

namespace cohort::observe {

/// Returns the <figure> of `values`, NaN left out; "" if there are fewer than two.
std::string histogram_part(std::string_view title, const std::vector<double>& values);

}  // namespace cohort::observe
