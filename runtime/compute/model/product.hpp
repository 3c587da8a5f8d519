#pragma once
/// Operations of policy_parts whose bits in a row depend, as ATen computes them, on the rows beside
/// it. In a thread that asked for exact rows they do not, which generation promises (GEN-1): BLAS
/// rounds by the number of rows, and vectorised functions by the place in the whole tensor.
#include "runtime/tensor/torch.hpp"

namespace cohort::compute::ops {

/// In this thread: activations are f32 on the CPU, weights of products f32 or bf16, results f32
/// without a gradient.
void set_row_exact(bool is_enabled);

/// Returns x weight^T. x: [N, K]; weight: [M, K], rows contiguous; result [N, M].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);

/// Returns 1 / (1 + e^-x), of any shape.
at::Tensor sigmoid(const at::Tensor& x);

}  // namespace cohort::compute::ops
