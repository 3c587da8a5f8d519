// Body of the decode kernels; compiled once per instruction set (decode_generic.cpp,
// decode_avx2.cpp, decode_avx512.cpp, decode_avx512_bf16.cpp, decode_amx.cpp), each of which sets
// COHORT_DECODE_WIDTH (floats of a vector), COHORT_DECODE_NAME and COHORT_DECODE_ENTRY; the last
// two also COHORT_DECODE_BF16_DOT (products of bf16 pairs in one instruction), the last
// COHORT_DECODE_TILES (products of bf16 in tiles). Everything is in an anonymous namespace and uses
// no std templates: an inline function compiled for AVX-512 must not be the copy that the linker
// keeps for all. Built with -ffp-contract=off: the only fused operations are the written ones.
#include <cmath>
#include <cstring>

#if COHORT_DECODE_WIDTH > 4
#include <immintrin.h>
#endif

#include "runtime/compute/kernels/decode_kernels.hpp"

namespace cohort::compute::cpu {
namespace {

constexpr int k_width = COHORT_DECODE_WIDTH;
#if COHORT_DECODE_WIDTH == 16
constexpr int k_tile_rows = 12;  // 24 accumulators of 32 registers
constexpr int k_vectors = 2;     // vectors of a panel
#elif COHORT_DECODE_WIDTH == 8
constexpr int k_tile_rows = 6;  // 12 accumulators of 16 registers
constexpr int k_vectors = 2;
#else
constexpr int k_tile_rows = 2;
constexpr int k_vectors = 4;
#endif
constexpr int k_panel = k_vectors * k_width;
constexpr int k_block = static_cast<int>(k_kv_block_tokens);
constexpr int k_block_vectors = k_block / k_width;
static_assert(k_tile_rows <= k_attention_rows);

typedef float Vec __attribute__((vector_size(k_width * 4)));
typedef int32_t IntVec __attribute__((vector_size(k_width * 4)));
typedef float UnalignedVec __attribute__((vector_size(k_width * 4), aligned(4), may_alias));

inline Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<UnalignedVec*>(p) = v; }
#if COHORT_DECODE_WIDTH == 16
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec splat(float x) { return _mm512_set1_ps(x); }
#elif COHORT_DECODE_WIDTH == 8
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec splat(float x) { return _mm256_set1_ps(x); }
#else
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec splat(float x) { return Vec{x, x, x, x}; }
#endif
inline Vec vmax(Vec a, Vec b) { return a > b ? a : b; }

/// Lane i is v's lane (i + by) % k_width. In registers: lanes through memory wait for the stores.
#if COHORT_DECODE_WIDTH == 16
#define COHORT_ROTATED(v, by)                                                               \
  __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3, by + 4, by + 5, by + 6, by + 7, \
                          by + 8, by + 9, by + 10, by + 11, by + 12, by + 13, by + 14, by + 15)
#elif COHORT_DECODE_WIDTH == 8
#define COHORT_ROTATED(v, by) \
  __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3, by + 4, by + 5, by + 6, by + 7)
#else
#define COHORT_ROTATED(v, by) __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3)
#endif

inline float sum_lanes(Vec v) {  // pairwise, fixed order
  if constexpr (k_width > 8) v = v + COHORT_ROTATED(v, 8 % k_width);
  if constexpr (k_width > 4) v = v + COHORT_ROTATED(v, 4 % k_width);
  v = v + COHORT_ROTATED(v, 2);
  v = v + COHORT_ROTATED(v, 1);
  return v[0];
}
inline float max_lanes(Vec v) {
  if constexpr (k_width > 8) v = vmax(COHORT_ROTATED(v, 8 % k_width), v);
  if constexpr (k_width > 4) v = vmax(COHORT_ROTATED(v, 4 % k_width), v);
  v = vmax(COHORT_ROTATED(v, 2), v);
  v = vmax(COHORT_ROTATED(v, 1), v);
  return v[0];
}
#undef COHORT_ROTATED

/// e^x, 1-2 ulp: Cody-Waite reduction by ln 2 in two parts, degree-6 polynomial (Cephes expf).
/// Exactly 0 below -86.5, so that a masked key adds nothing.
inline Vec vexp(Vec x) {
  const Vec low = splat(-86.5F);
  const Vec magic = splat(12582912.F);  // 1.5 * 2^23: rounds to an integer held in the low bits
  Vec y = x > splat(88.0F) ? splat(88.0F) : x;
  y = y < low ? low : y;
  Vec t = fma(y, splat(1.44269504F), magic);
  Vec n = t - magic;
  Vec r = fma(n, splat(-0.693359375F), y);
  r = fma(n, splat(2.12194440e-4F), r);
  Vec p = fma(splat(1.9875691500e-4F), r, splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  p = fma(p, r * r, r) + splat(1.F);
  IntVec bits = reinterpret_cast<IntVec>(p) + (reinterpret_cast<IntVec>(t) << 23);
  Vec e = reinterpret_cast<Vec>(bits);
  return x < low ? splat(0.F) : e;
}

inline Vec silu(Vec x) { return x / (splat(1.F) + vexp(-x)); }

#include "runtime/compute/kernels/decode_matmul.inl"

// Uses the kinds of words of the products.
#include "runtime/compute/kernels/decode_attention.inl"

// -- norm -----------------------------------------------------------------------------------------

void rms_norm(const float* x, int64_t rows, int64_t dim, int64_t padded, const float* weight,
              float eps, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * padded;
    Vec sum = splat(0.F);
    for (int64_t i = 0; i < padded; i += k_width) {
      Vec v = load(in + i);
      sum = fma(v, v, sum);
    }
    float mean = sum_lanes(sum) / static_cast<float>(dim);
    Vec scale = splat(1.F / std::sqrt(mean + eps));
    for (int64_t i = 0; i < padded; i += k_width)
      store(out + r * padded + i, load(in + i) * scale * load(weight + i));
  }
}

