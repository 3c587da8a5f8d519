#include "runtime/compute/kernels/kernels.hpp"

#include <cstdlib>

#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/kernels/gemm.hpp"
#include "runtime/compute/kernels/gemm_blocks.hpp"

#if defined(COHORT_KERNELS_X86) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cohort::compute::cpu {

// One definition each in kernels_<name>.cpp.
namespace generic {
extern const Kernels k_table;
}
#if defined(COHORT_KERNELS_X86)
namespace avx2 {
extern const Kernels k_table;
}
namespace avx512 {
extern const Kernels k_table;
}
#endif

const Kernels* kernels_named(std::string_view name) {
#if defined(COHORT_KERNELS_X86)
  bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl");
  if (name == "avx512") return has_avx512 ? &avx512::k_table : nullptr;
  if (name == "avx2") return has_avx2 ? &avx2::k_table : nullptr;
#endif
  return name == "generic" ? &generic::k_table : nullptr;
}

int64_t attention_scratch_floats(int64_t keys_max, int64_t head_dim) {
  constexpr int64_t k_block_rows = 12, k_columns = 16;  // as attention.inl
  const int64_t padded = (keys_max + k_columns - 1) / k_columns * k_columns;
  return 2 * padded * (head_dim + k_block_rows);
}

const Kernels& kernels() {
  static const Kernels* const chosen = [] {
    for (const char* name : {"avx512", "avx2"}) {
      if (const Kernels* table = kernels_named(name)) return table;
    }
    return &generic::k_table;
  }();
  return *chosen;
}

namespace {

#if defined(COHORT_KERNELS_X86) && defined(__linux__)
/// Linux gives a process the registers of tiles, 8 KB a thread, when it asks (5.16 and later).
bool ask_for_tiles() {
  constexpr unsigned k_bf16 = 1U << 22, k_tile = 1U << 24;  // CPUID 7.0 EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & k_bf16) == 0 || (d & k_tile) == 0)
    return false;
  constexpr long k_request_permission = 0x1023, k_tile_data = 18;  // asm/prctl.h; XCR0's bit
  return ::syscall(SYS_arch_prctl, k_request_permission, k_tile_data) == 0;
}
#else
bool ask_for_tiles() { return false; }
#endif

bool has_bf16_dot() {
#if defined(COHORT_KERNELS_X86)
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace

bool has_tiles() {
  static const bool has = ask_for_tiles();
  return has && has_bf16_dot();
}

const DecodeKernels* decode_kernels_by_name(std::string_view name) {
#if defined(COHORT_KERNELS_X86)
  if (name == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &decode_kernels_avx2();
  if (name == "amx" && has_tiles()) return &decode_kernels_amx();
  if (name == "avx512_bf16" && has_bf16_dot()) return &decode_kernels_avx512_bf16();
  if (name == "avx512" && __builtin_cpu_supports("avx512f")) return &decode_kernels_avx512();
#endif
  return name == "generic" ? &decode_kernels_generic() : nullptr;
}

const DecodeKernels& decode_kernels() {
  static const DecodeKernels* const chosen = [] {
    const char* asked = std::getenv("COHORT_CPU_KERNELS");
    for (const char* name :
         {asked == nullptr ? "amx" : asked, "amx", "avx512_bf16", "avx512", "avx2"})
      if (const DecodeKernels* kernels = decode_kernels_by_name(name)) return kernels;
    return &decode_kernels_generic();
  }();
  return *chosen;
}

int64_t gemm_scratch_bytes(const Bf16Gemm& gemm) { return gemm_bytes(gemm, gemm_cut(gemm)); }

const GemmKernel* gemm_kernel_named([[maybe_unused]] std::string_view name) {
#if defined(COHORT_KERNELS_X86)
  if (name == "amx" && has_tiles()) return &gemm_kernel_amx();
  if (name == "avx512_bf16" && has_bf16_dot()) return &gemm_kernel_avx512_bf16();
#endif
  return nullptr;
}

const GemmKernel* gemm_kernel() {
  static const GemmKernel* const chosen = gemm_kernel_named(decode_kernels().name);
  return chosen;
}

}  // namespace cohort::compute::cpu
