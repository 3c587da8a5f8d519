// Log-probabilities of targets from hidden states and the head. Logits are never all in memory:
// blocks of the vocabulary on the CPU where it is large (each row of the head is read once for all
// tokens, and its gradient written once), blocks of tokens elsewhere.
#include <algorithm>
#include <cmath>

#include "runtime/compute/kernels/kernels.hpp"
#include "runtime/compute/model/product.hpp"
#include "runtime/compute/model/tied_table.hpp"

namespace cohort::compute::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

const float* data(const Tensor& x) { return x.data_ptr<float>(); }
float* mutable_data(const Tensor& x) { return x.data_ptr<float>(); }
const int32_t* indices(const Tensor& x) { return x.data_ptr<int32_t>(); }

bool takes_f32_kernels(const Tensor& x) { return is_fused(x) && x.scalar_type() == at::kFloat; }

/// One chunk of rows of token_log_probs; each tensor is f32 or wider and narrow to the chunk.
struct LogProbRows {
  Tensor logits, target, logp, entropy, lse;
};

void row_stats(const LogProbRows& rows) {
  if (takes_f32_kernels(rows.logits)) {
    cpu::kernels().softmax_stats(data(rows.logits), indices(rows.target), mutable_data(rows.logp),
                                 mutable_data(rows.entropy), mutable_data(rows.lse),
                                 rows.logits.size(0), rows.logits.size(1));
    return;
  }
  Tensor lse = at::logsumexp(rows.logits, 1), log_p = rows.logits - lse.unsqueeze(1);
  rows.lse.copy_(lse);
  rows.logp.copy_(log_p.gather(1, rows.target.to(at::kLong).unsqueeze(1)).squeeze(1));
  rows.entropy.copy_(-(log_p.exp() * log_p).sum(1));
}

/// logits become d loss / d logits.
void row_gradients(const LogProbRows& rows, const Tensor& dlogp, const Tensor& dentropy) {
  if (takes_f32_kernels(rows.logits)) {
    cpu::kernels().softmax_stats_backward(mutable_data(rows.logits), indices(rows.target),
                                          data(rows.lse), data(rows.entropy), data(dlogp),
                                          data(dentropy), rows.logits.size(0), rows.logits.size(1));
    return;
  }
  Tensor log_p = rows.logits - rows.lse.unsqueeze(1);
  Tensor gain = dlogp.unsqueeze(1) + dentropy.unsqueeze(1) * (log_p + rows.entropy.unsqueeze(1));
  rows.logits.copy_(-log_p.exp() * gain);
  Tensor target = rows.target.to(at::kLong).unsqueeze(1);
  rows.logits.scatter_add_(1, target, dlogp.unsqueeze(1));
}

/// Calls body(first row, rows, logits of those rows in f32 or wider) for each chunk.
template <class Body>
void for_each_chunk(const Tensor& h, const Tensor& weight, int64_t chunk_rows, Body body) {
  const auto wide = at::promote_types(at::kFloat, h.scalar_type());
  Tensor buffer = at::empty({std::min(chunk_rows, h.size(0)), weight.size(0)}, h.options());
  for (int64_t first = 0; first < h.size(0); first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, h.size(0) - first);
    Tensor logits = buffer.narrow(0, 0, rows);
    multiply_into(logits, h.narrow(0, first, rows), weight.t());
    body(first, rows, logits.to(wide));
  }
}

