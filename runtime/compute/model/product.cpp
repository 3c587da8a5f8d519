#include "runtime/compute/model/product.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/compute/kernels/gemm.hpp"
#include "runtime/compute/kernels/row_kernels.hpp"
#include "runtime/compute/model/ops.hpp"

namespace cohort::compute::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

thread_local bool is_row_exact = false;
thread_local const ProductScope* scope = nullptr;

/// Memory of this thread that products pack their operands into; kept for the next one.
class GemmMemory {
 public:
  std::byte* at_least(int64_t bytes) {
    if (bytes > bytes_) {
      data_.reset();  // before the larger one is taken
      bytes_ = (bytes + k_line - 1) / k_line * k_line;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(k_line, static_cast<size_t>(bytes_))));
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  static constexpr int64_t k_line = 64;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

bool takes_gemm(const Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && is_fused(x) && cpu::gemm_kernel() != nullptr;
}

uint16_t* halves(const Tensor& x) { return static_cast<uint16_t*>(x.data_ptr()); }

/// x as the kernel reads it, copied if no stride of it is 1. `kept` owns what it points at.
cpu::Bf16Matrix matrix_of(const Tensor& x, Tensor& kept) {
  kept = x.stride(0) == 1 || x.stride(1) == 1 ? x : x.contiguous();
  return {halves(kept), kept.stride(0), kept.stride(1)};
}

/// The rows, or the columns, first … end - 1 of a product.
cpu::Bf16Gemm part_of(const cpu::Bf16Gemm& whole, bool is_by_row, int64_t first, int64_t end) {
  cpu::Bf16Gemm part = whole;
  (is_by_row ? part.rows : part.columns) = end - first;
  if (is_by_row)
    part.a.data += first * whole.a.row_stride;
  else
    part.b.data += first * whole.b.column_stride;
  const auto at = [&](int64_t stride) { return is_by_row ? first * stride : first; };
  if (whole.y != nullptr) part.y += at(whole.y_stride);
  if (whole.wide != nullptr) part.wide += at(whole.wide_stride);
  if (whole.addend != nullptr) part.addend += at(whole.addend_stride);
  return part;
}

void run_alone(const cpu::Bf16Gemm& gemm) {
  thread_local GemmMemory memory;
  cpu::gemm_kernel()->product(gemm, memory.at_least(cpu::gemm_scratch_bytes(gemm)));
}

/// Each member of the team packs what its part needs of both operands: the longer side is cut.
void run_gemm(const cpu::Bf16Gemm& gemm) {
  constexpr int64_t k_alone = int64_t{1}
                              << 23;  // operations that are over before a thread is awake
  constexpr int64_t k_unit = 32;      // rows or columns
  if (scope == nullptr || gemm.rows * gemm.columns * gemm.depth < k_alone) return run_alone(gemm);
  const bool is_by_row = gemm.rows > gemm.columns;
  const int64_t size = is_by_row ? gemm.rows : gemm.columns;
  const int64_t units = (size + k_unit - 1) / k_unit, members = scope->team().size();
  // Pieces so small that nobody waits long for another, so large that packing is little of them.
  const int64_t grain = std::max<int64_t>(1, units / (4 * members));
  scope->team().run(units, grain, [&](int64_t begin, int64_t end, uint32_t) {
    run_alone(part_of(gemm, is_by_row, begin * k_unit, std::min(size, end * k_unit)));
  });
}

struct Factors {
  cpu::Bf16Gemm gemm;  // without a result
  Tensor kept[2];      // what it points at
};

Factors factors_of(const Tensor& a, const Tensor& b) {
  Factors factors;
  factors.gemm.rows = a.size(0);
  factors.gemm.depth = a.size(1);
  factors.gemm.columns = b.size(1);
  factors.gemm.a = matrix_of(a, factors.kept[0]);
  factors.gemm.b = matrix_of(b, factors.kept[1]);
  return factors;
}

/// Multiplies with the kernel: y = addend + a b, or y (f32) += a b.
void run_gemm(const Tensor& y, const Tensor& a, const Tensor& b, const Tensor& addend) {
  COHORT_CHECK(y.size(1) <= 1 || y.stride(1) == 1, "a product's rows are written contiguous");
  Factors factors = factors_of(a, b);
  cpu::Bf16Gemm& gemm = factors.gemm;
  Tensor kept;
  if (y.scalar_type() == at::kFloat) {
    gemm.wide = y.data_ptr<float>();
    gemm.wide_stride = y.stride(0);
  } else {
    gemm.y = halves(y);
    gemm.y_stride = y.stride(0);
  }
  if (addend.defined()) {
    kept = addend.stride(1) == 1 ? addend : addend.contiguous();
    gemm.addend = halves(kept);
    gemm.addend_stride = kept.stride(0);
  }
  run_gemm(gemm);
}

/// Adds a b to the sum of weight's gradients, if there is one for it.
bool add_gradient(const Tensor& weight, const Tensor& a, const Tensor& b) {
  if (scope == nullptr || !weight.is_contiguous()) return false;
  const GradientSums& sums = scope->sums();
  const int64_t begin = halves(weight) - sums.parameters, count = weight.numel();
  if (begin < 0 || begin + count > sums.count) return false;
  Factors factors = factors_of(a, b);
  factors.gemm.wide = sums.sums + begin;
  factors.gemm.wide_stride = weight.size(1);
  factors.gemm.is_first = sums.is_first(begin, count);
  run_gemm(factors.gemm);
  return true;
}

/// x weight^T, and what is added to it.
struct GemmProduct : Function<GemmProduct> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& residual) {
    Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    run_gemm(y, x, weight.t(), residual.value_or(Tensor()));
    ctx->save_for_backward({x, weight});
    ctx->saved_data["adds"] = residual.has_value();
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &dy = grads[0];
    Tensor dx, dweight;
    if (ctx->needs_input_grad(0)) run_gemm(dx = at::empty_like(x), dy, weight, {});
    if (ctx->needs_input_grad(1) && !add_gradient(weight, dy.t(), x))
      run_gemm(dweight = at::empty_like(weight), dy.t(), x, {});
    return {dx, dweight, ctx->saved_data["adds"].toBool() ? dy : Tensor()};
  }
};

