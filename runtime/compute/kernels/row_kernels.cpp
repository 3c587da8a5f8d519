#include "runtime/compute/kernels/row_kernels.hpp"

#include "runtime/compute/kernels/decode_kernels.hpp"

namespace cohort::compute::cpu {

// One definition each in row_<name>.cpp.
namespace row_sets {
namespace generic {
extern const RowKernels k_table;
}
#if defined(COHORT_KERNELS_X86)
namespace avx2 {
extern const RowKernels k_table;
}
namespace avx512 {
extern const RowKernels k_table;
}
#endif
}  // namespace row_sets

const RowKernels* row_kernels_by_name(std::string_view name) {
#if defined(COHORT_KERNELS_X86)
  if (name == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &row_sets::avx2::k_table;
  // Rows are multiplied in f32, by weights of either dtype, whatever there is for bf16.
  if ((name == "avx512" || name == "avx512_bf16" || name == "amx") &&
      __builtin_cpu_supports("avx512f"))
    return &row_sets::avx512::k_table;
#endif
  return name == "generic" ? &row_sets::generic::k_table : nullptr;
}

const RowKernels& row_kernels() { return *row_kernels_by_name(decode_kernels().name); }

}  // namespace cohort::compute::cpu
