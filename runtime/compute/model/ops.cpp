#include "runtime/compute/model/ops.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/compute/kernels/kernels.hpp"
#include "runtime/compute/model/tied_table.hpp"

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

const int32_t* indices(const Tensor& x) { return x.data_ptr<int32_t>(); }

/// Elements of x as the kernels read them: float, or uint16_t for bf16.
template <class T>
T* elements(const Tensor& x) {
  return x.defined() ? static_cast<T*>(x.data_ptr()) : nullptr;
}
float* floats(const Tensor& x) { return elements<float>(x); }

/// Calls body(zero of the kernels' element type of x).
template <class Body>
void by_element(const Tensor& x, Body body) {
  if (x.scalar_type() == at::kBFloat16)
    body(uint16_t{});
  else
    body(float{});
}

Tensor empty_floats(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().dtype(at::kFloat));
}

/// Sums of f32 as a gradient of x's dtype.
Tensor as_gradient(const Tensor& sums, const Tensor& x) { return sums.to(x.scalar_type()); }

void put_row(const std::vector<float>& sum, float* to) { std::ranges::copy(sum, to); }
void put_row(const std::vector<float>& sum, uint16_t* to) {
  cpu::kernels().narrow(sum.data(), to, static_cast<int64_t>(sum.size()));
}

/// to += row in T's arithmetic: a sum is rounded before it is added, as two gradients of T are.
template <class T>
void add_row(std::vector<float>& sum, std::vector<T>& rounded, T* to) {
  const auto columns = static_cast<int64_t>(sum.size());
  put_row(sum, rounded.data());
  std::ranges::fill(sum, 0.0F);
  cpu::kernels().rows<T>().add(sum.data(), to, columns);
  cpu::kernels().rows<T>().add(sum.data(), rounded.data(), columns);
  put_row(sum, to);
}

/// Rows of x [N, columns] by index. Gradients of one row are summed in f32, in order, and rounded
/// once.
template <class Index, bool k_is_once>
struct FusedRows : Function<FusedRows<Index, k_is_once>> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& index,
                        const TiedGradientRef& tied) {
    Tensor x = x_in.contiguous(), y = at::empty({index.size(0), x.size(1)}, x.options());
    const int64_t columns = x.size(1);
    const Index* rows = index.data_ptr<Index>();
    by_element(x, [&]<class T>(T) {
      for (int64_t i = 0; i < index.size(0); ++i)
        std::copy_n(elements<T>(x) + rows[i] * columns, columns, elements<T>(y) + i * columns);
    });
    ctx->save_for_backward({index});
    ctx->saved_data["rows"] = x.size(0);
    if (tied) ctx->saved_data["tied"] = c10::IValue::make_capsule(tied);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor index = ctx->get_saved_variables()[0], dy = grads[0].contiguous(), sum;
    if (ctx->saved_data.count("tied") != 0) {
      const auto holder = ctx->saved_data["tied"].toCapsule();
      std::swap(sum, static_cast<TiedGradient*>(holder.get())->of_head);
    }
    const bool is_added = sum.defined();
    if (!is_added) sum = at::zeros({ctx->saved_data["rows"].toInt(), dy.size(1)}, dy.options());
    by_element(dy, [&]<class T>(T) { scatter<T>(dy, index, sum, is_added); });
    return {is_added ? Tensor() : sum, Tensor(), Tensor()};
  }
  template <class T>
  static void scatter(const Tensor& dy, const Tensor& index, const Tensor& dx, bool is_added) {
    const int64_t columns = dy.size(1);
    const Index* rows = index.data_ptr<Index>();
    std::vector<int64_t> order(static_cast<size_t>(index.size(0)));
    std::iota(order.begin(), order.end(), 0);
    if (!k_is_once) std::ranges::stable_sort(order, {}, [&](int64_t i) { return rows[i]; });
    std::vector<float> sum(static_cast<size_t>(columns));
    std::vector<T> rounded(sum.size());
    for (size_t i = 0; i < order.size();) {
      const Index row = rows[order[i]];
      std::ranges::fill(sum, 0.0F);
      for (; i < order.size() && rows[order[i]] == row; ++i)
        cpu::kernels().rows<T>().add(sum.data(), elements<T>(dy) + order[i] * columns, columns);
      T* to = elements<T>(dx) + row * columns;
      if (is_added)
        add_row(sum, rounded, to);
      else
        put_row(sum, to);
    }
  }
};
using FusedEmbedding = FusedRows<int32_t, false>;
using FusedSelectRows = FusedRows<int64_t, true>;

