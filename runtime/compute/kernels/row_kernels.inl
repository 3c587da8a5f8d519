// Body of the row kernels; compiled once per instruction set (row_generic.cpp, row_avx2.cpp,
// row_avx512.cpp), each of which sets COHORT_KERNEL_SET and COHORT_KERNEL_LANES. Built with
// -ffp-contract=off: the only fused operations are the written ones.
#include <cstdint>

#if COHORT_KERNEL_LANES > 4
#include <immintrin.h>
#endif

#include "runtime/compute/kernels/row_kernels.hpp"

namespace cohort::compute::cpu::row_sets::COHORT_KERNEL_SET {
namespace {

#include "runtime/compute/kernels/simd.inl"

#if COHORT_KERNEL_LANES == 16
static inline Vec fused(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif COHORT_KERNEL_LANES == 8
static inline Vec fused(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
static inline Vec fused(Vec a, Vec b, Vec c) { return a * b + c; }
#endif

using Half = uint16_t;  // bf16

/// k_rows rows of x by k_outputs rows of weights: one accumulator for each pair.
template <int k_rows, int k_outputs, class Weight>
static void product_tile(const RowProduct& a, const Weight* weight, int64_t row, int64_t output) {
  const float* x = a.x + row * a.ldx;
  const Weight* w = weight + output * a.depth;
  Vec sums[k_rows][k_outputs] = {};
  int64_t k = 0;
  for (; k + k_lanes <= a.depth; k += k_lanes) {
    Vec at[k_outputs];
    for (int o = 0; o < k_outputs; ++o) at[o] = load(w + o * a.depth + k);
    for (int r = 0; r < k_rows; ++r) {
      const Vec mine = load(x + r * a.ldx + k);
      for (int o = 0; o < k_outputs; ++o) sums[r][o] = fused(mine, at[o], sums[r][o]);
    }
  }
  if (const int64_t rest = a.depth - k; rest > 0) {
    for (int r = 0; r < k_rows; ++r) {
      const Vec mine = load_part(x + r * a.ldx + k, rest);
      for (int o = 0; o < k_outputs; ++o)
        sums[r][o] = fused(mine, load_part(w + o * a.depth + k, rest), sums[r][o]);
    }
  }
  for (int r = 0; r < k_rows; ++r)
    for (int o = 0; o < k_outputs; ++o) a.y[(row + r) * a.ldy + output + o] = lane_sum(sums[r][o]);
}

template <int k_rows, int k_outputs, class Weight>
static void product_rows(const RowProduct& a, const Weight* weight, int64_t row) {
  int64_t output = 0;
  for (; output + k_outputs <= a.outputs; output += k_outputs)
    product_tile<k_rows, k_outputs>(a, weight, row, output);
  for (; output < a.outputs; ++output) product_tile<k_rows, 1>(a, weight, row, output);
}

template <class Weight>
static void product_of(const RowProduct& a, const Weight* weight) {
  int64_t row = 0;
  for (; row + 4 <= a.rows; row += 4) product_rows<4, 4>(a, weight, row);
  for (; row < a.rows; ++row) product_rows<1, 8>(a, weight, row);
}

void product(const RowProduct& a) {
  if (a.is_bf16)
    product_of(a, static_cast<const Half*>(a.weight));
  else
    product_of(a, static_cast<const float*>(a.weight));
}

template <class Element>
static float dot(const float* q, const Element* key, int64_t dim) {
  Vec sum = {};
  int64_t k = 0;
  for (; k + k_lanes <= dim; k += k_lanes) sum = fused(load(q + k), load(key + k), sum);
  if (k < dim) sum = fused(load_part(q + k, dim - k), load_part(key + k, dim - k), sum);
  return lane_sum(sum);
}

/// out += p * value.
template <class Element>
static void add_value(float* out, float p, const Element* value, int64_t dim) {
  const Vec scale = splat(p);
  int64_t c = 0;
  for (; c + k_lanes <= dim; c += k_lanes)
    store(out + c, fused(scale, load(value + c), load(out + c)));
  if (c < dim)
    store_part(out + c, fused(scale, load_part(value + c, dim - c), load_part(out + c, dim - c)),
               dim - c);
}

/// Scores to probabilities that are not divided yet; returns their sum.
static float softmax_weights(float* scores, int64_t count) {
  float most = scores[0];
  for (int64_t i = 1; i < count; ++i) most = scores[i] > most ? scores[i] : most;
  Vec sum = {};
  int64_t i = 0;
  for (; i + k_lanes <= count; i += k_lanes) {
    const Vec p = exponential(load(scores + i) - splat(most));
    store(scores + i, p);
    sum += p;
  }
  if (i < count) {
    const Vec p = exponential(load_part(scores + i, count - i, -__builtin_inff()) - splat(most));
    store_part(scores + i, p, count - i);
    sum += p;  // the lanes behind the end are exp(-inf), which is 0
  }
  return lane_sum(sum);
}

template <class Element>
static void attention_of(const RowAttention& a, const Element* cache) {
  const int64_t group = a.heads / a.kv_heads, count = a.end - a.begin;
  const auto at = [&](int64_t key, int64_t kv_head) {
    return cache + a.blocks[key / a.block_tokens] * a.block_stride +
           key % a.block_tokens * a.token_stride + kv_head * a.head_stride;
  };
  for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
    const float* q = a.q + kv_head * group * a.key_dim;
    float* out = a.out + kv_head * group * a.value_dim;
    for (int64_t i = 0; i < count; ++i) {
      const Element* key = at(a.begin + i, kv_head) + a.key_offset;
      for (int64_t h = 0; h < group; ++h)
        a.scores[h * count + i] = dot(q + h * a.key_dim, key, a.key_dim);
    }
    for (int64_t h = 0; h < group; ++h) {
      const float scale = 1.0F / softmax_weights(a.scores + h * count, count);
      for (int64_t i = 0; i < count; ++i) a.scores[h * count + i] *= scale;
    }
    for (int64_t c = 0; c < group * a.value_dim; ++c) out[c] = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Element* value = at(a.begin + i, kv_head) + a.value_offset;
      for (int64_t h = 0; h < group; ++h)
        add_value(out + h * a.value_dim, a.scores[h * count + i], value, a.value_dim);
    }
  }
}

void attention(const RowAttention& a) {
  if (a.is_bf16)
    attention_of(a, static_cast<const Half*>(a.cache));
  else
    attention_of(a, static_cast<const float*>(a.cache));
}

}  // namespace

#define COHORT_STRING_INNER(x) #x
#define COHORT_STRING(x) COHORT_STRING_INNER(x)
extern const RowKernels k_table;
const RowKernels k_table = {COHORT_STRING(COHORT_KERNEL_SET), product, attention};

}  // namespace cohort::compute::cpu::row_sets::COHORT_KERNEL_SET
