#include "runtime/doctor/rules/rescale.hpp"

#include <gtest/gtest.h>

namespace cohort::doctor {
namespace {

std::string refusal(const RescaleOptions& options) {
  auto scaled = rescale(options);
  return scaled ? "accepted" : scaled.error().detail;
}

TEST(Rescale, TheGuidesEightToTwo) {  // Ascend's guide: batch and learning rate both divided by 4
  auto x = rescale({.from = 8, .to = 2, .nodes = 3, .batch = 512, .learning_rate = 4e-4});
  ASSERT_TRUE(x);
  EXPECT_EQ(x->batch, 128u);
  EXPECT_DOUBLE_EQ(x->learning_rate, 1e-4);
  EXPECT_EQ(x->world_size, 6u);  // 2 * nnodes
  EXPECT_EQ(x->nproc_per_node, 2u);
}

TEST(Rescale, BackAgainIsTheSame) {
  auto down = rescale({.from = 8, .to = 2, .batch = 512, .learning_rate = 4e-4});
  auto up =
      rescale({.from = 2, .to = 8, .batch = down->batch, .learning_rate = down->learning_rate});
  EXPECT_EQ(up->batch, 512u);
  EXPECT_EQ(up->learning_rate, 4e-4);
}

TEST(Rescale, UnwholeBatchesNameWhatWorks) {
  EXPECT_EQ(refusal({.from = 8, .to = 2, .batch = 30, .learning_rate = 1}),
            "batch 30*2/8 = 7.5 is not whole; nearest batches that work: 28, 32; card counts that "
            "work: 4, 8, 12, 16");
  EXPECT_EQ(refusal({.from = 8, .to = 2, .batch = 32, .learning_rate = 1, .unit = 16}),
            "batch 32*2/8 = 8 is not a multiple of 16; nearest batches that work: 64; card counts "
            "that work: 4, 8, 12, 16");
}

TEST(Rescale, NamedValuesWork) {
  for (uint64_t batch = 1; batch < 200; ++batch)
    for (uint32_t to = 1; to <= 9; ++to) {
      RescaleOptions x{.from = 6, .to = to, .batch = batch, .learning_rate = 1, .unit = 2};
      auto scaled = rescale(x);
      if (scaled) {
        EXPECT_EQ(scaled->batch * 6, batch * to);
        EXPECT_EQ(scaled->batch % 2, 0u);
        continue;
      }
      const std::string& text = scaled.error().detail;
      size_t at = text.find("that work: ") + 11;
      x.batch = std::stoull(text.substr(at));
      EXPECT_TRUE(rescale(x)) << text;
    }
}

TEST(Rescale, NonsenseIsRefused) {
  EXPECT_NE(refusal({.from = 0, .to = 2, .batch = 8, .learning_rate = 1}), "accepted");
  EXPECT_NE(refusal({.from = 8, .to = 0, .batch = 8, .learning_rate = 1}), "accepted");
  EXPECT_NE(refusal({.from = 8, .to = 2, .nodes = 0, .batch = 8, .learning_rate = 1}), "accepted");
  EXPECT_NE(refusal({.from = 8, .to = 2, .batch = 0, .learning_rate = 1}), "accepted");
  EXPECT_NE(refusal({.from = 8, .to = 2, .batch = 8, .learning_rate = 0}), "accepted");
  EXPECT_NE(refusal({.from = 8, .to = 2, .batch = ~uint64_t{0}, .learning_rate = 1}), "accepted");
}

}  // namespace
}  // namespace cohort::doctor
