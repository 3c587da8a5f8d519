#include "runtime/base/histogram.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace cohort {
namespace {

uint64_t total(const Histogram& x) {
  return std::accumulate(x.counts.begin(), x.counts.end(), uint64_t{0});
}

TEST(Histogram, EachNumberIsInTheBinOfItsEdges) {
  std::vector<double> values;
  for (int i = 0; i <= 300; ++i) values.push_back(0.1 * i);
  const Histogram found = histogram_of(std::span<const double>(values));
  EXPECT_EQ(found.least, 0);
  EXPECT_EQ(found.greatest, values.back());
  ASSERT_EQ(found.counts.size(), k_histogram_bins);
  EXPECT_EQ(found.edge(0), 0);
  EXPECT_EQ(found.edge(k_histogram_bins), values.back());
  for (size_t i = 0; i < k_histogram_bins; ++i) {
    uint64_t inside = 0;  // the greatest number is in the last bin
    for (double x : values)
      inside += x > found.edge(i) + 0.05 && x < found.edge(i + 1) - 0.05 ? 1 : 0;
    EXPECT_GE(found.counts[i], inside) << i;
    EXPECT_LE(found.counts[i], inside + 2) << i;
  }
  EXPECT_EQ(total(found), values.size());
}

TEST(Histogram, OneNumberIsOneBin) {
  const std::vector<float> values(7, 2.5F);
  const Histogram found = histogram_of(std::span<const float>(values));
  EXPECT_EQ(found, (Histogram{2.5, 2.5, {7}}));
  EXPECT_EQ(found.edge(0), 2);
  EXPECT_EQ(found.edge(1), 3);
}

TEST(Histogram, MaskedAndNonFiniteNumbersAreLeftOut) {
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, k_nan, 3, k_infinity, 100, -k_infinity};
  const std::vector<uint8_t> mask = {1, 1, 1, 1, 0, 1};
  const Histogram found = histogram_of(std::span<const float>(values), mask);
  EXPECT_EQ(found.least, 1);
  EXPECT_EQ(found.greatest, 3);
  EXPECT_EQ(total(found), 2U);
  NamedHistograms named;
  add_histogram(named, "none", std::span<const float>(values).subspan(1, 1));
  EXPECT_TRUE(named.empty());
}

TEST(Histogram, WidestAndNarrowestRangesKeepAllNumbers) {
  constexpr double k_most = std::numeric_limits<double>::max();
  constexpr double k_tiny = std::numeric_limits<double>::denorm_min();
  for (const auto& [least, greatest] : {std::pair{-k_most, k_most}, std::pair{0.0, k_tiny}}) {
    const std::vector<double> values = {least, greatest, least};
    const Histogram found = histogram_of(std::span<const double>(values));
    EXPECT_EQ(total(found), 3U);
    for (size_t i = 0; i <= found.counts.size(); ++i) EXPECT_TRUE(std::isfinite(found.edge(i)));
  }
}

}  // namespace
}  // namespace cohort
