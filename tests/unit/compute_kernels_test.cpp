// Every instruction set's kernels compute the same functions, row by row (KERNEL-1).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/compute/kernels/kernels.hpp"

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
