// The row kernels for the instruction set "avx2": 8 lanes.
#define COHORT_KERNEL_SET avx2
#define COHORT_KERNEL_LANES 8
#include "runtime/compute/kernels/row_kernels.inl"
