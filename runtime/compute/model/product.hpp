#pragma once
/// The product of activations and a weight matrix, as the parts of a layer call it (policy_parts).
/// In a thread that asked for exact rows it is the row kernels' (row_kernels.hpp): then the bits of
/// a row do not depend on the rows beside it, which generation promises (GEN-1) and BLAS breaks.
#include "runtime/tensor/torch.hpp"

namespace cohort::compute::ops {

/// In this thread: products take f32 activations on the CPU and weights of f32 or bf16, return f32,
/// and have no gradient.
void set_row_exact(bool is_enabled);

/// Returns x weight^T. x: [N, K]; weight: [M, K], rows contiguous; result [N, M].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);

}  // namespace cohort::compute::ops
