// How near a second training came: the way of a tensor is the measure, so neither its size nor the
// learning rate matters; what cannot be measured is infinitely far.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/rng.hpp"
#include "tools/traj/recompute/closeness.hpp"

namespace cohort::traj {
namespace {

using Tensors = std::vector<NamedValues>;

Tensors drawn(uint64_t seed, float scale) {
  Rng rng(seed);
  Tensors tensors = {{"a", std::vector<float>(7)}, {"b", std::vector<float>(64)}};
  for (NamedValues& tensor : tensors)
    for (float& value : tensor.values) value = scale * static_cast<float>(rng.uniform() - 0.5);
  return tensors;
}

Tensors plus(Tensors tensors, const Tensors& more, float times) {
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t k = 0; k < tensors[i].values.size(); ++k)
      tensors[i].values[k] += times * more[i].values[k];
  return tensors;
}

TEST(TrajCloseness, TheShareIsThatOfTheWayForEveryRate) {
  for (const float rate : {1e-3F, 1.0F, 1e3F}) {
    const Tensors start(drawn(1, rate)), way = drawn(2, rate);
    const Tensors recorded = plus(start, way, 1.0F), computed = plus(recorded, way, 0.01F);
    const Closeness found = closeness(start, recorded, computed, 0.02).value();
    EXPECT_NEAR(found.farthest.share, 0.01, 1e-4);
    EXPECT_EQ(found.of, 2U);
    EXPECT_EQ(found.beyond, 0U);
    EXPECT_FALSE(found.first);
    const Closeness strict = closeness(start, recorded, computed, 0.005).value();
    EXPECT_EQ(strict.beyond, 2U);
    ASSERT_TRUE(strict.first);
    EXPECT_EQ(strict.first->tensor, "a");
  }
}

TEST(TrajCloseness, TheFirstTensorBeyondIsNotTheFarthest) {
  const Tensors start = drawn(1, 1.0F), recorded = plus(start, drawn(2, 1.0F), 1.0F);
  Tensors computed = recorded;
  computed[0].values[3] += 0.5F;
  computed[1].values[5] += 50.0F;
  const Closeness found = closeness(start, recorded, computed, 0.01).value();
  EXPECT_EQ(found.first->tensor, "a");
  EXPECT_EQ(found.farthest.tensor, "b");
  EXPECT_EQ(found.beyond, 2U);
}

TEST(TrajCloseness, WhatHasNoWayOrIsNotFiniteIsInfinitelyFar) {
  const Tensors start = drawn(1, 1.0F);
  EXPECT_EQ(closeness(start, start, start, 0).value().farthest.share, 0);
  Tensors computed = start;
  computed[1].values[0] += 1e-3F;
  EXPECT_TRUE(std::isinf(closeness(start, start, computed, 1e9).value().first->share));
  const Tensors recorded = plus(start, drawn(2, 1.0F), 1.0F);
  computed = recorded;
  computed[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(closeness(start, recorded, computed, 1e9).value().first->tensor, "a");
}

TEST(TrajCloseness, OtherTensorsAreRefused) {
  const Tensors start = drawn(1, 1.0F);
  Tensors named = start, shorter = start;
  named[1].name = "c";
  shorter.pop_back();
  EXPECT_EQ(closeness(start, named, start, 1).error().code, Errc::invalid_argument);
  EXPECT_EQ(closeness(start, start, shorter, 1).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace cohort::traj
