#pragma once
/// How a bf16 product is cut so that its packed operands lie in the caches (gemm.inl). Free of
/// library templates: it is compiled for several instruction sets.
#include "runtime/compute/kernels/gemm.hpp"

namespace cohort::compute::cpu {

static inline int64_t gemm_round_up(int64_t count) { return (count + 31) / 32 * 32; }

/// Rows of a and columns of b that are packed at a time, and the depth that is summed at a time.
/// Multiples of 32.
struct GemmCut {
  int64_t rows = 0, columns = 0, depth = 0;
  /// Returns whether sums of several blocks of depth are kept until the last.
  bool is_deep(const Bf16Gemm& gemm) const { return gemm.depth > depth; }
};

static inline GemmCut gemm_cut(const Bf16Gemm& gemm) {
  constexpr int64_t k_depth = 1024;    // 32 rows of it fill most of the first cache
  constexpr int64_t k_rows = 256;      // with k_depth: a quarter MB, in the second cache
  constexpr int64_t k_columns = 1024;  // each column block packs a anew
  constexpr int64_t k_b_elements = 8 * (1 << 20);  // in the third cache
  const int64_t depth_blocks = (gemm.depth + k_depth - 1) / k_depth;
  const int64_t in_budget =
      k_b_elements / (gemm.depth > 0 ? gemm_round_up(gemm.depth) : 32) / 32 * 32;
  GemmCut cut;
  cut.depth = gemm_round_up(depth_blocks > 0 ? (gemm.depth + depth_blocks - 1) / depth_blocks : 1);
  cut.rows = gemm.rows < k_rows ? gemm_round_up(gemm.rows) : k_rows;
  cut.columns = gemm_round_up(gemm.columns);
  if (cut.columns > k_columns) cut.columns = k_columns;
  if (cut.columns > in_budget) cut.columns = in_budget < 32 ? 32 : in_budget;
  return cut;
}

struct GemmScratch {
  uint16_t* a;
  uint16_t* b;
  float* sums;
};

static inline GemmScratch gemm_scratch(const Bf16Gemm& gemm, const GemmCut& cut,
                                       std::byte* memory) {
  GemmScratch at;
  at.a = reinterpret_cast<uint16_t*>(memory);
  at.b = at.a + cut.rows * cut.depth;
  at.sums = reinterpret_cast<float*>(at.b + gemm_round_up(gemm.depth) * cut.columns);
  return at;
}

/// Returns the bytes of gemm_scratch().
static inline int64_t gemm_bytes(const Bf16Gemm& gemm, const GemmCut& cut) {
  constexpr int64_t k_unit = 32 * 32;
  return 2 * (cut.rows * cut.depth + gemm_round_up(gemm.depth) * cut.columns) +
         4 * (cut.is_deep(gemm) ? cut.rows * cut.columns : k_unit);
}

}  // namespace cohort::compute::cpu
