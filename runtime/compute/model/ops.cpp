#include "runtime/compute/model/ops.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/compute/kernels/kernels.hpp"

namespace cohort::compute::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// What autograd takes as an input that may be absent.
using OptionalTensor = c10::optional<Tensor>;
OptionalTensor if_defined(const Tensor& x) {
  return x.defined() ? OptionalTensor(x) : c10::nullopt;
}

thread_local bool is_fused_enabled = true;

const float* data(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }
float* mutable_data(const Tensor& x) { return x.data_ptr<float>(); }
const int32_t* indices(const Tensor& x) { return x.data_ptr<int32_t>(); }

/// Rows of x [N, columns] by index. Rows that come once are copied back, others are added in order.
template <class Index, bool k_is_once>
struct FusedRows : Function<FusedRows<Index, k_is_once>> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& index) {
    Tensor x = x_in.contiguous(), y = at::empty({index.size(0), x.size(1)}, x.options());
    const int64_t columns = x.size(1);
    const Index* rows = index.data_ptr<Index>();
    for (int64_t i = 0; i < index.size(0); ++i)
      std::copy_n(data(x) + rows[i] * columns, columns, mutable_data(y) + i * columns);
    ctx->save_for_backward({index});
    ctx->saved_data["rows"] = x.size(0);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor index = ctx->get_saved_variables()[0], dy = grads[0].contiguous();
    const int64_t columns = dy.size(1);
    const Index* rows = index.data_ptr<Index>();
    Tensor dx = at::zeros({ctx->saved_data["rows"].toInt(), columns}, dy.options());
    for (int64_t i = 0; i < index.size(0); ++i) {
      float* to = mutable_data(dx) + rows[i] * columns;
      if constexpr (k_is_once)
        std::copy_n(data(dy) + i * columns, columns, to);
      else
        cpu::kernels().add(to, data(dy) + i * columns, columns);
    }
    return {dx, Tensor()};
  }
};
using FusedEmbedding = FusedRows<int32_t, false>;
using FusedSelectRows = FusedRows<int64_t, true>;

struct FusedRmsNorm : Function<FusedRmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight,
                        double eps) {
    Tensor x = x_in.contiguous(), y = at::empty_like(x), rstd = at::empty({x.size(0)}, x.options());
    cpu::kernels().rms_norm(data(x), data(weight), mutable_data(y), mutable_data(rstd), x.size(0),
                            x.size(1), static_cast<float>(eps));
    ctx->save_for_backward({x, weight, rstd});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    Tensor dy = grads[0].contiguous(), dx = at::empty_like(x), dweight = at::zeros_like(weight);
    cpu::kernels().rms_norm_backward(data(dy), data(x), data(weight), data(rstd), mutable_data(dx),
                                     mutable_data(dweight), x.size(0), x.size(1));
    return {dx, dweight, Tensor()};
  }
};

struct RopeShape {
  int64_t rotated_heads, head_dim;
};

void run_rope(const Tensor& x, const Tensor& bias, const Tensor& y, const Tensor& positions,
              const RopeTable& table, RopeShape shape, bool is_inverse) {
  cpu::RopeArgs args;
  args.x = data(x);
  args.bias = data(bias);
  args.y = mutable_data(y);
  args.positions = indices(positions);
  args.cos = data(table.cos);
  args.sin = data(table.sin);
  args.rows = x.size(0);
  args.rotated_heads = shape.rotated_heads;
  args.head_dim = shape.head_dim;
  args.plain_heads = x.size(1) / shape.head_dim - shape.rotated_heads;
  args.is_inverse = is_inverse;
  cpu::kernels().rope(args);
}

struct FusedRope : Function<FusedRope> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const OptionalTensor& bias_in,
                        const Tensor& positions, const RopeTable& table, RopeShape shape) {
    Tensor bias = bias_in.value_or(Tensor()), x = x_in.contiguous(), y = at::empty_like(x);
    run_rope(x, bias, y, positions, table, shape, false);
    ctx->save_for_backward({positions, table.cos, table.sin});
    ctx->saved_data["has_bias"] = bias.defined();
    ctx->saved_data["shape"] = std::vector<int64_t>{shape.rotated_heads, shape.head_dim};
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const std::vector<int64_t> sizes = ctx->saved_data["shape"].toIntVector();
    const RopeShape shape{sizes[0], sizes[1]};
    Tensor dy = grads[0].contiguous(), dx = at::empty_like(dy), dbias;
    run_rope(dy, Tensor(), dx, saved[0], {saved[1], saved[2]}, shape, true);
    if (ctx->saved_data["has_bias"].toBool()) {
      dbias = at::zeros({dy.size(1)}, dy.options());
      cpu::kernels().column_sum(data(dx), mutable_data(dbias), dx.size(0), dx.size(1));
    }
    return {dx, dbias, Tensor(), Tensor(), Tensor()};
  }
};

