// The decode kernels of every instruction set this CPU runs, against f64 and against themselves.
#include "runtime/compute/kernels/decode_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute::cpu {
namespace {

std::vector<float> noise(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}

class DecodeKernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = decode_kernels_by_name(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "not on this CPU";
  }
  const DecodeKernels* kernels_ = nullptr;
};

TEST_P(DecodeKernelsTest, ARowOfAProductHasTheSameBitsForAnyNumberOfRows) {
  const int64_t panel = kernels_->panel;
  for (const auto& [depth, panels] : {std::pair<int64_t, int64_t>{64, 5}, {37, 1}, {200, 3}}) {
    const int64_t columns = panels * panel;
    const auto a = noise(static_cast<size_t>(128 * depth), 1);
    const auto w = noise(static_cast<size_t>(depth * columns), 2);
    const auto bias = noise(static_cast<size_t>(columns), 3);
    std::vector<float> all(static_cast<size_t>(128 * columns)), some(all.size());
    MatmulArgs args{a.data(), depth,       128,        depth,   w.data(),
                    panels,   bias.data(), all.data(), columns, MatmulMode::store};
    kernels_->matmul(args);
    for (int64_t rows = 1; rows < 128; rows += depth == 64 ? 1 : 9) {
      for (int64_t first : {int64_t{0}, 128 - rows}) {
        args.a = a.data() + first * depth;
        args.rows = rows;
        args.out = some.data();
        kernels_->matmul(args);
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * columns,
                              static_cast<size_t>(rows * columns) * sizeof(float)),
                  0)
            << "rows " << rows << " from " << first << " depth " << depth;
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      double exact = bias[static_cast<size_t>(c)];
      for (int64_t k = 0; k < depth; ++k)
        exact += double{a[static_cast<size_t>(5 * depth + k)]} *
                 double{w[static_cast<size_t>((c / panel * depth + k) * panel + c % panel)]};
      EXPECT_NEAR(all[static_cast<size_t>(5 * columns + c)], exact, depth < 1000 ? 1e-5 : 1e-4);
    }
  }
}

TEST_P(DecodeKernelsTest, ExpSumIsAccurateAndMaskedIsZero) {
  std::vector<float> x = noise(77, 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= 40;
  x[13] = -INFINITY;
  std::vector<float> e(x.size());
  const float best = kernels_->row_max(x.data(), 77);
  const float sum = kernels_->exp_sum(x.data(), 77, best, 1.F, e.data());
  double exact_sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(double{x[i] - best});
    exact_sum += exact;
    EXPECT_NEAR(e[i], exact, exact * 3e-7 + 1e-37);
  }
  EXPECT_EQ(e[13], 0.F);
  EXPECT_NEAR(sum, exact_sum, 1e-6 * exact_sum);
  EXPECT_EQ(kernels_->exp_sum(x.data(), 77, best, 1.F, nullptr), sum);
}

TEST_P(DecodeKernelsTest, IndexOfIsTheFirstOne) {
  for (const int64_t count : {1, 15, 16, 63, 64, 65, 300}) {
    std::vector<float> x = noise(static_cast<size_t>(count), 5);
    EXPECT_EQ(kernels_->index_of(x.data(), count, 9.F), count);
    for (int64_t at = count - 1; at >= 0; at -= 7) {  // each before those that are there
      x[static_cast<size_t>(at)] = 9;
      EXPECT_EQ(kernels_->index_of(x.data(), count, 9.F), at);
    }
  }
}

TEST_P(DecodeKernelsTest, WideSumHasTheSameBitsInEveryVariant) {
  const std::vector<float> x = noise(1029, 6);
  for (const int64_t count : {0, 5, 8, 1024, 1029}) {
    double lanes[8] = {}, expected = 0;
    for (int64_t i = 0; i < count; ++i) lanes[i % 8] += double{x[static_cast<size_t>(i)]};
    for (double lane : lanes) expected += lane;
    EXPECT_EQ(kernels_->wide_sum(x.data(), count), expected);
  }
}

/// bf16 of `count` numbers, in words of two along each run of `depth`.
std::vector<uint16_t> halves_of(const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  for (float value : values) halves.push_back(to_bf16(value));
  return halves;
}

