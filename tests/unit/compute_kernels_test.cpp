// Every instruction set's kernels compute the same functions, row by row (KERNEL-1).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/kernels/kernels.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/gradient_norm.hpp"

namespace cohort::compute::cpu {
namespace {

std::vector<float> random(size_t count, uint64_t seed, double scale = 1) {
  std::vector<float> values(count);
  Rng rng(seed);
  for (float& value : values) value = static_cast<float>((2 * rng.uniform() - 1) * scale);
  return values;
}

std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> found;
  for (const char* name : {"generic", "avx2", "avx512"}) {
    if (const Kernels* table = kernels_named(name)) found.push_back(table);
  }
  return found;
}

TEST(Kernels, TheChosenTableIsOneThatRunsHere) {
  EXPECT_EQ(kernels_named(kernels().name), &kernels());
  EXPECT_EQ(kernels_named("sse9"), nullptr);
}

TEST(Kernels, SoftmaxStatsMatchF64ForAllTablesAndWidths) {
  for (const Kernels* table : tables()) {
    for (int64_t columns : {1, 7, 16, 33}) {
      auto logits = random(static_cast<size_t>(columns), 3, 20);
      const auto target = static_cast<int32_t>(columns - 1);
      float logp = 0, entropy = 0, lse = 0;
      table->softmax_stats(logits.data(), &target, &logp, &entropy, &lse, 1, columns);
      double top = -1e300, sum = 0, plogp = 0;
      for (float x : logits) top = std::max(top, double{x});
      for (float x : logits) sum += std::exp(x - top);
      for (float x : logits) plogp += std::exp(x - top) / sum * (x - top - std::log(sum));
      EXPECT_NEAR(lse, top + std::log(sum), 1e-5) << table->name << columns;
      EXPECT_NEAR(logp, logits.back() - top - std::log(sum), 1e-5) << table->name << columns;
      EXPECT_NEAR(entropy, -plogp, 1e-5) << table->name << columns;
    }
  }
}

TEST(Kernels, SwigluSaturatesWithoutNan) {
  for (const Kernels* table : tables()) {
    std::vector<float> x = {-1e4f, -90, -20, 0, 20, 90, 1e4f, 1, 1, 1, 1, 1, 1, 1};
    std::vector<float> y(7);
    table->swiglu(x.data(), y.data(), 1, 7);
    for (size_t i = 0; i < 7; ++i) {
      const double g = x[i];
      EXPECT_NEAR(y[i], g / (1 + std::exp(-g)), 1e-6 * (1 + std::abs(g))) << table->name << i;
    }
  }
}

TEST(Kernels, ARowIsTheSameBitsWithAnyNeighbours) {
  constexpr int64_t k_rows = 5, k_columns = 37;
  auto x = random(k_rows * k_columns, 4), weight = random(k_columns, 5);
  for (const Kernels* table : tables()) {
    std::vector<float> all(x.size()), one(k_columns), rstd(k_rows);
    table->rms_norm(x.data(), weight.data(), all.data(), rstd.data(), k_rows, k_columns, 1e-6f);
    for (int64_t row = 0; row < k_rows; ++row) {
      table->rms_norm(x.data() + row * k_columns, weight.data(), one.data(), nullptr, 1, k_columns,
                      1e-6f);
      EXPECT_EQ(std::memcmp(one.data(), all.data() + row * k_columns, k_columns * 4), 0)
          << table->name << row;
    }
  }
}

TEST(Kernels, Bf16IsRoundedToNearestEvenAndNanStays) {
  std::vector<float> x = {1, 1.00390625f, 1.01171875f, -1.00390626f, 3.4e38f, INFINITY, NAN, 0};
  auto more = random(29, 8, 1e3);
  x.insert(x.end(), more.begin(), more.end());
  for (const Kernels* table : tables()) {
    std::vector<uint16_t> half(x.size());
    std::vector<float> back(x.size());
    table->narrow(x.data(), half.data(), static_cast<int64_t>(x.size()));
    table->widen(half.data(), back.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(half[i], to_bf16(x[i])) << table->name << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{half[i]} << 16) << table->name << i;
    }
    EXPECT_TRUE(std::isnan(back[6])) << table->name;
  }
}

