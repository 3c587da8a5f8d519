// Body of the decode kernels; compiled once per instruction set (decode_generic.cpp,
// decode_avx2.cpp, decode_avx512.cpp), each of which sets COHORT_DECODE_WIDTH (floats of a vector),
// COHORT_DECODE_NAME and COHORT_DECODE_ENTRY. Everything is in an anonymous namespace and uses no
// std templates: an inline function compiled for AVX-512 must not be the copy that the linker keeps
// for all. Built with -ffp-contract=off: the only fused operations are the written ones.
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

inline float sum_lanes(Vec v) {  // pairwise, fixed order
  float lane[k_width];
  store(lane, v);
  for (int half = k_width / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}
inline float max_lanes(Vec v) {
  float lane[k_width];
  store(lane, v);
  float best = lane[0];
  for (int i = 1; i < k_width; ++i) best = lane[i] > best ? lane[i] : best;
  return best;
}

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

// -- matmul ---------------------------------------------------------------------------------------

/// One tile: ROWS rows times PANELS neighbouring panels; one accumulator chain per output element.
template <int ROWS, int PANELS>
inline void matmul_tile(const MatmulArgs& m, int64_t row, int64_t panel) {
  constexpr int columns = PANELS * k_vectors;
  Vec acc[ROWS][columns];
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < columns; ++v) acc[r][v] = splat(0.F);
  const float* a = m.a + row * m.lda;
  const float* w = m.weights + panel * m.depth * k_panel;
  const int64_t panel_stride = m.depth * k_panel;
  for (int64_t k = 0; k < m.depth; ++k) {
    Vec b[columns];
#pragma GCC unroll 16
    for (int v = 0; v < columns; ++v)
      b[v] = load(w + (v / k_vectors) * panel_stride + (v % k_vectors) * k_width);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      Vec x = splat(a[r * m.lda + k]);
#pragma GCC unroll 16
      for (int v = 0; v < columns; ++v) acc[r][v] = fma(x, b[v], acc[r][v]);
    }
    w += k_panel;
  }
  for (int r = 0; r < ROWS; ++r) {
    if (m.mode == MatmulMode::swiglu) {
      float* out = m.out + (row + r) * m.ldo + panel * (k_panel / 2);
      for (int p = 0; p < PANELS; ++p)
        for (int v = 0; v < k_vectors / 2; ++v) {
          Vec gate = acc[r][p * k_vectors + v];
          Vec up = acc[r][p * k_vectors + k_vectors / 2 + v];
          if (m.bias != nullptr) {
            const float* bias = m.bias + (panel + p) * k_panel + v * k_width;
            gate = gate + load(bias);
            up = up + load(bias + k_panel / 2);
          }
          store(out + (p * k_vectors / 2 + v) * k_width, silu(gate) * up);
        }
      continue;
    }
    float* out = m.out + (row + r) * m.ldo + panel * k_panel;
    for (int v = 0; v < columns; ++v) {
      Vec y = acc[r][v];
      if (m.mode == MatmulMode::add) y = load(out + v * k_width) + y;
      if (m.bias != nullptr) y = y + load(m.bias + panel * k_panel + v * k_width);
      store(out + v * k_width, y);
    }
  }
}

/// Few rows: several panels at once, so that enough chains are in flight to hide the latency.
template <int ROWS, int PANELS>
inline void matmul_thin(const MatmulArgs& m, int64_t row) {
  int64_t panel = 0;
  for (; panel + PANELS <= m.panels; panel += PANELS) matmul_tile<ROWS, PANELS>(m, row, panel);
  for (; panel < m.panels; ++panel) matmul_tile<ROWS, 1>(m, row, panel);
}

template <int ROWS>
inline void matmul_tail(const MatmulArgs& m, int64_t row, int64_t rest) {
  if constexpr (ROWS > 0) {
    if (rest < ROWS) return matmul_tail<ROWS - 1>(m, row, rest);
    if constexpr (k_width > 4 && ROWS == 1)
      matmul_thin<1, 4>(m, row);
    else if constexpr (k_width > 4 && ROWS <= 3)
      matmul_thin<ROWS, 2>(m, row);
    else
      matmul_thin<ROWS, 1>(m, row);
  }
}

void matmul(const MatmulArgs& m) {
  const int64_t whole = m.rows / k_tile_rows * k_tile_rows;
  if (whole > 0)
    for (int64_t panel = 0; panel < m.panels; ++panel)
      for (int64_t row = 0; row < whole; row += k_tile_rows)
        matmul_tile<k_tile_rows, 1>(m, row, panel);
  if (whole < m.rows) matmul_tail<k_tile_rows - 1>(m, whole, m.rows - whole);
}