struct FusedRmsNorm : Function<FusedRmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight,
                        double eps) {
    Tensor x = x_in.contiguous(), y = at::empty_like(x), rstd = empty_floats({x.size(0)}, x);
    by_element(x, [&]<class T>(T) {
      cpu::kernels().rows<T>().rms_norm(elements<T>(x), elements<T>(weight), elements<T>(y),
                                        floats(rstd), x.size(0), x.size(1),
                                        static_cast<float>(eps));
    });
    ctx->save_for_backward({x, weight, rstd});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    Tensor dy = grads[0].contiguous(), dx = at::empty_like(x);
    Tensor dweight = empty_floats({x.size(1)}, x).zero_();
    by_element(x, [&]<class T>(T) {
      cpu::kernels().rows<T>().rms_norm_backward(elements<T>(dy), elements<T>(x),
                                                 elements<T>(weight), floats(rstd), elements<T>(dx),
                                                 floats(dweight), x.size(0), x.size(1));
    });
    return {dx, as_gradient(dweight, weight), Tensor()};
  }
};

struct RopeShape {
  int64_t rotated_heads, head_dim;
};

template <class T>
void run_rope(const Tensor& x, const Tensor& bias, const Tensor& y, const Tensor& positions,
              const RopeTable& table, RopeShape shape, bool is_inverse) {
  cpu::RopeArgs<T> args;
  args.x = elements<T>(x);
  args.bias = elements<T>(bias);
  args.y = elements<T>(y);
  args.positions = indices(positions);
  args.cos = floats(table.cos);
  args.sin = floats(table.sin);
  args.rows = x.size(0);
  args.rotated_heads = shape.rotated_heads;
  args.head_dim = shape.head_dim;
  args.plain_heads = x.size(1) / shape.head_dim - shape.rotated_heads;
  args.is_inverse = is_inverse;
  cpu::kernels().rows<T>().rope(args);
}

struct FusedRope : Function<FusedRope> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const OptionalTensor& bias_in,
                        const Tensor& positions, const RopeTable& table, RopeShape shape) {
    Tensor bias = bias_in.value_or(Tensor()), x = x_in.contiguous(), y = at::empty_like(x);
    by_element(x, [&]<class T>(T) { run_rope<T>(x, bias, y, positions, table, shape, false); });
    ctx->save_for_backward({positions, table.cos, table.sin});
    ctx->saved_data["has_bias"] = bias.defined();
    ctx->saved_data["shape"] = std::vector<int64_t>{shape.rotated_heads, shape.head_dim};
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const std::vector<int64_t> sizes = ctx->saved_data["shape"].toIntVector();
    const RopeShape shape{sizes[0], sizes[1]};
    const bool has_bias = ctx->saved_data["has_bias"].toBool();
    Tensor dy = grads[0].contiguous(), dx = at::empty_like(dy), dbias;
    if (has_bias) dbias = empty_floats({dy.size(1)}, dy).zero_();
    by_element(dy, [&]<class T>(T) {
      run_rope<T>(dy, Tensor(), dx, saved[0], {saved[1], saved[2]}, shape, true);
      if (has_bias)
        cpu::kernels().rows<T>().column_sum(elements<T>(dx), floats(dbias), dx.size(0), dx.size(1));
    });
    return {dx, has_bias ? as_gradient(dbias, dy) : dbias, Tensor(), Tensor(), Tensor()};
  }
};

/// x in f32: itself, or its elements widened.
Tensor widened(const Tensor& x) {
  if (!x.defined() || x.scalar_type() == at::kFloat) return x;
  Tensor wide = empty_floats(x.sizes(), x);
  cpu::kernels().widen(elements<uint16_t>(x), floats(wide), x.numel());
  return wide;
}

/// wide in the dtype of `like`: itself, or its elements rounded.
Tensor narrowed(const Tensor& wide, const Tensor& like) {
  if (!wide.defined() || like.scalar_type() == at::kFloat) return wide;
  Tensor x = at::empty(wide.sizes(), like.options());
  cpu::kernels().narrow(floats(wide), elements<uint16_t>(x), wide.numel());
  return x;
}

