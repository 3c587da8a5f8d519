// The row kernels of every instruction set this CPU runs, against f64 and against themselves.
#include "runtime/compute/kernels/row_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute::cpu {
namespace {

std::vector<float> noise(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}
/// The values as bf16, and rounded as those.
std::vector<uint16_t> halves(std::vector<float>& values) {
  std::vector<uint16_t> half;
  for (float& x : values) {
    half.push_back(to_bf16(x));
    x = from_bf16(half.back());
  }
  return half;
}

class RowKernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = row_kernels_by_name(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "not on this CPU";
  }
  const RowKernels* kernels_ = nullptr;
};

TEST_P(RowKernelsTest, ARowOfAProductHasTheSameBitsForAnyNumberOfRows) {
  for (const auto& [depth, outputs] : {std::pair<int64_t, int64_t>{64, 9}, {37, 21}, {5, 1}})
    for (bool is_bf16 : {false, true}) {
      constexpr int64_t k_rows = 23;
      const auto x = noise(k_rows * depth, 1);
      auto w = noise(outputs * depth, 2);
      const auto half = halves(w);
      std::vector<float> all(static_cast<size_t>(k_rows * outputs)), some(all.size());
      const void* weight = is_bf16 ? static_cast<const void*>(half.data()) : w.data();
      RowProduct args{x.data(), depth,  weight, is_bf16, all.data(),
                      outputs,  k_rows, depth,  outputs};
      kernels_->product(args);
      for (int64_t rows = 1; rows < k_rows; ++rows)
        for (int64_t first : {int64_t{0}, k_rows - rows}) {
          args.x = x.data() + first * depth;
          args.rows = rows;
          args.y = some.data();
          kernels_->product(args);
          ASSERT_EQ(std::memcmp(some.data(), all.data() + first * outputs,
                                static_cast<size_t>(rows * outputs) * sizeof(float)),
                    0)
              << "rows " << rows << " from " << first << " depth " << depth;
        }
      for (int64_t r = 0; r < k_rows; ++r)
        for (int64_t o = 0; o < outputs; ++o) {
          double exact = 0;
          for (int64_t k = 0; k < depth; ++k)
            exact += double{x[static_cast<size_t>(r * depth + k)]} *
                     double{w[static_cast<size_t>(o * depth + k)]};
          EXPECT_NEAR(all[static_cast<size_t>(r * outputs + o)], exact, 1e-5);
        }
    }
}

/// Two key-value heads for four query heads over blocks of 4 tokens, scattered; then latents: one
/// entry for all heads, whose first values are the values.
TEST_P(RowKernelsTest, AttentionReadsItsBlocks) {
  struct Case {
    int64_t kv_heads, key_dim, value_dim, begin, end;
    bool is_latent;
  };
  for (const Case& c : {Case{2, 19, 19, 0, 11, false}, Case{2, 16, 16, 3, 9, false},
                        Case{1, 21, 17, 0, 10, true}, Case{1, 21, 17, 0, 1, true}})
    for (bool is_bf16 : {false, true}) {
      constexpr int64_t k_heads = 4, k_block = 4;
      const int32_t blocks[] = {2, 0, 3};
      RowAttention args;
      args.key_dim = args.head_stride = c.key_dim;
      args.token_stride = c.kv_heads * c.key_dim;
      args.value_offset = c.is_latent ? 0 : k_block * args.token_stride;
      args.block_stride = (c.is_latent ? 1 : 2) * k_block * args.token_stride;
      auto cache = noise(4 * args.block_stride, 3);
      const auto half = halves(cache);
      const auto q = noise(k_heads * c.key_dim, 4);
      std::vector<float> out(static_cast<size_t>(k_heads * c.value_dim), 7.F);
      std::vector<float> scores(static_cast<size_t>(k_heads * (c.end - c.begin)));
      args.q = q.data();
      args.is_bf16 = is_bf16;
      args.cache = is_bf16 ? static_cast<const void*>(half.data()) : cache.data();
      args.blocks = blocks;
      args.block_tokens = k_block;
      args.begin = c.begin;
      args.end = c.end;
      args.heads = k_heads;
      args.kv_heads = c.kv_heads;
      args.value_dim = c.value_dim;
      args.out = out.data();
      args.scores = scores.data();
      kernels_->attention(args);
      for (int64_t h = 0; h < k_heads; ++h) {
        const auto entry = [&](int64_t key) {
          return cache.data() + blocks[key / k_block] * args.block_stride +
                 key % k_block * args.token_stride + h / (k_heads / c.kv_heads) * args.head_stride;
        };
        std::vector<double> p;
        double sum = 0;
        for (int64_t key = c.begin; key < c.end; ++key) {
          double score = 0;
          for (int64_t k = 0; k < c.key_dim; ++k)
            score += double{q[static_cast<size_t>(h * c.key_dim + k)]} * double{entry(key)[k]};
          sum += p.emplace_back(std::exp(score));
        }
        for (int64_t d = 0; d < c.value_dim; ++d) {
          double exact = 0;
          for (int64_t key = c.begin; key < c.end; ++key)
            exact += p[static_cast<size_t>(key - c.begin)] / sum *
                     double{entry(key)[args.value_offset + d]};
          EXPECT_NEAR(out[static_cast<size_t>(h * c.value_dim + d)], exact, 1e-5);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, RowKernelsTest, ::testing::Values("generic", "avx2", "avx512"));

}  // namespace
}  // namespace cohort::compute::cpu
