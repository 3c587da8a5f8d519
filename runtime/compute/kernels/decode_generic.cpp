// Decode kernels for any CPU: four floats at a time, multiply and add rounded apart.
#define COHORT_DECODE_WIDTH 4
#define COHORT_DECODE_NAME "generic"
#define COHORT_DECODE_ENTRY decode_kernels_generic
#include "runtime/compute/kernels/decode_kernels.inl"