/// Queries, keys and values of one call: both in one packed tensor, or apart (kv defined).
cpu::AttentionArgs attention_args(const Tensor& q, const Tensor& kv, const AttentionLayout& layout,
                                  const HeadShape& shape) {
  const int64_t q_size = shape.q_heads * shape.head_dim, kv_size = shape.kv_heads * shape.head_dim;
  cpu::AttentionArgs args;
  args.q = data(q);
  args.q_stride = q.size(1);
  args.k = kv.defined() ? data(kv) : data(q) + q_size;
  args.v = args.k + kv_size;
  args.kv_stride = kv.defined() ? kv.size(1) : q.size(1);
  args.cu_q = indices(layout.cu_q);
  args.cu_k = indices(layout.cu_k);
  args.q_position = indices(layout.q_position);
  args.sequences = layout.cu_q.size(0) - 1;
  args.q_heads = shape.q_heads;
  args.kv_heads = shape.kv_heads;
  args.head_dim = shape.head_dim;
  args.window = shape.window;
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return args;
}

struct FusedAttention : Function<FusedAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const OptionalTensor& kv_in,
                        const AttentionLayout& layout, const HeadShape& shape) {
    Tensor q = q_in.contiguous(), kv = kv_in ? kv_in->contiguous() : Tensor();
    Tensor out = at::empty({q.size(0), shape.q_heads * shape.head_dim}, q.options());
    Tensor lse = at::empty({q.size(0), shape.q_heads}, q.options());
    Tensor scratch =
        at::empty({cpu::attention_scratch_floats(layout.keys_max, shape.head_dim)}, q.options());
    cpu::AttentionArgs args = attention_args(q, kv, layout, shape);
    args.out = mutable_data(out);
    args.lse = mutable_data(lse);
    args.scratch = mutable_data(scratch);
    cpu::kernels().attention(args);
    ctx->save_for_backward({q, kv, out, lse, layout.cu_q, layout.cu_k, layout.q_position});
    ctx->saved_data["sizes"] = std::vector<int64_t>{layout.keys_max, shape.q_heads, shape.kv_heads,
                                                    shape.head_dim, shape.window};
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &kv = saved[1], &out = saved[2], &lse = saved[3];
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    const AttentionLayout layout{saved[4], saved[5], saved[6], Tensor(), sizes[0]};
    const HeadShape shape{sizes[1], sizes[2], sizes[3], sizes[4]};
    Tensor dout = grads[0].contiguous(), dq = at::empty_like(q);
    Tensor dkv = kv.defined() ? at::empty_like(kv) : Tensor();
    Tensor scratch =
        at::empty({cpu::attention_scratch_floats(layout.keys_max, shape.head_dim)}, q.options());
    cpu::AttentionArgs args = attention_args(q, kv, layout, shape);
    args.out = mutable_data(out);
    args.lse = mutable_data(lse);
    args.dout = data(dout);
    args.dq = mutable_data(dq);
    args.dq_stride = q.size(1);
    args.dk = kv.defined() ? mutable_data(dkv) : args.dq + shape.q_heads * shape.head_dim;
    args.dv = args.dk + shape.kv_heads * shape.head_dim;
    args.dkv_stride = args.kv_stride;
    args.scratch = mutable_data(scratch);
    cpu::kernels().attention_backward(args);
    return {dq, dkv, Tensor(), Tensor()};
  }
};

