// Body of the bf16 products; compiled once per instruction set (gemm_avx512_bf16.cpp,
// gemm_amx.cpp), each of which sets COHORT_GEMM_NAME and COHORT_GEMM_ENTRY, the last also
// COHORT_GEMM_TILES. Everything is in an anonymous namespace and uses no std templates: an inline
// function compiled for AMX must not be the copy that the linker keeps for all.
//
// Operands are packed into tiles of 1 KB, which is what an AMX register holds: 16 rows of a by 32
// of its depth; 16 pairs of b's depth by 16 columns, the earlier of a pair in the low half of a
// word. Two tiles of a by two of b make a unit of the result, 32 rows by 32 columns.
#include <immintrin.h>

#include <cstring>

#include "runtime/compute/kernels/gemm.hpp"
#include "runtime/compute/kernels/gemm_blocks.hpp"

namespace cohort::compute::cpu {
namespace {

constexpr int64_t k_pairs = 16;         // of depth, in a tile; its rows or columns likewise
constexpr int64_t k_tile = 16 * 32;     // [elements]
constexpr int64_t k_step = 2 * k_tile;  // [elements] of an operand for 32 of depth

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline __mmask16 first(int64_t n) {
  return n >= 16 ? __mmask16(0xFFFF) : n <= 0 ? __mmask16(0) : __mmask16((1U << n) - 1);
}
inline __mmask32 first_halves(int64_t n) {
  return n >= 32 ? ~__mmask32(0) : n <= 0 ? __mmask32(0) : (__mmask32(1) << n) - 1;
}

/// w[i] lane j becomes w[j] lane i.
inline void transpose(__m512i (&w)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(w[i], w[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(w[i], w[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    w[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    w[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    w[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    w[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(w[i], w[i + 4], 0x88),
                  b = _mm512_shuffle_i32x4(w[i], w[i + 4], 0xDD),
                  c = _mm512_shuffle_i32x4(w[i + 8], w[i + 12], 0x88),
                  d = _mm512_shuffle_i32x4(w[i + 8], w[i + 12], 0xDD);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
    t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
  for (int i = 0; i < 16; ++i) w[i] = t[i];
}

/// Up to 16 lines by up to 32 of depth, as they lie: a line's elements are neighbours, or those of
/// a depth are (is_across). Missing ones are zeros.
struct Lines {
  const uint16_t* from;
  int64_t stride;  // [elements] from line to line; is_across: from depth to depth
  int64_t lines, depth;
  bool is_across;
};

/// w[i]: the 32 of depth of line i.
inline void load_lines(const Lines& at, __m512i (&w)[16]) {
  const __mmask32 mask = first_halves(at.depth);
  for (int64_t i = 0; i < 16; ++i) __builtin_prefetch(at.from + (i + 32) * at.stride);
  for (int64_t i = 0; i < 16; ++i)
    w[i] = i < at.lines ? _mm512_maskz_loadu_epi16(mask, at.from + i * at.stride)
                        : _mm512_setzero_si512();
}

/// w[i]: the pair 2 i, 2 i + 1 of depth of each line.
inline void load_pairs(const Lines& at, __m512i (&w)[16]) {
  const __mmask16 mask = first(at.lines);
  const auto half = [&](int64_t depth) {
    return depth < at.depth
               ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at.from + depth * at.stride))
               : _mm512_setzero_si512();
  };
  for (int64_t i = 0; i < 16; ++i)
    w[i] = _mm512_or_si512(half(2 * i), _mm512_slli_epi32(half(2 * i + 1), 16));
}

/// A tile of a: line by line. A tile of b: pair by pair.
template <bool k_is_of_a>
inline void pack_tile(const Lines& at, uint16_t* to) {
  __m512i w[16];
  if (at.is_across)
    load_pairs(at, w);
  else
    load_lines(at, w);
  if (at.is_across == k_is_of_a) transpose(w);
  for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(to + 32 * i, w[i]);
}

/// What is packed: lines first_line … first_line + lines - 1 (rows of a, columns of b) of the
/// depths first_depth … first_depth + depth - 1.
struct Piece {
  const uint16_t* data;
  int64_t line_stride, depth_stride;
  int64_t first_line, lines, first_depth, depth;
};

/// Packs units of 32 lines, each step after step. What lies together is read together.
template <bool k_is_of_a>
inline void pack(const Piece& piece, uint16_t* to) {
  const bool is_across = piece.line_stride == 1 && piece.depth_stride != 1;
  const int64_t stride = is_across ? piece.depth_stride : piece.line_stride;
  const int64_t steps = (piece.depth + 31) / 32;
  const auto pack_at = [&](int64_t line, int64_t step) {
    const int64_t at_line = piece.first_line + line, at_depth = piece.first_depth + 32 * step;
    const uint16_t* from = piece.data + at_line * piece.line_stride + at_depth * piece.depth_stride;
    pack_tile<k_is_of_a>({from, stride, piece.lines - line, piece.depth - 32 * step, is_across},
                         to + (line / 32 * steps + step) * k_step + line % 32 / 16 * k_tile);
  };
  const int64_t lines = gemm_round_up(piece.lines);
  if (is_across)
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t line = 0; line < lines; line += 16) pack_at(line, step);
  else
    for (int64_t unit = 0; unit < lines; unit += 32)
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t line = unit; line < unit + 32; line += 16) pack_at(line, step);
}

// -- a unit of the result -------------------------------------------------------------------------

/// sums [32][32] += the product of `steps` steps; is_first: = .
#if defined(COHORT_GEMM_TILES)
struct Tiles {
  alignas(64) uint8_t config[64] = {};
  Tiles() {
    config[0] = 1;  // palette
    for (int i = 0; i < 8; ++i) {
      config[16 + 2 * i] = 64;  // bytes of a row
      config[48 + i] = 16;      // rows
    }
    asm volatile("" : : "r"(config) : "memory");  // the intrinsic names 8 bytes of the 64 alone
    _tile_loadconfig(config);
  }
  ~Tiles() { _tile_release(); }
};

template <bool k_is_half>
inline void multiply_rows(const uint16_t* a, const uint16_t* b, int64_t steps, bool is_first,
                          float* sums) {
  constexpr int64_t k_bytes = 32 * sizeof(float);
  if (is_first) {
    _tile_zero(0);
    _tile_zero(1);
    if (!k_is_half) _tile_zero(2);
    if (!k_is_half) _tile_zero(3);
  } else {
    _tile_loadd(0, sums, k_bytes);
    _tile_loadd(1, sums + 16, k_bytes);
    if (!k_is_half) _tile_loadd(2, sums + 16 * 32, k_bytes);
    if (!k_is_half) _tile_loadd(3, sums + 16 * 32 + 16, k_bytes);
  }
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_loadd(7, b + k_tile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!k_is_half) {
      _tile_loadd(5, a + k_tile, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    a += k_step;
    b += k_step;
  }
  _tile_stored(0, sums, k_bytes);
  _tile_stored(1, sums + 16, k_bytes);
  if (!k_is_half) _tile_stored(2, sums + 16 * 32, k_bytes);
  if (!k_is_half) _tile_stored(3, sums + 16 * 32 + 16, k_bytes);
}

inline void multiply(const uint16_t* a, const uint16_t* b, int64_t steps, int64_t rows,
                     bool is_first, float* sums) {
  if (rows > 16)
    multiply_rows<false>(a, b, steps, is_first, sums);
  else
    multiply_rows<true>(a, b, steps, is_first, sums);
}
#else
struct Tiles {};

template <int k_rows>
inline void multiply_rows(const uint16_t* a, const uint16_t* b, int64_t steps, int64_t row,
                          bool is_first, float* sums) {
  __m512 sum[k_rows][2];
  const uint16_t* line[k_rows];
  for (int r = 0; r < k_rows; ++r) {
    line[r] = a + (row + r) / 16 * k_tile + (row + r) % 16 * 32;
    for (int v = 0; v < 2; ++v)
      sum[r][v] = is_first ? _mm512_setzero_ps() : _mm512_load_ps(sums + (row + r) * 32 + v * 16);
  }
  for (int64_t step = 0; step < steps; ++step, b += k_step)
    for (int64_t pair = 0; pair < k_pairs; ++pair) {
      const auto low = reinterpret_cast<__m512bh>(_mm512_load_si512(b + pair * 32)),
                 high = reinterpret_cast<__m512bh>(_mm512_load_si512(b + k_tile + pair * 32));
#pragma GCC unroll 16
      for (int r = 0; r < k_rows; ++r) {
        int32_t word;
        memcpy(&word, line[r] + step * k_step + 2 * pair, sizeof word);
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(word));
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, low);
        sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, high);
      }
    }
  for (int r = 0; r < k_rows; ++r)
    for (int v = 0; v < 2; ++v) _mm512_store_ps(sums + (row + r) * 32 + v * 16, sum[r][v]);
}

inline void multiply(const uint16_t* a, const uint16_t* b, int64_t steps, int64_t rows,
                     bool is_first, float* sums) {
  int64_t row = 0;
  for (; rows - row > 8 && row + 12 <= 32; row += 12)  // 24 sums of 32 registers
    multiply_rows<12>(a, b, steps, row, is_first, sums);
  for (; row < rows; row += 8) multiply_rows<8>(a, b, steps, row, is_first, sums);
}
#endif

inline __m512 widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
inline __m256i rounded(__m512 x) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)); }

/// Writes what the sums of a unit are for; at (row, column) of the result.
inline void finish(const Bf16Gemm& g, int64_t row, int64_t column, const float* sums) {
  const int64_t rows = smaller(32, g.rows - row);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < 32 && column + v < g.columns; v += 16) {
      const __mmask16 mask = first(g.columns - column - v);
      __m512 sum = _mm512_load_ps(sums + r * 32 + v);
      if (g.y == nullptr) {
        float* to = g.wide + (row + r) * g.wide_stride + column + v;
        const __m512 before = g.is_first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, to);
        _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(before, widened(rounded(sum))));
        continue;
      }
      if (g.addend != nullptr)
        sum = _mm512_add_ps(sum, widened(_mm256_maskz_loadu_epi16(
                                     mask, g.addend + (row + r) * g.addend_stride + column + v)));
      _mm256_mask_storeu_epi16(g.y + (row + r) * g.y_stride + column + v, mask, rounded(sum));
    }
}

