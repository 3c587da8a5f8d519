#pragma once
/// How numbers are spread: counts of bins of one width between the least and the greatest. Bounded
/// in size, however many numbers it is made of, so that a message can carry it. Pure.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

struct Histogram {
  double least = 0, greatest = 0;
  /// By bin, from the least to the greatest; one bin if these are equal. Empty: no number is
  /// finite.
  std::vector<uint64_t> counts = {};
  bool operator==(const Histogram&) const = default;

  /// Returns the lower edge of bin `i`, which is the upper edge of bin `i - 1`. A bin of one number
  /// has a width of 1.
  double edge(size_t i) const {
    if (counts.size() == 1) return i == 0 ? least - 0.5 : greatest + 0.5;
    if (i == counts.size()) return greatest;
    const double half_width = greatest / 2 - least / 2;  // of any two doubles, finite
    const double share = static_cast<double>(i) / static_cast<double>(counts.size());
    return 2 * (least / 2 + half_width * share);
  }
};

/// By the names of the numbers.
using NamedHistograms = std::vector<std::pair<std::string, Histogram>>;

inline constexpr size_t k_histogram_bins = 30;  // as many as TensorBoard's own

/// Returns the histogram of the finite numbers of `values`: of those whose `mask` is not 0, or of
/// all without a mask.
template <class T>
Histogram histogram_of(std::span<const T> values, std::span<const uint8_t> mask = {}) {
  const auto each = [&](auto take) {
    for (size_t i = 0; i < values.size(); ++i)
      if ((mask.empty() || mask[i] != 0) && std::isfinite(values[i]))
        take(static_cast<double>(values[i]));
  };
  Histogram found;
  uint64_t count = 0;
  each([&](double value) {
    found.least = count == 0 ? value : std::min(found.least, value);
    found.greatest = count == 0 ? value : std::max(found.greatest, value);
    ++count;
  });
  if (count == 0) return found;
  const double half_width = found.greatest / 2 - found.least / 2;
  if (!(half_width > 0)) {
    found.counts = {count};
    return found;
  }
  found.counts.resize(k_histogram_bins);
  each([&](double value) {
    const double share = (value / 2 - found.least / 2) / half_width;
    const auto bin = static_cast<size_t>(share * static_cast<double>(k_histogram_bins));
    ++found.counts[std::min(bin, k_histogram_bins - 1)];
  });
  return found;
}

/// Adds the histogram of `values` to `to`, if one of them is finite.
template <class T>
void add_histogram(NamedHistograms& to, std::string name, std::span<const T> values,
                   std::span<const uint8_t> mask = {}) {
  Histogram found = histogram_of(values, mask);
  if (!found.counts.empty()) to.emplace_back(std::move(name), std::move(found));
}

}  // namespace cohort
