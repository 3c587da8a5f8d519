#include "runtime/compute/model/product.hpp"

#include <cmath>

#include "runtime/base/check.hpp"
#include "runtime/compute/kernels/row_kernels.hpp"

namespace cohort::compute::ops {
namespace {

thread_local bool is_row_exact = false;

at::Tensor exact_product(const at::Tensor& x_in, const at::Tensor& weight) {
  const at::Tensor x = x_in.contiguous();
  COHORT_CHECK(x.scalar_type() == at::kFloat && weight.is_contiguous() &&
                   (weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kBFloat16),
               "KERNEL-1: an exact product takes f32 rows and tight weights of f32 or bf16");
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  cpu::RowProduct args;
  args.x = x.data_ptr<float>();
  args.ldx = args.depth = x.size(1);
  args.weight = weight.data_ptr();
  args.is_bf16 = weight.scalar_type() == at::kBFloat16;
  args.y = y.data_ptr<float>();
  args.ldy = args.outputs = weight.size(0);
  args.rows = x.size(0);
  cpu::row_kernels().product(args);
  return y;
}

}  // namespace

void set_row_exact(bool is_enabled) { is_row_exact = is_enabled; }

at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
  return is_row_exact ? exact_product(x, weight) : at::mm(x, weight.t());
}

at::Tensor sigmoid(const at::Tensor& x_in) {
  if (!is_row_exact) return at::sigmoid(x_in);
  const at::Tensor x = x_in.contiguous(), y = at::empty_like(x);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = 1.0F / (1.0F + std::exp(-from[i]));
  return y;
}

}  // namespace cohort::compute::ops