/// Rows row … row + rows - 1 of the result by the columns of a packed block of b.
struct Block {
  int64_t row, rows, column, columns;
};

inline void multiply_block(const Bf16Gemm& g, const GemmCut& cut, const GemmScratch& scratch,
                           const Block& at) {
  const int64_t units = (at.rows + 31) / 32;
  for (int64_t depth = 0; depth < g.depth; depth += cut.depth) {
    const int64_t here = smaller(cut.depth, g.depth - depth), steps = (here + 31) / 32;
    const bool is_last = depth + here == g.depth;
    pack<true>({g.a.data, g.a.row_stride, g.a.column_stride, at.row, at.rows, depth, here},
               scratch.a);
    const uint16_t* b = scratch.b + depth * gemm_round_up(at.columns);
    for (int64_t column = 0; column < at.columns; column += 32, b += steps * k_step)
      for (int64_t unit = 0; unit < units; ++unit) {
        float* sums = scratch.sums + (cut.is_deep(g) ? (column / 32 * units + unit) * 32 * 32 : 0);
        multiply(scratch.a + unit * steps * k_step, b, steps, smaller(32, at.rows - unit * 32),
                 depth == 0, sums);
        if (is_last) finish(g, at.row + unit * 32, at.column + column, sums);
      }
  }
}