/// x through a row kernel in bf16, and in f32 with one rounding after it.
TEST(Kernels, ABf16RowIsTheF32RowRoundedOnce) {
  constexpr int64_t k_rows = 3, k_columns = 37;
  std::vector<float> x = random(k_rows * 2 * k_columns, 9, 4), y(k_rows * k_columns);
  std::vector<uint16_t> half_x(x.size()), half_y(y.size());
  for (const Kernels* table : tables()) {
    table->narrow(x.data(), half_x.data(), static_cast<int64_t>(x.size()));
    table->widen(half_x.data(), x.data(), static_cast<int64_t>(x.size()));
    table->swiglu(x.data(), y.data(), k_rows, k_columns);
    table->bf16.swiglu(half_x.data(), half_y.data(), k_rows, k_columns);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(half_y[i], to_bf16(y[i])) << table->name << i;
    table->rms_norm(x.data(), x.data(), y.data(), nullptr, k_rows, k_columns, 1e-6f);
    table->bf16.rms_norm(half_x.data(), half_x.data(), half_y.data(), nullptr, k_rows, k_columns,
                         1e-6f);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(half_y[i], to_bf16(y[i])) << table->name << i;
  }
}

/// Softmax of one row by blocks of `width` columns.
std::vector<float> stats_by_blocks(const Kernels& table, const std::vector<float>& logits,
                                   int32_t target, int64_t width) {
  float running[4] = {};
  const auto columns = static_cast<int64_t>(logits.size());
  for (int64_t first = 0; first < columns; first += width)
    table.softmax_block(
        {logits.data() + first, 1, std::min(width, columns - first), first, &target}, running);
  std::vector<float> out(3);
  table.softmax_finish(running, &out[0], &out[1], &out[2], 1);
  return out;
}

TEST(Kernels, SoftmaxByBlocksMatchesWholeRows) {
  auto logits = random(101, 10, 30);
  for (const Kernels* table : tables()) {
    for (int32_t target : {0, 40, 100}) {
      std::vector<float> whole(3);
      table->softmax_stats(logits.data(), &target, &whole[0], &whole[1], &whole[2], 1, 101);
      EXPECT_EQ(stats_by_blocks(*table, logits, target, 101), whole) << table->name;
      for (int64_t width : {1, 7, 64}) {
        const std::vector<float> some = stats_by_blocks(*table, logits, target, width);
        for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(some[i], whole[i], 2e-5) << table->name << width;
      }
    }
  }
}

TEST(Kernels, ANanLogitIsNotLostBetweenBlocks) {
  auto logits = random(40, 11);
  for (size_t at : {0, 15, 39}) {
    logits[at] = NAN;
    for (const Kernels* table : tables())
      EXPECT_TRUE(std::isnan(stats_by_blocks(*table, logits, 20, 16)[0])) << table->name << at;
    logits[at] = 0;
  }
}

TEST(Kernels, SoftmaxGradientByBlocksMatchesWholeRows) {
  auto logits = random(101, 12, 10);
  const int32_t target = 70;
  const float dlogp = 0.7f, dentropy = -0.3f;
  for (const Kernels* table : tables()) {
    float logp = 0, entropy = 0, lse = 0;
    table->softmax_stats(logits.data(), &target, &logp, &entropy, &lse, 1, 101);
    std::vector<float> whole = logits, some = logits;
    table->softmax_stats_backward(whole.data(), &target, &lse, &entropy, &dlogp, &dentropy, 1, 101);
    for (int64_t first = 0; first < 101; first += 64) {
      float* at = some.data() + first;
      table->softmax_block_backward({at, 1, std::min<int64_t>(64, 101 - first), first, &target},
                                    {&lse, &entropy, &dlogp, &dentropy}, at);
    }
    for (size_t i = 0; i < some.size(); ++i)
      EXPECT_NEAR(some[i], whole[i], 1e-6) << table->name << i;
  }
}

/// NORM-1's arithmetic, one element at a time.
SquareSum reference_squares(const std::vector<float>& values, double scale) {
  SquareSum sum;
  for (const float value : values) {
    const double scaled = double{value} * scale, square = scaled * scaled * 67108864.0;
    const double whole = std::nearbyint(square);
    sum.high += static_cast<uint64_t>(whole) - 1;
    sum.low += static_cast<uint64_t>(std::nearbyint((square - whole) * 67108864.0) + 67108864.0);
  }
  return sum;
}