struct ChunkedLogProbs : Function<ChunkedLogProbs> {
  static variable_list forward(AutogradContext* ctx, const Tensor& h_in, const Tensor& weight,
                               const Tensor& target, int64_t chunk_rows,
                               const TiedGradientRef& tied) {
    Tensor h = h_in.contiguous();
    auto options = h.options().dtype(at::promote_types(at::kFloat, h.scalar_type()));
    Tensor logp = at::empty({h.size(0)}, options), entropy = at::empty({h.size(0)}, options);
    Tensor lse = at::empty({h.size(0)}, options);
    for_each_chunk(h, weight, chunk_rows, [&](int64_t first, int64_t rows, const Tensor& logits) {
      row_stats({logits, target.narrow(0, first, rows), logp.narrow(0, first, rows),
                 entropy.narrow(0, first, rows), lse.narrow(0, first, rows)});
    });
    ctx->save_for_backward({h, weight, target, entropy, lse});
    ctx->saved_data["chunk_rows"] = chunk_rows;
    if (tied) ctx->saved_data["tied"] = c10::IValue::make_capsule(tied);
    return {logp, entropy};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor &h = saved[0], &weight = saved[1], &target = saved[2];
    Tensor dlogp = grads[0].contiguous(), dentropy = grads[1].contiguous();
    const bool is_frozen = !ctx->needs_input_grad(1);  // under an adapter: V * H products less
    Tensor dh = at::empty_like(h), dweight = is_frozen ? Tensor() : at::zeros_like(weight);
    for_each_chunk(h, weight, ctx->saved_data["chunk_rows"].toInt(),
                   [&](int64_t first, int64_t rows, const Tensor& logits) {
                     row_gradients(
                         {logits, target.narrow(0, first, rows), Tensor(),
                          saved[3].narrow(0, first, rows), saved[4].narrow(0, first, rows)},
                         dlogp.narrow(0, first, rows), dentropy.narrow(0, first, rows));
                     Tensor dlogits = logits.to(h.scalar_type());
                     Tensor dh_rows = dh.narrow(0, first, rows);
                     multiply_into(dh_rows, dlogits, weight);
                     if (!is_frozen) multiply_onto(dweight, dlogits.t(), h.narrow(0, first, rows));
                   });
    offer_gradient(ctx, dweight);
    return {dh, dweight, Tensor(), Tensor(), Tensor()};
  }
};

// -- by blocks of the vocabulary

// Columns of a block: the same for any number of rows, so that a row's sums are (KERNEL-1). The
// products run at full speed from some thousand on, and a block of 512 rows stays in the cache.
constexpr int64_t k_block_columns = 8192;

/// Rows of the head, and of what it is applied to, of one product.
struct LogitBlock {
  int64_t first_row, rows, first_column, columns;
};

/// Calls body(block, logits [rows, columns] in h's dtype) for each block, columns innermost. The
/// body may write over the logits.
template <class Body>
void for_each_block(const Tensor& h, const Tensor& weight, int64_t rows_max, Body body) {
  const int64_t rows = std::min(rows_max, h.size(0));
  Tensor buffer = at::empty({rows * k_block_columns}, h.options());
  for (int64_t row = 0; row < h.size(0); row += rows) {
    for (int64_t column = 0; column < weight.size(0); column += k_block_columns) {
      const LogitBlock block{row, std::min(rows, h.size(0) - row), column,
                             std::min(k_block_columns, weight.size(0) - column)};
      Tensor logits =
          buffer.narrow(0, 0, block.rows * block.columns).view({block.rows, block.columns});
      multiply_into(logits, h.narrow(0, row, block.rows),
                    weight.narrow(0, column, block.columns).t());
      body(block, logits);
    }
  }
}

/// Calls body(zero of the kernels' element type of x).
template <class Body>
void by_element(const Tensor& x, Body body) {
  if (x.scalar_type() == at::kBFloat16)
    body(uint16_t{});
  else
    body(float{});
}

template <class T>
cpu::SoftmaxBlock<T> softmax_block(const Tensor& logits, const Tensor& target,
                                   const LogitBlock& at) {
  return {static_cast<const T*>(logits.data_ptr()), at.rows, at.columns, at.first_column,
          indices(target) + at.first_row};
}

