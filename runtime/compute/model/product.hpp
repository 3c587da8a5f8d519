#pragma once
/// Matrix products of the policy's operations, and what generation needs with exact rows. bf16 on a
/// CPU that has the instructions takes gemm.hpp's products: sums in f32, an addend too, rounded
/// once. Everything else is libtorch's. Callable from any thread.
///
/// Bits in a row depend, as ATen computes them, on the rows beside it. In a thread that asked for
/// exact rows they do not, which generation promises (GEN-1): BLAS rounds by the number of rows,
/// and vectorised functions by the place in the whole tensor.
#include <cstdint>
#include <functional>

#include "runtime/compute/generate/work_team.hpp"
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
/// y += a b, without a gradient; y is of their dtype, or f32 where multiplies_wide(a).
void multiply_onto(at::Tensor y, const at::Tensor& a, const at::Tensor& b);
/// Returns whether gemm.hpp's products take x.
bool multiplies_wide(const at::Tensor& x);

/// Sums of gradients beside the parameters that products read: parameters[i]'s is at sums[i].
struct GradientSums {
  const uint16_t* parameters = nullptr;
  float* sums = nullptr;
  int64_t count = 0;
  /// Hears that [begin, begin + count) is about to be added to. Returns whether it holds no sum yet
  /// and may be overwritten.
  std::function<bool(int64_t begin, int64_t count)> is_first;
};

/// While it lives, gemm.hpp's products of this thread share their work with `team`, and those that
/// make the gradient of parameters add it to `sums`: autograd gets none. The bits of a sum are
/// those of adding autograd's gradients.
class ProductScope {
 public:
  ProductScope(WorkTeam& team, GradientSums sums);
  ~ProductScope();
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;

  WorkTeam& team() const { return team_; }
  const GradientSums& sums() const { return sums_; }

 private:
  WorkTeam& team_;
  GradientSums sums_;
};

/// Returns 1 / (1 + e^-x), of any shape.
at::Tensor sigmoid(const at::Tensor& x);

}  // namespace cohort::compute::ops