/// Queries, keys and values of one call: both in one packed tensor, or apart (kv defined).
cpu::AttentionArgs attention_args(const Tensor& q, const Tensor& kv, const AttentionLayout& layout,
                                  const HeadShape& shape) {
  const int64_t q_size = shape.q_heads * shape.head_dim, kv_size = shape.kv_heads * shape.head_dim;
  cpu::AttentionArgs args;
  args.q = floats(q);
  args.q_stride = q.size(1);
  args.k = kv.defined() ? floats(kv) : floats(q) + q_size;
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
    const Tensor given_q = q_in.contiguous(), given_kv = kv_in ? kv_in->contiguous() : Tensor();
    const Tensor q = widened(given_q), kv = widened(given_kv);
    Tensor out = at::empty({q.size(0), shape.q_heads * shape.head_dim}, q.options());
    Tensor lse = at::empty({q.size(0), shape.q_heads}, q.options());
    Tensor scratch =
        at::empty({cpu::attention_scratch_floats(layout.keys_max, shape.head_dim)}, q.options());
    cpu::AttentionArgs args = attention_args(q, kv, layout, shape);
    args.out = floats(out);
    args.lse = floats(lse);
    args.scratch = floats(scratch);
    cpu::kernels().attention(args);
    out = narrowed(out, given_q);
    ctx->save_for_backward(
        {given_q, given_kv, out, lse, layout.cu_q, layout.cu_k, layout.q_position});
    ctx->saved_data["sizes"] = std::vector<int64_t>{layout.keys_max, shape.q_heads, shape.kv_heads,
                                                    shape.head_dim, shape.window};
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const Tensor q = widened(saved[0]), kv = widened(saved[1]), out = widened(saved[2]);
    const Tensor& lse = saved[3];
    const std::vector<int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    const AttentionLayout layout{saved[4], saved[5], saved[6], Tensor(), sizes[0]};
    const HeadShape shape{sizes[1], sizes[2], sizes[3], sizes[4]};
    Tensor dout = widened(grads[0].contiguous()), dq = at::empty_like(q);
    Tensor dkv = kv.defined() ? at::empty_like(kv) : Tensor();
    Tensor scratch =
        at::empty({cpu::attention_scratch_floats(layout.keys_max, shape.head_dim)}, q.options());
    cpu::AttentionArgs args = attention_args(q, kv, layout, shape);
    args.out = floats(out);
    args.lse = floats(lse);
    args.dout = floats(dout);
    args.dq = floats(dq);
    args.dq_stride = q.size(1);
    args.dk = kv.defined() ? floats(dkv) : args.dq + shape.q_heads * shape.head_dim;
    args.dv = args.dk + shape.kv_heads * shape.head_dim;
    args.dkv_stride = args.kv_stride;
    args.scratch = floats(scratch);
    cpu::kernels().attention_backward(args);
    return {narrowed(dq, saved[0]), narrowed(dkv, saved[0]), Tensor(), Tensor()};
  }
};

struct FusedSwiglu : Function<FusedSwiglu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor gate_up = x.contiguous();
    const int64_t n = gate_up.size(1) / 2;
    Tensor y = at::empty({gate_up.size(0), n}, gate_up.options());
    by_element(gate_up, [&]<class T>(T) {
      cpu::kernels().rows<T>().swiglu(elements<T>(gate_up), elements<T>(y), gate_up.size(0), n);
    });
    ctx->save_for_backward({gate_up});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor gate_up = ctx->get_saved_variables()[0], dy = grads[0].contiguous();
    Tensor dx = at::empty_like(gate_up);
    by_element(gate_up, [&]<class T>(T) {
      cpu::kernels().rows<T>().swiglu_backward(elements<T>(dy), elements<T>(gate_up),
                                               elements<T>(dx), dy.size(0), dy.size(1));
    });
    return {dx};
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
  return is_fused_enabled && x.device().is_cpu() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
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
  return embedding(table, ids, TiedGradientRef());  // {} would be at::embedding's padding_idx
}

Tensor embedding(const Tensor& table, const Tensor& ids, const TiedGradientRef& tied) {
  if (is_fused(table)) return FusedEmbedding::apply(table, ids, tied);
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

Tensor select_rows(const Tensor& x, const Tensor& index) {
  if (is_fused(x)) return FusedSelectRows::apply(x, index, TiedGradientRef());
  return x.index_select(0, index);
}

}  // namespace cohort::compute::ops
