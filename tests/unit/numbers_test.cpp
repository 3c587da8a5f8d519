// Named numbers: shares add up, maxima are kept, names stay in the order of their first mention.
#include "runtime/base/numbers.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Numbers, SharesAddUpAndMaximaAreKept) {
  Numbers one, other, sum;
  one.add("loss", 0.5);
  one.add("ratio_max", 1.5, Reduce::max);
  other.add("ratio_max", 1.25, Reduce::max);
  other.add("entropy", 2);
  other.add("loss", 0.25);
  sum.add(one);
  sum.add(other);
  EXPECT_EQ(sum.at("loss"), 0.75);
  EXPECT_EQ(sum.at("ratio_max"), 1.5);
  EXPECT_EQ(sum.at("entropy"), 2);
  EXPECT_EQ(sum.at("absent"), 0);
  ASSERT_EQ(sum.all().size(), 3u);
  EXPECT_EQ(sum.all()[1].name(), "ratio_max");
  EXPECT_EQ(sum.all()[1].reduce, Reduce::max);
}

TEST(NumbersDeath, ATableThatIsFullIsABrokenRule) {
  Numbers numbers;
  for (size_t i = 0; i < Numbers::k_capacity; ++i) numbers.add("number " + std::to_string(i), 1);
  EXPECT_DEATH(numbers.add("one more", 1), "at most 24 numbers");
}

}  // namespace
}  // namespace cohort
