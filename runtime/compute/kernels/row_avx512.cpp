// The row kernels for the instruction set "avx512": 16 lanes.
#define COHORT_KERNEL_SET avx512
#define COHORT_KERNEL_LANES 16
#include "runtime/compute/kernels/row_kernels.inl"
