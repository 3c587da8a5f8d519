// Decode kernels for AMX tiles of bf16 beside AVX-512 F, BW, VL and BF16 (compiled with -mavx512f
// -mavx512bw -mavx512vl -mavx512bf16 -mfma -mamx-tile -mamx-bf16).
#define COHORT_DECODE_WIDTH 16
#define COHORT_DECODE_NAME "amx"
#define COHORT_DECODE_ENTRY decode_kernels_amx
#define COHORT_DECODE_BF16_DOT
#define COHORT_DECODE_TILES
#include "runtime/compute/kernels/decode_kernels.inl"
