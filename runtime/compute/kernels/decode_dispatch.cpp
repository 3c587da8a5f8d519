#include <cstdlib>
#include <string_view>

#include "runtime/compute/kernels/decode_kernels.hpp"

namespace cohort::compute::cpu {

const DecodeKernels* decode_kernels_by_name(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "generic") return &decode_kernels_generic();
#if defined(COHORT_DECODE_X86)
  __builtin_cpu_init();
  if (wanted == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &decode_kernels_avx2();
  if (wanted == "avx512" && __builtin_cpu_supports("avx512f")) return &decode_kernels_avx512();
#endif
  return nullptr;
}

const DecodeKernels& decode_kernels() {
  static const DecodeKernels* const chosen = [] {
    const char* asked = std::getenv("COHORT_CPU_KERNELS");
    if (asked != nullptr)
      if (const DecodeKernels* kernels = decode_kernels_by_name(asked)) return kernels;
    for (const char* name : {"avx512", "avx2"})
      if (const DecodeKernels* kernels = decode_kernels_by_name(name)) return kernels;
    return &decode_kernels_generic();
  }();
  return *chosen;
}

}  // namespace cohort::compute::cpu