struct FusedSwiglu : Function<FusedSwiglu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor gate_up = x.contiguous();
    const int64_t n = gate_up.size(1) / 2;
    Tensor y = at::empty({gate_up.size(0), n}, gate_up.options());
    cpu::kernels().swiglu(data(gate_up), mutable_data(y), gate_up.size(0), n);
    ctx->save_for_backward({gate_up});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor gate_up = ctx->get_saved_variables()[0], dy = grads[0].contiguous();
    Tensor dx = at::empty_like(gate_up);
    cpu::kernels().swiglu_backward(data(dy), data(gate_up), mutable_data(dx), dy.size(0),
                                   dy.size(1));
    return {dx};
  }
};

/// One chunk of rows of token_log_probs; each tensor is f32 or wider and narrow to the chunk.
struct LogProbRows {
  Tensor logits, target, logp, entropy, lse;
};

void row_stats(const LogProbRows& rows) {
  if (is_fused(rows.logits)) {
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
  if (is_fused(rows.logits)) {
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
    at::mm_out(logits, h.narrow(0, first, rows), weight.t());
    body(first, rows, logits.to(wide));
  }
}

struct ChunkedLogProbs : Function<ChunkedLogProbs> {
  static variable_list forward(AutogradContext* ctx, const Tensor& h_in, const Tensor& weight,
                               const Tensor& target, int64_t chunk_rows) {
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
                     at::mm_out(dh_rows, dlogits, weight);
                     if (!is_frozen) dweight.addmm_(dlogits.t(), h.narrow(0, first, rows));
                   });
    return {dh, dweight, Tensor(), Tensor()};
  }
};

Tensor rope_composed(const Tensor& x, const Tensor& bias, const Tensor& positions,
                     const RopeTable& table, int64_t rotated_heads, int64_t head_dim) {
  Tensor at_heads = (bias.defined() ? x + bias : x).view({x.size(0), -1, head_dim});
  Tensor rotated = at_heads.narrow(1, 0, rotated_heads);
  Tensor plain = at_heads.narrow(1, rotated_heads, at_heads.size(1) - rotated_heads);
  Tensor at_position = positions.to(at::kLong);
  Tensor cos = table.cos.index_select(0, at_position).unsqueeze(1).to(x.scalar_type());
  Tensor sin = table.sin.index_select(0, at_position).unsqueeze(1).to(x.scalar_type());
  Tensor low = rotated.narrow(2, 0, head_dim / 2);
  Tensor high = rotated.narrow(2, head_dim / 2, head_dim / 2);
  Tensor turned = at::cat({low * cos - high * sin, high * cos + low * sin}, 2);
  return at::cat({turned, plain}, 1).reshape(x.sizes());
}

Tensor attention_composed(const Tensor& q, const Tensor& kv, const AttentionLayout& layout,
                          const HeadShape& shape) {
  const int64_t group = shape.q_heads / shape.kv_heads;
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  Tensor cu_q = layout.cu_q.cpu(), cu_k = layout.cu_k.cpu();
  std::vector<Tensor> outputs;
  for (int64_t s = 0; s + 1 < cu_q.size(0); ++s) {
    const int64_t q_begin = indices(cu_q)[s], queries = indices(cu_q)[s + 1] - q_begin;
    const int64_t k_begin = indices(cu_k)[s], keys = indices(cu_k)[s + 1] - k_begin;
    if (queries == 0) continue;
    Tensor heads_q = q.narrow(0, q_begin, queries).view({queries, shape.q_heads, shape.head_dim});
    Tensor heads_kv = kv.narrow(0, k_begin, keys).view({keys, 2, shape.kv_heads, shape.head_dim});
    Tensor k = heads_kv.select(1, 0).repeat_interleave(group, 1).permute({1, 2, 0});  // [h, d, T]
    Tensor v = heads_kv.select(1, 1).repeat_interleave(group, 1).transpose(0, 1);     // [h, T, d]
    Tensor scores = at::matmul(heads_q.transpose(0, 1) * scale, k)
                        .to(at::promote_types(at::kFloat, q.scalar_type()));
    Tensor key_index = at::arange(keys, layout.q_position.options());
    Tensor position = layout.q_position.narrow(0, q_begin, queries).unsqueeze(1);
    Tensor is_hidden = key_index.unsqueeze(0) > position;
    if (shape.window > 0)
      is_hidden = is_hidden.logical_or(key_index.unsqueeze(0) <= position - shape.window);
    Tensor p = at::softmax(scores.masked_fill(is_hidden, -INFINITY), -1).to(q.scalar_type());
    outputs.push_back(at::matmul(p, v).transpose(0, 1).reshape({queries, -1}));
  }
  return at::cat(outputs, 0);
}

}  // namespace