// -- norm, rope -----------------------------------------------------------------------------------

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

/// Rotate-half: (x_i, x_{i+h/2}) -> (x_i cos - x_{i+h/2} sin, x_{i+h/2} cos + x_i sin).
inline void rotate(float* head, const float* cosines, const float* sines, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    float first = head[i];
    float second = head[half + i];
    head[i] = first * cosines[i] - second * sines[i];
    head[half + i] = second * cosines[i] + first * sines[i];
  }
}

void rope_and_cache(const CachedAttention& a) {
  const int64_t half = a.head_dim / 2;
  const int64_t value_base = a.kv_heads * a.head_dim * k_block;
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t position = a.first_position + r;
    const float* cosines = a.cosines + position * half;
    const float* sines = a.sines + position * half;
    float* row = a.qkv + r * a.ld_qkv;
    for (int64_t h = 0; h < a.heads + a.kv_heads; ++h)
      rotate(row + h * a.head_dim, cosines, sines, half);
    const int64_t slot = position % k_block;
    float* block = a.cache + a.blocks[position / k_block] * a.block_stride;
    const float* keys = row + a.heads * a.head_dim;
    const float* values = keys + a.kv_heads * a.head_dim;
    for (int64_t i = 0; i < a.kv_heads * a.head_dim; ++i) block[i * k_block + slot] = keys[i];
    for (int64_t h = 0; h < a.kv_heads; ++h)
      memcpy(block + value_base + (h * k_block + slot) * a.head_dim_padded, values + h * a.head_dim,
             static_cast<size_t>(a.head_dim) * sizeof(float));
  }
}

// -- attention ------------------------------------------------------------------------------------

/// A tile: TILE consecutive (row, query head) pairs of one KV head.
struct Tile {
  const float* query[k_tile_rows];
  float* out[k_tile_rows];
  int64_t first[k_tile_rows], keys[k_tile_rows];  // this pair sees the keys first … keys
  int64_t keys_max;
  int64_t begin;  // of the first block that a pair sees
  int64_t kv_head;
};

template <int TILE>
inline void score_block(const CachedAttention& a, const Tile& t, int64_t begin, Vec scale,
                        int64_t ld_scores, Vec (&best)[TILE]) {
  const float* keys =
      a.cache + a.blocks[begin / k_block] * a.block_stride + t.kv_head * a.head_dim * k_block;
  Vec acc[TILE][k_block_vectors];
  for (int j = 0; j < TILE; ++j)
    for (int v = 0; v < k_block_vectors; ++v) acc[j][v] = splat(0.F);
  for (int64_t d = 0; d < a.head_dim; ++d) {
    Vec k[k_block_vectors];
#pragma GCC unroll 16
    for (int v = 0; v < k_block_vectors; ++v) k[v] = load(keys + d * k_block + v * k_width);
#pragma GCC unroll 16
    for (int j = 0; j < TILE; ++j) {
      Vec q = splat(t.query[j][d]);
#pragma GCC unroll 16
      for (int v = 0; v < k_block_vectors; ++v) acc[j][v] = fma(q, k[v], acc[j][v]);
    }
  }
  for (int j = 0; j < TILE; ++j) {
    float* scores = a.scratch + j * ld_scores + begin;
    const bool is_whole = begin + k_block <= t.keys[j];
    for (int v = 0; v < k_block_vectors; ++v) store(scores + v * k_width, acc[j][v] * scale);
    for (int64_t i = 0; i < t.first[j] - begin && i < k_block; ++i) scores[i] = -INFINITY;
    if (!is_whole)
      for (int64_t i = t.keys[j] > begin ? t.keys[j] - begin : 0; i < k_block; ++i)
        scores[i] = -INFINITY;
    for (int v = 0; v < k_block_vectors; ++v) best[j] = vmax(load(scores + v * k_width), best[j]);
  }
}

