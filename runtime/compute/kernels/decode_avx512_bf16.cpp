// Decode kernels for AVX-512 F, BW, VL and BF16 (compiled with -mavx512f -mavx512bw -mavx512vl
// -mavx512bf16 -mfma).
#define COHORT_DECODE_WIDTH 16
#define COHORT_DECODE_NAME "avx512_bf16"
#define COHORT_DECODE_ENTRY decode_kernels_avx512_bf16
#define COHORT_DECODE_BF16_DOT
#include "runtime/compute/kernels/decode_kernels.inl"
