#pragma once
/// Matrix products of the policy's operations, and what generation needs with exact rows. bf16 on a
/// CPU that has the instructions takes gemm.hpp's products: sums in f32, an addend too, rounded
/// once. Everything else is libtorch's. Callable from any thread.
///
/// Bits in a row depend, as ATen computes them, on the rows beside it. In a thread that asked for
/// exact rows they do not, which generation promises (GEN-1): BLAS rounds by the number of rows,
/// and vectorised functions by the place in the whole tensor.
#include "runtime/tensor/torch.hpp"

namespace cohort::compute::ops {

/// In this thread: activations are f32 on the CPU, weights of products f32 or bf16, results f32
/// without a gradient.
void set_row_exact(bool is_enabled);

/// Returns x weight^T, differentiable. x: [N, K]; weight: [M, K], rows contiguous; result [N, M].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);

/// Returns residual + x weight^T, differentiable. residual: [N, M], x: [N, K], weight: [M, K], of
/// one dtype. Without gemm.hpp's products bf16 on the CPU rounds the product and the sum: oneDNN
/// 2.6 makes the kernel of a bf16 product with an addend from attributes that it has freed, and
/// fails now and then (std::bad_array_new_length).
at::Tensor add_product(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& weight);

/// y = a b, without a gradient. a: [N, K], b: [K, M], either may be a transposed view; y: [N, M],
/// rows contiguous, of their dtype.
void multiply_into(at::Tensor y, const at::Tensor& a, const at::Tensor& b);
/// y += a b, without a gradient; y is of their dtype, or f32.
void multiply_onto(at::Tensor y, const at::Tensor& a, const at::Tensor& b);

/// Returns 1 / (1 + e^-x), of any shape.
at::Tensor sigmoid(const at::Tensor& x);

}  // namespace cohort::compute::ops