struct BlockLogProbs : Function<BlockLogProbs> {
  static variable_list forward(AutogradContext* ctx, const Tensor& h_in, const Tensor& weight,
                               const Tensor& target, int64_t rows_max,
                               const TiedGradientRef& tied) {
    Tensor h = h_in.contiguous();
    const auto options = h.options().dtype(at::kFloat);
    Tensor logp = at::empty({h.size(0)}, options), entropy = at::empty_like(logp);
    Tensor lse = at::empty_like(logp), running = at::zeros({h.size(0), 4}, options);
    for_each_block(h, weight, rows_max, [&](const LogitBlock& at, const Tensor& logits) {
      by_element(h, [&]<class T>(T) {
        cpu::kernels().rows<T>().softmax_block(softmax_block<T>(logits, target, at),
                                               mutable_data(running) + 4 * at.first_row);
      });
    });
    cpu::kernels().softmax_finish(data(running), mutable_data(logp), mutable_data(entropy),
                                  mutable_data(lse), h.size(0));
    ctx->save_for_backward({h, weight, target, entropy, lse});
    ctx->saved_data["rows_max"] = rows_max;
    if (tied) ctx->saved_data["tied"] = c10::IValue::make_capsule(tied);
    return {logp, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor &h = saved[0], &weight = saved[1], &target = saved[2];
    const Tensor dlogp = grads[0].contiguous(), dentropy = grads[1].contiguous();
    const bool is_frozen = !ctx->needs_input_grad(1);  // under an adapter: V * H products less
    Tensor dh = at::zeros(h.sizes(), h.options().dtype(at::kFloat));
    Tensor dweight;  // the first block of rows writes it
    if (!is_frozen) dweight = h.size(0) > 0 ? at::empty_like(weight) : at::zeros_like(weight);
    Tensor part;  // of dh, one block's
    if (!multiplies_wide(h)) part = at::empty_like(h);
    for_each_block(
        h, weight, ctx->saved_data["rows_max"].toInt(),
        [&](const LogitBlock& at, const Tensor& logits) {
          const cpu::SoftmaxRows rows{data(saved[4]) + at.first_row, data(saved[3]) + at.first_row,
                                      data(dlogp) + at.first_row, data(dentropy) + at.first_row};
          by_element(h, [&]<class T>(T) {
            cpu::kernels().rows<T>().softmax_block_backward(
                softmax_block<T>(logits, target, at), rows, static_cast<T*>(logits.data_ptr()));
          });
          add_block(at, logits, weight, part, dh);
          if (is_frozen) return;
          Tensor rows_of_weight = dweight.narrow(0, at.first_column, at.columns);
          const Tensor of_h = h.narrow(0, at.first_row, at.rows);
          if (at.first_row == 0)
            multiply_into(rows_of_weight, logits.t(), of_h);
          else
            multiply_onto(rows_of_weight, logits.t(), of_h);
        });
    offer_gradient(ctx, dweight);
    return {dh.to(h.scalar_type()), dweight, Tensor(), Tensor(), Tensor()};
  }

  /// dh += dlogits W of one block: blocks are summed in f32; a product may be bf16.
  static void add_block(const LogitBlock& at, const Tensor& dlogits, const Tensor& weight,
                        const Tensor& part, const Tensor& dh) {
    const Tensor of_head = weight.narrow(0, at.first_column, at.columns);
    if (multiplies_wide(dlogits))
      return multiply_onto(dh.narrow(0, at.first_row, at.rows), dlogits, of_head);
    Tensor rows = part.narrow(0, at.first_row, at.rows);
    multiply_into(rows, dlogits, of_head);
    const int64_t width = dh.size(1);
    by_element(part, [&]<class T>(T) {
      cpu::kernels().rows<T>().add(mutable_data(dh) + at.first_row * width,
                                   static_cast<const T*>(rows.data_ptr()), at.rows * width);
    });
  }
};

}  // namespace

void offer_gradient(AutogradContext* ctx, const Tensor& dweight) {
  if (ctx->saved_data.count("tied") == 0) return;
  const auto holder = ctx->saved_data["tied"].toCapsule();
  static_cast<TiedGradient*>(holder.get())->of_head = dweight;
}

TokenLogProbs token_log_probs(const Tensor& h, const Tensor& weight, const Tensor& target,
                              int64_t chunk_rows) {
  return token_log_probs(h, weight, target, chunk_rows, {});
}

TokenLogProbs token_log_probs(const Tensor& h, const Tensor& weight, const Tensor& target,
                              int64_t chunk_rows, const TiedGradientRef& tied) {
  const int64_t vocabulary = weight.size(0);
  // as many logits at a time as chunk_rows whole rows
  const int64_t block_rows = chunk_rows * vocabulary / k_block_columns;
  const bool is_by_block = is_fused(h) && vocabulary > k_block_columns;
  auto outputs = is_by_block ? BlockLogProbs::apply(h, weight, target, block_rows, tied)
                             : ChunkedLogProbs::apply(h, weight, target, chunk_rows, tied);
  return {outputs[0], outputs[1]};
}

}  // namespace cohort::compute::ops
