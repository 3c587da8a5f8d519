#pragma once
/// CPU kernels of generation for layers that the packed runner has not (routed experts, latent
/// attention): weights as they lie in the flat buffer, f32 or bf16; activations and sums are f32.
/// Pure functions on raw buffers; thread-safe; no allocation, no torch.
///
/// KERNEL-1 holds by construction: an output element is one chain of multiply-adds over the summed
/// index and one fixed tree over the lanes; the neighbours, tile and chunk of a row do not count.
#include <cstdint>
#include <string_view>

namespace cohort::compute::cpu {

/// y[r][o] = sum over k of x[r][k] * weight[o][k].
struct RowProduct {
  const float* x = nullptr;  // [rows][depth], `ldx` floats apart
  int64_t ldx = 0;
  const void* weight = nullptr;  // [outputs][depth], tight; f32, or bf16 with is_bf16
  bool is_bf16 = false;
  float* y = nullptr;  // [rows][outputs], `ldy` floats apart
  int64_t ldy = 0;
  int64_t rows = 0, depth = 0, outputs = 0;
};

/// One query row over the cached keys begin … end - 1 of its sequence. Query head h reads key-value
/// head h / (heads / kv_heads). Token t of block b has its key of head g at
/// cache[b * block_stride + key_offset + t * token_stride + g * head_stride], its value likewise
/// from value_offset on.
struct RowAttention {
  const float* q = nullptr;     // [heads][key_dim], already scaled
  const void* cache = nullptr;  // f32, or bf16 with is_bf16
  bool is_bf16 = false;
  const int32_t* blocks = nullptr;            // block ids in order of position
  int64_t block_tokens = 0;                   // [tokens] of one block
  int64_t block_stride = 0;                   // [elements] between blocks
  int64_t key_offset = 0, value_offset = 0;   // [elements]
  int64_t token_stride = 0, head_stride = 0;  // [elements]
  int64_t begin = 0, end = 0;                 // [tokens] keys that the row sees
  int64_t heads = 0, kv_heads = 0;
  int64_t key_dim = 0, value_dim = 0;
  float* out = nullptr;     // [heads][value_dim]
  float* scores = nullptr;  // scratch: heads / kv_heads rows of end - begin floats
};

struct RowKernels {
  const char* name;  // "generic" | "avx2" | "avx512"
  void (*product)(const RowProduct& args);
  /// out = softmax(q k^T) v.
  void (*attention)(const RowAttention& args);
};

/// Returns the fastest variant that this CPU runs; COHORT_CPU_KERNELS asks for another.
const RowKernels& row_kernels();
/// Returns a variant by name, or null if this CPU cannot run it or it was not built.
const RowKernels* row_kernels_by_name(std::string_view name);

}  // namespace cohort::compute::cpu
