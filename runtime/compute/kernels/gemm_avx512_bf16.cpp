// bf16 products for AVX-512 F, BW, VL and BF16.
#define COHORT_GEMM_NAME "avx512_bf16"
#define COHORT_GEMM_ENTRY gemm_kernel_avx512_bf16
#include "runtime/compute/kernels/gemm.inl"
