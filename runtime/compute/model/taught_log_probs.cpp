#include "runtime/compute/model/taught_log_probs.hpp"

#include <algorithm>

#include "runtime/compute/model/product.hpp"

namespace cohort::compute::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Divergence : torch::CustomClassHolder {
  explicit Divergence(LogitDivergence f) : of(std::move(f)) {}
  LogitDivergence of;
};
using DivergenceRef = c10::intrusive_ptr<Divergence>;

/// Of some rows: log-probability of the target and divergence.
variable_list compare(const Tensor& logits, const Tensor& target, const Tensor& of_teacher,
                      const LogitDivergence& divergence) {
  const Tensor index = target.to(at::kLong).unsqueeze(1);
  const Tensor logp = logits.gather(1, index).squeeze(1) - at::logsumexp(logits, 1);
  const int64_t common = std::min(logits.size(1), of_teacher.size(1));
  return {logp, divergence(logits.narrow(1, 0, common), of_teacher.narrow(1, 0, common))};
}

/// Calls body(first row, rows, logits of the student, of the teacher), in f32 or wider.
template <class Body>
void for_each_chunk(const Tensor& h, const Tensor& weight, const TeacherRows& teacher,
                    int64_t chunk_rows, Body body) {
  const auto wide = at::promote_types(at::kFloat, h.scalar_type());
  for (int64_t first = 0; first < h.size(0); first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, h.size(0) - first);
    body(first, rows, at::mm(h.narrow(0, first, rows), weight.t()).to(wide),
         at::mm(teacher.h.narrow(0, first, rows), teacher.head.t()).to(wide));
  }
}

struct Taught : Function<Taught> {
  static variable_list forward(AutogradContext* ctx, const Tensor& h_in, const Tensor& weight,
                               const Tensor& target, const Tensor& teacher_h,
                               const Tensor& teacher_head, const DivergenceRef& divergence,
                               int64_t chunk_rows, const TiedGradientRef& tied) {
    const Tensor h = h_in.contiguous();
    const auto options = h.options().dtype(at::promote_types(at::kFloat, h.scalar_type()));
    Tensor logp = at::empty({h.size(0)}, options), apart = at::empty({h.size(0)}, options);
    for_each_chunk(h, weight, {teacher_h, teacher_head}, chunk_rows,
                   [&](int64_t first, int64_t rows, const Tensor& logits, const Tensor& taught) {
                     const variable_list out =
                         compare(logits, target.narrow(0, first, rows), taught, divergence->of);
                     logp.narrow(0, first, rows).copy_(out[0]);
                     apart.narrow(0, first, rows).copy_(out[1]);
                   });
    ctx->save_for_backward({h, weight, target, teacher_h, teacher_head});
    ctx->saved_data["chunk_rows"] = chunk_rows;
    ctx->saved_data["divergence"] = c10::IValue::make_capsule(divergence);
    if (tied) ctx->saved_data["tied"] = c10::IValue::make_capsule(tied);
    return {logp, apart};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &h = saved[0], &weight = saved[1], &target = saved[2];
    const auto capsule = ctx->saved_data["divergence"].toCapsule();
    const LogitDivergence& divergence = static_cast<Divergence*>(capsule.get())->of;
    const bool is_frozen = !ctx->needs_input_grad(1);  // under an adapter
    Tensor dh = at::empty_like(h), dweight = is_frozen ? Tensor() : at::zeros_like(weight);
    for_each_chunk(h, weight, {saved[3], saved[4]}, ctx->saved_data["chunk_rows"].toInt(),
                   [&](int64_t first, int64_t rows, const Tensor& logits, const Tensor& taught) {
                     const Tensor dlogits =
                         gradient(
                             logits, target.narrow(0, first, rows), taught, divergence,
                             {grads[0].narrow(0, first, rows), grads[1].narrow(0, first, rows)})
                             .to(h.scalar_type());
                     Tensor dh_rows = dh.narrow(0, first, rows);
                     multiply_into(dh_rows, dlogits, weight);
                     if (!is_frozen) multiply_onto(dweight, dlogits.t(), h.narrow(0, first, rows));
                   });
    offer_gradient(ctx, dweight);
    return {dh, dweight, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }

  static Tensor gradient(const Tensor& logits, const Tensor& target, const Tensor& taught,
                         const LogitDivergence& divergence, const variable_list& of_outputs) {
    const at::AutoGradMode grad_on(true);
    const Tensor leaf = logits.detach().requires_grad_(true);
    return torch::autograd::grad(compare(leaf, target, taught, divergence), {leaf}, of_outputs)[0];
  }
};

}  // namespace

TaughtLogProbs taught_log_probs(const Tensor& h, const Tensor& weight, const Tensor& target,
                                const TeacherRows& teacher, const LogitDivergence& divergence,
                                int64_t chunk_rows, const TiedGradientRef& tied) {
  const auto outputs = Taught::apply(h, weight, target, teacher.h, teacher.head,
                                     c10::make_intrusive<Divergence>(divergence), chunk_rows, tied);
  return {outputs[0], outputs[1]};
}

}  // namespace cohort::compute::ops
