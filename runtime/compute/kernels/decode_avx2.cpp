// Decode kernels for AVX2 and FMA (compiled with -mavx2 -mfma).
#define COHORT_DECODE_WIDTH 8
#define COHORT_DECODE_NAME "avx2"
#define COHORT_DECODE_ENTRY decode_kernels_avx2
#include "runtime/compute/kernels/decode_kernels.inl"
