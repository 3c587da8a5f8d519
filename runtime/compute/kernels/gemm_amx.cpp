// bf16 products for AMX tiles of bf16, beside AVX-512 F, BW, VL and BF16.
#define COHORT_GEMM_NAME "amx"
#define COHORT_GEMM_ENTRY gemm_kernel_amx
#define COHORT_GEMM_TILES
#include "runtime/compute/kernels/gemm.inl"