TEST_P(DecodeKernelsTest, ABf16ProductIsThatOfItsNumbersAndItsBitsDoNotDependOnRowsOrPanels) {
  const int64_t panel = kernels_->panel;
  for (const auto& [depth, panels] :
       {std::pair<int64_t, int64_t>{64, 5}, {36, 1}, {201, 7}, {2100, 4}}) {
    const int64_t words = words_of<Bf16Words>(depth), columns = panels * panel, lda = 2 * words;
    auto wide = noise(static_cast<size_t>(60 * lda), 1);
    for (int64_t r = 0; r < 60; ++r)
      for (int64_t k = depth; k < lda; ++k) wide[static_cast<size_t>(r * lda + k)] = 0;
    const auto a = halves_of(wide);
    const auto w = halves_of(noise(static_cast<size_t>(depth * columns), 2));  // [column][depth]
    std::vector<uint32_t> packed(static_cast<size_t>(words * columns), 0);
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t k = 0; k < depth; ++k)
        packed[static_cast<size_t>((c / panel * words + k / 2) * panel + c % panel)] |=
            static_cast<uint32_t>(w[static_cast<size_t>(c * depth + k)]) << (k % 2 * 16);
    std::vector<float> all(static_cast<size_t>(60 * columns)), some(all.size());
    Bf16MatmulArgs args{a.data(), lda,     60,         depth,   packed.data(),
                        panels,   nullptr, all.data(), columns, MatmulMode::store};
    kernels_->matmul_bf16(args);
    for (int64_t rows = 1; rows < 60; rows += rows < 14 ? 1 : 11) {
      args.rows = rows;
      args.a = a.data() + (60 - rows) * lda;
      args.out = some.data();
      for (int64_t begin = 0; begin < panels; begin += 3) {  // as threads share it
        args.first_panel = begin;
        args.panels = std::min(panels, begin + 3);
        kernels_->matmul_bf16(args);
      }
      ASSERT_EQ(std::memcmp(some.data(), all.data() + (60 - rows) * columns,
                            static_cast<size_t>(rows * columns) * sizeof(float)),
                0)
          << "rows " << rows << " depth " << depth;
    }
    for (int64_t c = 0; c < columns; ++c) {
      double exact = 0;
      for (int64_t k = 0; k < depth; ++k)
        exact += double{from_bf16(a[static_cast<size_t>(5 * lda + k)])} *
                 double{from_bf16(w[static_cast<size_t>(c * depth + k)])};
      EXPECT_NEAR(all[static_cast<size_t>(5 * columns + c)], exact, depth < 1000 ? 1e-5 : 1e-4);
    }
  }
}

TEST_P(DecodeKernelsTest, RowsInTilesHaveTheSameProduct) {
  if (kernels_->to_tiles == nullptr) GTEST_SKIP() << GetParam() << " has no order of its own";
  constexpr int64_t k_rows = 545, k_depth = 96, k_ld = 100, k_panels = 3;
  const int64_t columns = k_panels * kernels_->panel, words = k_depth / 2;
  const std::vector<float> x = noise(k_rows * k_ld, 4);
  const std::vector<uint16_t> rounded = halves_of(x);
  std::vector<uint32_t> packed(static_cast<size_t>(words * columns));
  const std::vector<uint16_t> w = halves_of(noise(packed.size() * 2, 2));
  std::memcpy(packed.data(), w.data(), w.size() * sizeof(uint16_t));
  std::vector<float> expected(k_rows * static_cast<size_t>(columns)), found = expected;
  Bf16MatmulArgs args{rounded.data(), k_ld,    0,       k_depth, packed.data(),
                      k_panels,       nullptr, nullptr, columns, MatmulMode::store};
  for (const int64_t rows : {17, 31, 32, 33, 48, 64, 70, 512, 520, 545}) {
    args.rows = rows;
    args.a = rounded.data(), args.out = expected.data(), args.is_tiled = false;
    kernels_->matmul_bf16(args);
    std::vector<uint16_t> tiles(static_cast<size_t>((rows + 15) / 16 * 16 * k_depth));
    kernels_->to_tiles(x.data(), k_ld, 0, 10, k_depth, tiles.data());  // as threads share it
    kernels_->to_tiles(x.data(), k_ld, 10, rows - 10, k_depth, tiles.data());
    args.a = tiles.data(), args.out = found.data(), args.is_tiled = true;
    kernels_->matmul_bf16(args);
    ASSERT_EQ(std::memcmp(found.data(), expected.data(),
                          static_cast<size_t>(rows * columns) * sizeof(float)),
              0)
        << rows;
  }
}

