#pragma once
/// Which kernels OpenBLAS takes. It chooses them by the CPU's model while it loads, and takes a CPU
/// that is younger than itself for one without AVX: on an Emerald Rapids the 0.3.21 of Debian 12
/// takes Prescott's, whose f32 products run at 27 GFLOP/s where SkylakeX's run at 146. The variable
/// OPENBLAS_CORETYPE chooses others, if it is there before the library is.
#include <optional>
#include <string_view>

namespace cohort {

struct CpuFeatures {
  bool has_avx2 = false;    // with FMA
  bool has_avx512 = false;  // F, BW, DQ and VL
};

/// Returns the value of OPENBLAS_CORETYPE for a CPU that can more than `core` (of
/// openblas_get_corename()) uses; nothing if that uses its vector units. Pure.
std::optional<std::string_view> better_blas_core(std::string_view core, CpuFeatures cpu);

/// Sets OPENBLAS_CORETYPE for the program that this process becomes next, if OpenBLAS would choose
/// worse by itself; returns whether. A value that somebody has set stays. `loads`: OpenBLAS is
/// loaded if it is not, which takes 10 ms and starts its threads: call it just before exec.
/// Otherwise a program that has another BLAS stays as it is.
bool choose_blas_core(bool loads);

}  // namespace cohort
