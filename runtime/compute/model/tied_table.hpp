#pragma once
/// The operations of a table that is embedding and head at once: their gradients become one tensor.
/// Otherwise as embedding() and token_log_probs() of ops.hpp. Thread: that of the graph's backward.
#include "runtime/compute/model/ops.hpp"

namespace cohort::compute::ops {

/// The table's gradient during one backward: the head's is complete first, and the embedding adds
/// its rows to it instead of making another [V, H] and a sum of both.
struct TiedGradient : torch::CustomClassHolder {
  at::Tensor of_head;  // [V, H]; undefined before the head's backward and after the embedding's
};
using TiedGradientRef = c10::intrusive_ptr<TiedGradient>;

/// Hands the head's gradient to the embedding's backward, which adds to it in place, if the head's
/// forward has put a TiedGradientRef into saved_data["tied"].
void offer_gradient(torch::autograd::AutogradContext* ctx, const at::Tensor& dweight);

/// REQUIRES for both: is_fused(table), one graph, and the head is applied to what follows from the
/// embedding. A null `tied` gives the operations of ops.hpp.
at::Tensor embedding(const at::Tensor& table, const at::Tensor& ids, const TiedGradientRef& tied);
TokenLogProbs token_log_probs(const at::Tensor& h, const at::Tensor& table,
                              const at::Tensor& target, int64_t chunk_rows,
                              const TiedGradientRef& tied);

}  // namespace cohort::compute::ops