TEST_P(DecodeKernelsTest, RoundingToBf16IsToNearestEvenAndANanStaysOne) {
  std::vector<float> x = noise(75, 9);
  for (uint32_t bits : {0x3F808000U, 0x3F818000U, 0x3F808001U, 0x7F7FFFFFU, 0x7F800000U,
                        0x7F800001U, 0xFFFFFFFFU, 0x00000001U, 0x80000000U}) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    x.insert(x.begin() + 3, value);
  }
  std::vector<uint16_t> found(x.size());
  kernels_->to_bf16(x.data(), static_cast<int64_t>(x.size()), found.data());
  EXPECT_EQ(found, halves_of(x));
}

TEST_P(DecodeKernelsTest, TheLargestOfARowIsFoundWhereverItIs) {
  for (size_t count : {1U, 15U, 64U, 151U})
    for (size_t at = 0; at < count; ++at) {
      std::vector<float> x(count, -3.F);
      x[at] = -2.F;
      EXPECT_EQ(kernels_->row_max(x.data(), static_cast<int64_t>(count)), -2.F) << at;
    }
}

TEST_P(DecodeKernelsTest, WordsOfARowGoToAColumnFromAnyAddress) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {3, 40}, {8, 8}, {16, 24}, {32, 192}, {33, 17}, {7, 5}, {64, 31}})
    for (const int shift : {0, 2}) {  // a bf16 may end in the middle of a word
      const int from_stride = columns + 3, to_stride = rows + 5;
      constexpr uint32_t k_untouched = 0x5A5A5A5A;
      std::vector<uint32_t> from(static_cast<size_t>(rows * from_stride) + 1);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint32_t>(i * 2654435761U);
      std::vector<uint32_t> to(static_cast<size_t>(columns * to_stride), k_untouched), expected(to);
      const char* source = reinterpret_cast<const char*>(from.data()) + shift;
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c)
          std::memcpy(&expected[static_cast<size_t>(c * to_stride + r)],
                      source + (r * from_stride + c) * 4, 4);
      kernels_->transpose_words(source, from_stride, rows, columns, to.data(), to_stride);
      EXPECT_EQ(to, expected) << rows << " x " << columns << " from byte " << shift;
    }
}

struct Shape {
  int64_t heads, kv_heads, head_dim;
};

/// Numbers that bf16 holds, so that both kinds of words compute with the same.
std::vector<float> coarse_noise(size_t count) {
  std::vector<float> values = noise(count, 5);
  for (float& x : values) x = from_bf16(to_bf16(x));
  return values;
}

void run(const DecodeKernels& kernels, const CachedAttention& args) {
  kernels.rope_and_cache(args);
  kernels.attention(args);
}
void run(const DecodeKernels& kernels, const Bf16CachedAttention& args) {
  kernels.rope_and_cache_bf16(args);
  kernels.attention_bf16(args);
}

/// A sequence of `rows` tokens in scattered blocks, computed in chunks, and head by head where
/// `is_by_head`.
template <class Words>
std::vector<float> attend(const DecodeKernels& kernels, const Shape& s, int64_t rows,
                          const std::vector<int64_t>& chunks, bool is_stale, bool is_by_head) {
  const int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const int64_t padded = (s.head_dim + 15) / 16 * 16;
  auto qkv = coarse_noise(static_cast<size_t>(rows * width));
  std::vector<float> out(static_cast<size_t>(rows * s.heads * s.head_dim));
  std::vector<float> cosines(static_cast<size_t>(rows * s.head_dim / 2), 1.F),
      sines(cosines.size());
  std::vector<float> scratch(static_cast<size_t>(cached_attention_floats(rows, s.head_dim)));
  const std::vector<int32_t> blocks{7, 2, 5, 0, 3};
  CachedAttentionOf<Words> args;
  args.block_stride = s.kv_heads * 16 * (s.head_dim + padded) / Words::k_per_word;
  std::vector<typename Words::Word> cache(static_cast<size_t>(8 * args.block_stride), 0);
  if (is_stale) std::memset(cache.data(), 0xFF, cache.size() * sizeof cache[0]);  // NaN
  args.ld_qkv = width;
  args.ldo = s.heads * s.head_dim;
  args.cache = cache.data();
  args.blocks = blocks.data();
  args.heads = s.heads;
  args.kv_heads = s.kv_heads;
  args.head_dim = s.head_dim;
  args.head_dim_padded = padded;
  args.cosines = cosines.data();
  args.sines = sines.data();
  args.scratch = scratch.data();
  int64_t first = 0;
  for (size_t i = 0; first < rows; ++i) {
    args.rows = std::min(chunks[i % chunks.size()], rows - first);
    args.first_position = first;
    args.qkv = qkv.data() + first * width;
    args.out = out.data() + first * args.ldo;
    const int64_t heads = is_by_head ? 1 : s.kv_heads;
    for (args.first_kv_head = 0; args.first_kv_head < s.kv_heads; args.first_kv_head += heads) {
      args.end_kv_head = args.first_kv_head + heads;
      run(kernels, args);
    }
    first += args.rows;
  }
  return out;
}