/// Without depth the sums are zeros.
void product_of_nothing(const Bf16Gemm& g) {
  alignas(64) const float zeros[32 * 32] = {};
  for (int64_t row = 0; row < g.rows; row += 32)
    for (int64_t column = 0; column < g.columns; column += 32) finish(g, row, column, zeros);
}

void product(const Bf16Gemm& g, std::byte* memory) {
  if (g.depth == 0) return product_of_nothing(g);
  const GemmCut cut = gemm_cut(g);
  const GemmScratch scratch = gemm_scratch(g, cut, memory);
  [[maybe_unused]] const Tiles tiles;
  for (int64_t column = 0; column < g.columns; column += cut.columns) {
    const int64_t columns = smaller(cut.columns, g.columns - column);
    for (int64_t depth = 0; depth < g.depth; depth += cut.depth)
      pack<false>({g.b.data, g.b.column_stride, g.b.row_stride, column, columns, depth,
                   smaller(cut.depth, g.depth - depth)},
                  scratch.b + depth * gemm_round_up(columns));
    for (int64_t row = 0; row < g.rows; row += cut.rows)
      multiply_block(g, cut, scratch, {row, smaller(cut.rows, g.rows - row), column, columns});
  }
}

}  // namespace

const GemmKernel& COHORT_GEMM_ENTRY() {
  static constexpr GemmKernel k_kernel = {COHORT_GEMM_NAME, product};
  return k_kernel;
}

}  // namespace cohort::compute::cpu
