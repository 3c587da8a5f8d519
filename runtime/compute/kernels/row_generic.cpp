// The row kernels for the instruction set "generic": 4 lanes.
#define COHORT_KERNEL_SET generic
#define COHORT_KERNEL_LANES 4
#include "runtime/compute/kernels/row_kernels.inl"