/// Row `row`, head `head`, in f64, for the same noise (rotation by zero).
std::vector<double> attend_exactly(const Shape& s, int64_t rows, int64_t row, int64_t head) {
  const int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const auto qkv = coarse_noise(static_cast<size_t>(rows * width));
  auto at = [&](int64_t r, int64_t h, int64_t d) {
    return double{qkv[static_cast<size_t>(r * width + h * s.head_dim + d)]};
  };
  const int64_t kv_head = head / (s.heads / s.kv_heads);
  std::vector<double> out(static_cast<size_t>(s.head_dim), 0);
  double sum = 0;
  for (int64_t key = 0; key <= row; ++key) {
    double score = 0;
    for (int64_t d = 0; d < s.head_dim; ++d)
      score += at(row, head, d) * at(key, s.heads + kv_head, d);
    const double p = std::exp(score / std::sqrt(static_cast<double>(s.head_dim)));
    sum += p;
    for (int64_t d = 0; d < s.head_dim; ++d)
      out[static_cast<size_t>(d)] += p * at(key, s.heads + s.kv_heads + kv_head, d);
  }
  for (double& x : out) x /= sum;
  return out;
}

template <class Words>
void expect_exact_attention(const DecodeKernels& kernels) {
  for (const Shape& s : {Shape{4, 2, 16}, Shape{6, 1, 12}, Shape{3, 3, 20}, Shape{2, 2, 64}}) {
    constexpr int64_t k_rows = 70;
    const auto whole = attend<Words>(kernels, s, k_rows, {k_rows}, false, false);
    const std::vector<std::vector<int64_t>> cuts{{1}, {3, 1, 17}, {16}, {50}};
    for (const auto& cut : cuts) {
      const auto chunked = attend<Words>(kernels, s, k_rows, cut, true, cut[0] == 3);
      EXPECT_EQ(std::memcmp(whole.data(), chunked.data(), whole.size() * sizeof(float)), 0)
          << "head_dim " << s.head_dim << " chunks of " << cut[0];
    }
    for (int64_t row : {int64_t{0}, int64_t{33}, k_rows - 1})
      for (int64_t head = 0; head < s.heads; ++head) {
        const auto exact = attend_exactly(s, k_rows, row, head);
        for (int64_t d = 0; d < s.head_dim; ++d)
          EXPECT_NEAR(whole[static_cast<size_t>((row * s.heads + head) * s.head_dim + d)],
                      exact[static_cast<size_t>(d)], 2e-6);
      }
  }
}

TEST_P(DecodeKernelsTest, AttentionIsExactAndItsBitsDoNotDependOnChunksOrStaleBlocks) {
  expect_exact_attention<F32Words>(*kernels_);
}

TEST_P(DecodeKernelsTest, AttentionOverABf16CacheIsExactForNumbersThatBf16Holds) {
  expect_exact_attention<Bf16Words>(*kernels_);
}

INSTANTIATE_TEST_SUITE_P(Variants, DecodeKernelsTest,
                         ::testing::Values("generic", "avx2", "avx512", "avx512_bf16", "amx"));

}  // namespace
}  // namespace cohort::compute::cpu