// -- sampling -------------------------------------------------------------------------------------

float row_max(const float* x, int64_t count) {
  constexpr int chains = 4;
  Vec best[chains];
  for (int c = 0; c < chains; ++c) best[c] = splat(-INFINITY);
  int64_t i = 0;
  for (; i + chains * k_width <= count; i += chains * k_width)
    for (int c = 0; c < chains; ++c) best[c] = vmax(load(x + i + c * k_width), best[c]);
  float top = max_lanes(vmax(vmax(best[0], best[1]), vmax(best[2], best[3])));
  for (; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

int64_t index_of(const float* x, int64_t count, float value) {
  constexpr int chains = 4;
  int64_t i = 0;
  for (; i + chains * k_width <= count; i += chains * k_width) {
    IntVec is_here = {};
    for (int c = 0; c < chains; ++c) is_here |= load(x + i + c * k_width) == splat(value);
    int64_t bits[k_width / 2], found = 0;
    memcpy(bits, &is_here, sizeof bits);
    for (int j = 0; j < k_width / 2; ++j) found |= bits[j];
    if (found != 0) break;
  }
  while (i < count && x[i] != value) ++i;
  return i;
}

double wide_sum(const float* x, int64_t count) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef double Lanes __attribute__((vector_size(64)));
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Eight eight;
    memcpy(&eight, x + i, sizeof eight);
    lanes += __builtin_convertvector(eight, Lanes);
  }
  for (int j = 0; i + j < count; ++j) lanes[j] += static_cast<double>(x[i + j]);
  double sum = 0;
  for (int j = 0; j < 8; ++j) sum += lanes[j];
  return sum;
}

float exp_sum(const float* x, int64_t count, float shift, float scale, float* out) {
  Vec sum = splat(0.F);
  int64_t i = 0;
  for (; i + k_width <= count; i += k_width) {
    Vec e = vexp((load(x + i) - splat(shift)) * splat(scale));
    if (out != nullptr) store(out + i, e);
    sum = sum + e;
  }
  if (i < count) {
    float rest[k_width];
    for (int j = 0; j < k_width; ++j) rest[j] = i + j < count ? x[i + j] : -INFINITY;
    Vec e = vexp((load(rest) - splat(shift)) * splat(scale));
    store(rest, e);
    for (int j = 0; out != nullptr && i + j < count; ++j) out[i + j] = rest[j];
    sum = sum + e;
  }
  return sum_lanes(sum);
}

#if COHORT_DECODE_WIDTH > 4
constexpr int k_square = 8;
#else
constexpr int k_square = 4;
#endif
typedef uint32_t SquareRow __attribute__((vector_size(k_square * 4)));

/// words[i][j] becomes words[j][i].
inline void transpose_square(SquareRow (&w)[k_square]) {
#if COHORT_DECODE_WIDTH > 4
  SquareRow pairs[8], fours[8];  // what an instruction can bring together: 2, 4, then 8 rows
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(w[i], w[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(w[i], w[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      const SquareRow a = pairs[i + j], b = pairs[i + j + 2];
      fours[i + 2 * j] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    w[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    w[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  const SquareRow a = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5),
                  b = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7),
                  c = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5),
                  d = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);
  w[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  w[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  w[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  w[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#endif
}

void transpose_words(const void* from, int64_t from_stride, int64_t rows, int64_t columns, void* to,
                     int64_t to_stride) {
  constexpr int64_t k_bytes = 4;
  constexpr int64_t k_columns = 16;  // a cache line of a row: read once
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(to);
  const int64_t source_step = from_stride * k_bytes, target_step = to_stride * k_bytes;
  const int64_t whole_rows = rows / k_square * k_square;
  const int64_t whole_columns = columns / k_square * k_square;
  for (int64_t block = 0; block < whole_columns; block += k_columns) {
    const int64_t end = block + k_columns < whole_columns ? block + k_columns : whole_columns;
    for (int64_t r = 0; r < whole_rows; r += k_square)
      for (int64_t c = block; c < end; c += k_square) {
        SquareRow square[k_square];
        for (int i = 0; i < k_square; ++i)
          memcpy(&square[i], source + (r + i) * source_step + c * k_bytes, sizeof square[i]);
        transpose_square(square);
        for (int i = 0; i < k_square; ++i)
          memcpy(target + (c + i) * target_step + r * k_bytes, &square[i], sizeof square[i]);
      }
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      memcpy(target + c * target_step + r * k_bytes, source + r * source_step + c * k_bytes,
             k_bytes);
}

constexpr DecodeKernels k_kernels{COHORT_DECODE_NAME,
                                  k_panel,
                                  matmul,
                                  matmul_bf16,
                                  rms_norm,
                                  rope_and_cache,
                                  rope_and_cache_bf16,
                                  attention,
                                  attention_bf16,
                                  to_bf16,
#if defined(COHORT_DECODE_TILES)
                                  to_tiles,
#else
                                  nullptr,
#endif
                                  transpose_words,
                                  row_max,
                                  index_of,
                                  exp_sum,
                                  wide_sum};

}  // namespace

const DecodeKernels& COHORT_DECODE_ENTRY() { return k_kernels; }

}  // namespace cohort::compute::cpu