bool needs_two_steps(const Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kBFloat16;
}

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

ProductScope::ProductScope(WorkTeam& team, GradientSums sums)
    : team_(team), sums_(std::move(sums)) {
  COHORT_CHECK(scope == nullptr, "a thread has one scope of products");
  scope = this;
}
ProductScope::~ProductScope() { scope = nullptr; }

bool multiplies_wide(const at::Tensor& x) { return takes_gemm(x); }

void set_row_exact(bool is_enabled) { is_row_exact = is_enabled; }

at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
  if (is_row_exact) return exact_product(x, weight);
  return takes_gemm(x) ? GemmProduct::apply(x, weight, c10::nullopt) : at::mm(x, weight.t());
}

at::Tensor add_product(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& weight) {
  if (takes_gemm(x)) return GemmProduct::apply(x, weight, c10::optional<Tensor>(residual));
  return needs_two_steps(x) ? at::mm(x, weight.t()).add_(residual)
                            : at::addmm(residual, x, weight.t());
}

void multiply_into(at::Tensor y, const at::Tensor& a, const at::Tensor& b) {
  if (takes_gemm(a))
    run_gemm(y, a, b, {});
  else
    at::mm_out(y, a, b);
}

void multiply_onto(at::Tensor y, const at::Tensor& a, const at::Tensor& b) {
  if (takes_gemm(a))
    run_gemm(y, a, b, y.scalar_type() == at::kFloat ? Tensor() : y);
  else if (needs_two_steps(a))
    y.add_(at::mm(a, b));
  else
    y.addmm_(a, b);
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