TEST(Kernels, TheNormsSumsAreTheSameInEveryTable) {
  const std::vector<float> x = random(1003, 13, 3e-5);
  const double scale = std::ldexp(1.0, -std::ilogb(3e-5) - 1);
  const SquareSum expected = reference_squares(x, scale);
  uint32_t largest = 0;
  for (float value : x) largest = std::max(largest, std::bit_cast<uint32_t>(std::abs(value)));
  for (const Kernels* table : tables()) {
    for (int64_t cut : {0, 5, 512}) {
      uint64_t sums[2] = {};
      table->square_sums(x.data(), cut, scale, sums);
      table->square_sums(x.data() + cut, 1003 - cut, scale, sums);
      EXPECT_EQ((SquareSum{sums[0], sums[1]}), expected) << table->name << cut;
    }
    EXPECT_EQ(table->largest_magnitude(x.data(), 1003), largest) << table->name;
    const float odd[] = {1, -INFINITY, 2};
    EXPECT_EQ(table->largest_magnitude(odd, 3), k_not_finite) << table->name;
  }
}

/// Attention of the last `queries` rows of one sequence of `keys` tokens, one head of 16.
std::vector<float> attend(const Kernels& table, const std::vector<float>& qkv, int32_t keys,
                          int32_t queries) {
  std::vector<int32_t> cu_q{0, queries}, cu_k{0, keys}, position;
  for (int32_t t = keys - queries; t < keys; ++t) position.push_back(t);
  std::vector<float> out(static_cast<size_t>(queries) * 16), lse(static_cast<size_t>(queries));
  std::vector<float> scratch(static_cast<size_t>(attention_scratch_floats(keys, 16)), NAN);
  AttentionArgs args;
  args.q = qkv.data() + (keys - queries) * 48;
  args.k = qkv.data() + 16;
  args.v = qkv.data() + 32;
  args.q_stride = args.kv_stride = 48;
  args.cu_q = cu_q.data();
  args.cu_k = cu_k.data();
  args.q_position = position.data();
  args.sequences = args.q_heads = args.kv_heads = 1;
  args.head_dim = 16;
  args.scale = 0.25f;
  args.out = out.data();
  args.lse = lse.data();
  args.scratch = scratch.data();
  table.attention(args);
  return out;
}

TEST(Kernels, AQueryIsTheSameBitsInAnyBlock) {
  auto qkv = random(50 * 48, 6, 3);
  for (const Kernels* table : tables()) {
    auto all = attend(*table, qkv, 50, 50);
    for (int32_t queries : {1, 4, 13, 30}) {
      auto some = attend(*table, qkv, 50, queries);
      EXPECT_EQ(std::memcmp(some.data(), all.data() + (50 - queries) * 16, some.size() * 4), 0)
          << table->name << queries;
    }
  }
}

/// Row t of attend(), in f64.
std::vector<double> attend_f64(const std::vector<float>& qkv, size_t t) {
  std::vector<double> weights(t + 1), out(16);
  double sum = 0;
  for (size_t key = 0; key <= t; ++key) {
    double score = 0;
    for (size_t d = 0; d < 16; ++d)
      score += 0.25 * double{qkv[t * 48 + d]} * double{qkv[key * 48 + 16 + d]};
    sum += weights[key] = std::exp(score);
  }
  for (size_t key = 0; key <= t; ++key)
    for (size_t d = 0; d < 16; ++d) out[d] += weights[key] / sum * double{qkv[key * 48 + 32 + d]};
  return out;
}

TEST(Kernels, AttentionMatchesF64WhereverTheLastTileEnds) {
  for (const Kernels* table : tables()) {
    for (int32_t keys = 1; keys <= 35; ++keys) {  // a tile is 16 keys
      const auto qkv = random(static_cast<size_t>(keys) * 48, static_cast<uint64_t>(keys), 2);
      const auto out = attend(*table, qkv, keys, keys);
      for (size_t t = 0; t < static_cast<size_t>(keys); ++t) {
        const auto expected = attend_f64(qkv, t);
        for (size_t d = 0; d < 16; ++d)
          ASSERT_NEAR(out[t * 16 + d], expected[d], 1e-5) << table->name << keys << " " << t;
      }
    }
  }
}

}  // namespace
}  // namespace cohort::compute::cpu
