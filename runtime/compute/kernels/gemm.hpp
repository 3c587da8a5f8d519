#pragma once
/// Products of bf16 matrices on the CPU for training, chosen once per process for the instruction
/// set that is there: tiles (AMX) or dot products of bf16 pairs (AVX512-BF16). Both operands are
/// packed on the way, so that any layout runs at the same speed. Pure functions on raw buffers;
/// thread-safe; no allocation, no torch.
///
/// KERNEL-1: an element of the result depends on its row of a and its column of b only. Sums are
/// f32, run over blocks of the depth in ascending order, and are rounded once. A CPU without these
/// instructions takes libtorch's product.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::compute::cpu {

/// Element (i, j) is data[i * row_stride + j * column_stride]; one of the strides is 1.
struct Bf16Matrix {
  const uint16_t* data = nullptr;
  int64_t row_stride = 0, column_stride = 0;  // [elements]
};

/// y = addend + a b, or wide += a b with the product rounded to bf16: a sum of gradients has the
/// bits that it has where each gradient is a tensor of bf16 first.
struct Bf16Gemm {
  int64_t rows = 0, depth = 0, columns = 0;
  Bf16Matrix a;                      // [rows, depth]
  Bf16Matrix b;                      // [depth, columns]
  const uint16_t* addend = nullptr;  // [rows, columns], or nullptr; may be y
  int64_t addend_stride = 0;         // [elements] from row to row
  uint16_t* y = nullptr;             // [rows, columns]; nullptr: the product is added to `wide`
  int64_t y_stride = 0;              // [elements] from row to row
  float* wide = nullptr;             // [rows, columns] f32
  bool is_first = false;             // wide holds nothing yet: it is overwritten
  int64_t wide_stride = 0;           // [elements] from row to row
};

struct GemmKernel {
  const char* name;  // "amx" | "avx512_bf16"
  /// scratch: gemm_scratch_bytes() bytes, aligned to 64.
  void (*product)(const Bf16Gemm& gemm, std::byte* scratch);
};

/// Returns what `product` needs for its packed operands and its sums: at most 20 MiB.
int64_t gemm_scratch_bytes(const Bf16Gemm& gemm);

/// Returns the fastest kernel that this CPU runs, or nullptr; COHORT_CPU_KERNELS asks for another.
const GemmKernel* gemm_kernel();
/// Returns a kernel by name, or nullptr if this CPU cannot run it or it was not built.
const GemmKernel* gemm_kernel_named(std::string_view name);

const GemmKernel& gemm_kernel_avx512_bf16();  // only if the CPU has AVX512-BF16, BW and VL
const GemmKernel& gemm_kernel_amx();          // only if has_tiles() besides

/// Returns whether the CPU has tiles of bf16 (AMX) and the kernel lets this process use them; asks
/// for them at the first call.
bool has_tiles();

}  // namespace cohort::compute::cpu
