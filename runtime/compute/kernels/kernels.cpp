#include "runtime/compute/kernels/kernels.hpp"

#include <cstdlib>

#include "runtime/compute/kernels/decode_kernels.hpp"

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

const DecodeKernels* decode_kernels_by_name(std::string_view name) {
#if defined(COHORT_KERNELS_X86)
  if (name == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &decode_kernels_avx2();
  if (name == "avx512_bf16" && __builtin_cpu_supports("avx512bf16") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return &decode_kernels_avx512_bf16();
  if (name == "avx512" && __builtin_cpu_supports("avx512f")) return &decode_kernels_avx512();
#endif
  return name == "generic" ? &decode_kernels_generic() : nullptr;
}

const DecodeKernels& decode_kernels() {
  static const DecodeKernels* const chosen = [] {
    const char* asked = std::getenv("COHORT_CPU_KERNELS");
    for (const char* name :
         {asked == nullptr ? "avx512_bf16" : asked, "avx512_bf16", "avx512", "avx2"})
      if (const DecodeKernels* kernels = decode_kernels_by_name(name)) return kernels;
    return &decode_kernels_generic();
  }();
  return *chosen;
}

}  // namespace cohort::compute::cpu
