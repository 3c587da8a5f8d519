// Decode kernels for AVX-512 F (compiled with -mavx512f -mfma).
#define COHORT_DECODE_WIDTH 16
#define COHORT_DECODE_NAME "avx512"
#define COHORT_DECODE_ENTRY decode_kernels_avx512
#include "runtime/compute/kernels/decode_kernels.inl"
