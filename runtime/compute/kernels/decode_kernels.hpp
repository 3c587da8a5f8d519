#pragma once
/// The CPU kernels of generation, chosen once per process for the instruction set that is there.
/// Pure functions on raw buffers; thread-safe; no allocation, no torch. Weights and cached keys and
/// values are f32 or bf16 (words of two); sums, norms, residuals and logits are f32 in both.
///
/// Batch invariance (docs/architecture.md, Determinism) holds by construction: every output element
/// is one chain of multiply-adds in ascending order of the summed index, whatever the row's
/// neighbours, tile, alignment or chunk. Why not OpenBLAS: measured on AMD Zen (0.3.21), sgemm
/// gives a row other bits for 114 of 127 values of M at K=64, and M=1 runs at 4-6 GFLOP/s. These
/// packed kernels give the same bits for every M, and are faster.
#include <cstdint>
#include <string_view>

namespace cohort::compute::cpu {

inline constexpr int64_t k_kv_block_tokens =
    16;  // tokens of one KV block: one or two vectors of keys

enum class MatmulMode : uint8_t {
  store,   // out = a w + bias
  add,     // out += a w                 (residual)
  swiglu,  // out = silu(gate) * up      (panel = gate columns, then as many up columns)
};

/// f32 as it lies in memory: a word of weights is one number.
struct F32Words {
  using Activation = float;
  using Word = float;
  static constexpr int64_t k_per_word = 1;
};
/// bf16: a word holds two neighbours of the summed index, the earlier one in its low half. Where
/// their count is odd the last high half is zero. Activations are bf16 too, two at a time, and a
/// zero follows an odd count.
struct Bf16Words {
  using Activation = uint16_t;
  using Word = uint32_t;
  static constexpr int64_t k_per_word = 2;
};
/// Returns the words that hold `count` neighbours.
template <class Words>
constexpr int64_t words_of(int64_t count) {
  return (count + Words::k_per_word - 1) / Words::k_per_word;
}

/// a [rows, depth] times packed weights: panels of [words_of(depth)][panel] words. Computes the
/// panels first_panel … panels - 1; `out` and `bias` begin at panel 0.
template <class Words>
struct MatmulArgsOf {
  const typename Words::Activation* a = nullptr;
  int64_t lda = 0;
  int64_t rows = 0;
  int64_t depth = 0;
  const typename Words::Word* weights = nullptr;
  int64_t panels = 0;
  const float* bias = nullptr;  // panels * panel floats, or null
  float* out = nullptr;         // each row: panels * panel floats (half of it for swiglu)
  int64_t ldo = 0;
  MatmulMode mode = MatmulMode::store;
  int64_t first_panel = 0;
  bool is_tiled = false;  // `a` is as DecodeKernels::to_tiles leaves it; lda means nothing then
};
using MatmulArgs = MatmulArgsOf<F32Words>;
using Bf16MatmulArgs = MatmulArgsOf<Bf16Words>;

/// Rows of ONE sequence at consecutive positions; the keys of all of them are in the cache already.
/// A block of one layer is K [kv_heads][words_of(head_dim)][16 keys] followed by
/// V [kv_heads][words_of(16 keys)][head_dim_padded], in words. Computes the heads of the KV heads
/// first_kv_head … end_kv_head - 1.
template <class Words>
struct CachedAttentionOf {
  float* qkv = nullptr;  // [rows][q | k | v], rotated by rope_and_cache
  int64_t ld_qkv = 0;
  int64_t rows = 0;
  int64_t first_position = 0;  // row r sees keys 0 … first_position + r
  int64_t window = 0;          // above 0: only the last `window` of them
  float* out = nullptr;        // [rows][heads * head_dim]
  int64_t ldo = 0;
  typename Words::Word* cache = nullptr;  // block 0 of this layer
  const int32_t* blocks = nullptr;        // block ids in order of position
  int64_t block_stride = 0;               // [words] between two blocks of one layer
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t first_kv_head = 0;
  int64_t end_kv_head = 0;
  int64_t head_dim = 0;
  int64_t head_dim_padded = 0;     // multiple of 16
  const float* cosines = nullptr;  // [position][head_dim / 2]
  const float* sines = nullptr;
  float* scratch = nullptr;  // cached_attention_floats()
};
using CachedAttention = CachedAttentionOf<F32Words>;
using Bf16CachedAttention = CachedAttentionOf<Bf16Words>;

inline constexpr int64_t k_bf16_tile_rows = 16, k_bf16_tile_depth = 32;  // of bf16 activations

inline constexpr int64_t k_attention_rows = 12;  // most query rows of one tile in any variant

/// Returns the floats of CachedAttentionOf::scratch: scores of a tile, and its queries in bf16.
constexpr int64_t cached_attention_floats(int64_t keys, int64_t head_dim) {
  constexpr int64_t k_unit = 16;
  return k_attention_rows * ((keys + k_unit - 1) / k_unit * k_unit + head_dim);
}

struct DecodeKernels {
  const char* name;  // "generic" | "avx2" | "avx512" | "avx512_bf16" | "amx"
  int64_t panel;     // columns of a packed panel
  void (*matmul)(const MatmulArgs& args);
  void (*matmul_bf16)(const Bf16MatmulArgs& args);
  /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight; `padded` (multiple of 16) columns, zeros
  /// behind `dim`.
  void (*rms_norm)(const float* x, int64_t rows, int64_t dim, int64_t padded, const float* weight,
                   float eps, float* out);
  /// Rotates q and k of the rows in place and writes k and v into the cache.
  void (*rope_and_cache)(const CachedAttention& args);
  void (*rope_and_cache_bf16)(const Bf16CachedAttention& args);
  /// out = softmax(q k^T / sqrt(head_dim)) v over the cached keys, causal. bf16: q is rounded, the
  /// probabilities are not.
  void (*attention)(const CachedAttention& args);
  void (*attention_bf16)(const Bf16CachedAttention& args);
  /// Rounds to nearest, ties to even; a NaN stays one.
  void (*to_bf16)(const float* from, int64_t count, uint16_t* to);
  /// Rounds rows first_row … first_row + rows - 1 of `from` to the order in which matmul_bf16 reads
  /// more than k_bf16_tile_rows of them fastest: [row / 16][depth / 32][16 rows][32 numbers]. Null
  /// where there is no such order. REQUIRES: depth % k_bf16_tile_depth == 0.
  void (*to_tiles)(const float* from, int64_t ld, int64_t first_row, int64_t rows, int64_t depth,
                   uint16_t* to);
  /// Turns rows of words into columns: word c of row r, at from + r * from_stride + c, goes to
  /// to + c * to_stride + r. Strides are words of 4 bytes; the addresses may be any.
  void (*transpose_words)(const void* from, int64_t from_stride, int64_t rows, int64_t columns,
                          void* to, int64_t to_stride);
  float (*row_max)(const float* x, int64_t count);
  /// Returns the first index of `value`, or `count`.
  int64_t (*index_of)(const float* x, int64_t count, float value);
  /// out[i] = exp((x[i] - shift) * scale), unless out is null; returns the sum in a fixed order.
  float (*exp_sum)(const float* x, int64_t count, float shift, float scale, float* out);
  /// Returns the sum in f64 in a fixed order: eight lanes, then the lanes from the first on.
  double (*wide_sum)(const float* x, int64_t count);
};

/// Returns the fastest variant that this CPU runs; COHORT_CPU_KERNELS=generic|avx2|avx512|
/// avx512_bf16|amx asks for another.
const DecodeKernels& decode_kernels();
/// Returns a variant by name, or null if this CPU cannot run it or it was not built.
const DecodeKernels* decode_kernels_by_name(std::string_view name);

const DecodeKernels& decode_kernels_generic();
const DecodeKernels& decode_kernels_avx2();    // only if the CPU has AVX2 and FMA
const DecodeKernels& decode_kernels_avx512();  // only if the CPU has AVX-512 F
/// As avx512, to the bit, but for products of bf16. Only if the CPU has AVX512-BF16, BW and VL.
const DecodeKernels& decode_kernels_avx512_bf16();
/// As avx512_bf16, to the bit, but for products of bf16. Only if has_tiles() (gemm.hpp) besides.
const DecodeKernels& decode_kernels_amx();

}  // namespace cohort::compute::cpu
