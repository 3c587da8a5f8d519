#pragma once
/// Histograms of plain numbers, as inline SVG. Pure. Internal to runtime/observe.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/histogram.hpp"

namespace cohort::observe {

/// Returns the <figure> of numbers with the mean `mean`; "" if there are fewer than two.
std::string histogram_part(std::string_view title, const Histogram& numbers, double mean);
/// The same of numbers that are here, NaN left out.
std::string histogram_part(std::string_view title, const std::vector<double>& values);

}  // namespace cohort::observe