template <int TILE>
inline void attend(const CachedAttention& a, const Tile& t) {
  const int64_t padded = (t.keys_max + k_block - 1) / k_block * k_block;
  const Vec scale = splat(1.F / std::sqrt(static_cast<float>(a.head_dim)));
  Vec best[TILE];
  for (int j = 0; j < TILE; ++j) best[j] = splat(-INFINITY);
  for (int64_t begin = t.begin; begin < padded; begin += k_block)
    score_block<TILE>(a, t, begin, scale, padded, best);
  float inverse[TILE];
  for (int j = 0; j < TILE; ++j) {
    float* scores = a.scratch + j * padded;
    const Vec shift = splat(max_lanes(best[j]));
    Vec sum = splat(0.F);
    for (int64_t i = t.begin; i < padded; i += k_width) {
      Vec e = vexp(load(scores + i) - shift);
      store(scores + i, e);
      sum = sum + e;
    }
    inverse[j] = 1.F / sum_lanes(sum);
  }
  const int64_t value_base =
      a.kv_heads * a.head_dim * k_block + t.kv_head * k_block * a.head_dim_padded;
  for (int64_t column = 0; column < a.head_dim; column += k_block) {
    Vec acc[TILE][k_block_vectors];
    for (int j = 0; j < TILE; ++j)
      for (int v = 0; v < k_block_vectors; ++v) acc[j][v] = splat(0.F);
    for (int64_t begin = t.begin; begin < t.keys_max; begin += k_block) {
      const float* values =
          a.cache + a.blocks[begin / k_block] * a.block_stride + value_base + column;
      const int64_t count = t.keys_max - begin < k_block ? t.keys_max - begin : k_block;
      for (int64_t i = 0; i < count; ++i) {
        Vec x[k_block_vectors];
#pragma GCC unroll 16
        for (int v = 0; v < k_block_vectors; ++v)
          x[v] = load(values + i * a.head_dim_padded + v * k_width);
#pragma GCC unroll 16
        for (int j = 0; j < TILE; ++j) {
          Vec p = splat(a.scratch[j * padded + begin + i]);
#pragma GCC unroll 16
          for (int v = 0; v < k_block_vectors; ++v) acc[j][v] = fma(p, x[v], acc[j][v]);
        }
      }
    }
    for (int j = 0; j < TILE; ++j) {
      float result[k_block];
      for (int v = 0; v < k_block_vectors; ++v)
        store(result + v * k_width, acc[j][v] * splat(inverse[j]));
      const int64_t count = a.head_dim - column < k_block ? a.head_dim - column : k_block;
      memcpy(t.out[j] + column, result, static_cast<size_t>(count) * sizeof(float));
    }
  }
}

template <int TILE>
inline void attend_tail(const CachedAttention& a, const Tile& t, int64_t count) {
  if constexpr (TILE > 0) {
    if (count == TILE) return attend<TILE>(a, t);
    attend_tail<TILE - 1>(a, t, count);
  }
}

void attention(const CachedAttention& a) {
  const int64_t group = a.heads / a.kv_heads;
  const int64_t pairs = a.rows * group;
  for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
    for (int64_t first = 0; first < pairs; first += k_tile_rows) {
      Tile tile;
      const int64_t count = pairs - first < k_tile_rows ? pairs - first : k_tile_rows;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t row = (first + j) / group;
        const int64_t head = kv_head * group + (first + j) % group;
        tile.query[j] = a.qkv + row * a.ld_qkv + head * a.head_dim;
        tile.out[j] = a.out + row * a.ldo + head * a.head_dim;
        tile.keys[j] = a.first_position + row + 1;
        tile.first[j] = a.window > 0 && tile.keys[j] > a.window ? tile.keys[j] - a.window : 0;
        tile.keys_max = tile.keys[j];
      }
      tile.kv_head = kv_head;
      tile.begin = tile.first[0] / k_block * k_block;
      attend_tail<k_tile_rows>(a, tile, count);
    }
  }
}

// -- sampling -------------------------------------------------------------------------------------

float row_max(const float* x, int64_t count) {
  float best = -INFINITY;
  for (int64_t i = 0; i < count; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

float exp_sum(const float* x, int64_t count, float shift, float scale, float* out) {
  Vec sum = splat(0.F);
  int64_t i = 0;
  for (; i + k_width <= count; i += k_width) {
    Vec e = vexp((load(x + i) - splat(shift)) * splat(scale));
    store(out + i, e);
    sum = sum + e;
  }
  if (i < count) {
    float rest[k_width];
    for (int j = 0; j < k_width; ++j) rest[j] = i + j < count ? x[i + j] : -INFINITY;
    Vec e = vexp((load(rest) - splat(shift)) * splat(scale));
    store(rest, e);
    for (int j = 0; i + j < count; ++j) out[i + j] = rest[j];
    sum = sum + e;
  }
  return sum_lanes(sum);
}

constexpr DecodeKernels k_kernels{COHORT_DECODE_NAME, k_panel,   matmul,  rms_norm,
                                  rope_and_cache,     attention, row_max, exp_sum};

}  // namespace

const DecodeKernels& COHORT_DECODE_ENTRY() { return k_kernels; }

}  // namespace cohort::compute::cpu