bool is_fused(const Tensor& x) {
  return is_fused_enabled && x.device().is_cpu() && x.scalar_type() == at::kFloat;
}

void set_fused(bool is_enabled) { is_fused_enabled = is_enabled; }

RopeTable rope_table(int64_t max_position, int64_t head_dim, const model::RopeShape& rope) {
  const model::RopeAngles angles = model::rope_angles(rope, head_dim, max_position);
  const auto tensor = [&](const std::vector<float>& values) {
    return at::tensor(values, at::kFloat).view({max_position, head_dim / 2});
  };
  return {tensor(angles.cos), tensor(angles.sin)};
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  if (is_fused(table)) return FusedEmbedding::apply(table, ids);
  return at::embedding(table, ids.to(at::kLong));
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (is_fused(x)) return FusedRmsNorm::apply(x, weight, eps);
  Tensor wide = x.to(at::promote_types(at::kFloat, x.scalar_type()));
  Tensor scaled = wide * at::rsqrt(wide.square().mean(-1, true) + eps);
  return scaled.to(x.scalar_type()) * weight;
}

Tensor head_norm(const Tensor& x, const Tensor& bias, const Tensor& q_norm, int64_t q_heads,
                 const Tensor& k_norm, int64_t kv_heads, double eps) {
  const Tensor biased = bias.defined() ? x + bias : x;
  const int64_t rows = x.size(0);
  std::vector<Tensor> parts;
  int64_t begin = 0;
  const auto part = [&](int64_t columns) {
    Tensor at = biased.narrow(1, begin, columns);
    begin += columns;
    return at;
  };
  for (auto [weight, heads] : {std::pair{&q_norm, q_heads}, std::pair{&k_norm, kv_heads}}) {
    if (heads == 0) continue;
    const int64_t dim = weight->size(0);
    parts.push_back(
        rms_norm(part(heads * dim).reshape({rows * heads, dim}), *weight, eps).view({rows, -1}));
  }
  if (begin < x.size(1)) parts.push_back(part(x.size(1) - begin));
  return at::cat(parts, 1);
}

Tensor rope(const Tensor& x, const Tensor& bias, const Tensor& positions, const RopeTable& table,
            int64_t rotated_heads, int64_t head_dim) {
  if (is_fused(x))
    return FusedRope::apply(x, if_defined(bias), positions, table,
                            RopeShape{rotated_heads, head_dim});
  return rope_composed(x, bias, positions, table, rotated_heads, head_dim);
}

Tensor attention(const Tensor& qkv, const AttentionLayout& layout, const HeadShape& shape) {
  const int64_t q_size = shape.q_heads * shape.head_dim;
  if (is_fused(qkv) && shape.head_dim % 16 == 0)
    return FusedAttention::apply(qkv, OptionalTensor(), layout, shape);
  return attention_composed(qkv.narrow(1, 0, q_size).contiguous(),
                            qkv.narrow(1, q_size, qkv.size(1) - q_size).contiguous(), layout,
                            shape);
}

Tensor attention(const Tensor& q, const Tensor& kv, const AttentionLayout& layout,
                 const HeadShape& shape) {
  if (is_fused(q) && shape.head_dim % 16 == 0)
    return FusedAttention::apply(q, OptionalTensor(kv), layout, shape);
  return attention_composed(q, kv, layout, shape);
}

Tensor swiglu(const Tensor& gate_up) {
  if (is_fused(gate_up)) return FusedSwiglu::apply(gate_up);
  const int64_t n = gate_up.size(1) / 2;
  return at::silu(gate_up.narrow(1, 0, n)) * gate_up.narrow(1, n, n);
}

TokenLogProbs token_log_probs(const Tensor& h, const Tensor& weight, const Tensor& target,
                              int64_t chunk_rows) {
  auto outputs = ChunkedLogProbs::apply(h, weight, target, chunk_rows);
  return {outputs[0], outputs[1]};
}

Tensor select_rows(const Tensor& x, const Tensor& index) {
  if (is_fused(x)) return FusedSelectRows::apply(x, index);
  return x.index_select(0, index);
}

}  // namespace cohort::compute::ops
