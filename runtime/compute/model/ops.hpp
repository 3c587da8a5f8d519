#pragma once
/// The operations a policy is made of, on packed sequences: N tokens of S sequences one after the
/// other, no padding. Each is differentiable. f32 and bf16 tensors on the CPU run kernels.hpp's, in
/// f32, rounding a result once; other devices and dtypes run an ATen composition of the same
/// function (is_fused() tells which). Pure functions on tensors, callable from any thread; errors
/// are c10::Error exceptions, which the engines turn into Errc::compute.
#include <cstdint>

#include "runtime/model/rope.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute::ops {

/// Where queries and keys lie. Built once per micro-batch, shared by all layers.
/// cu_q, cu_k: [S + 1] i32; q_position, k_position: [rows] i32 position of a row in its sequence,
/// ascending.
struct AttentionLayout {
  at::Tensor cu_q, cu_k;              // [S + 1] i32
  at::Tensor q_position, k_position;  // [queries], [keys] i32
  int64_t keys_max = 0;               // [tokens] longest sequence
};

struct HeadShape {
  int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // [tokens] keys that a query sees, its own included; 0: all before it
};

/// cos and sin [max_position, head_dim / 2] f32 (model::rope_angles).
struct RopeTable {
  at::Tensor cos, sin;
};
RopeTable rope_table(int64_t max_position, int64_t head_dim, const model::RopeShape& rope);

/// Returns whether `x` takes the hand-written kernels. set_fused(false) forces the composition in
/// this thread (tests compare both).
bool is_fused(const at::Tensor& x);
void set_fused(bool is_enabled);

/// Returns table[ids]. table: [V, H], ids: [N] i32. The gradient is summed in row order.
at::Tensor embedding(const at::Tensor& table, const at::Tensor& ids);

/// Returns x * weight / sqrt(mean(x^2) + eps) over the last dimension. x: [N, H], weight: [H].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// Returns (x + bias) with each head of `weight`'s width normed by itself: the first q_heads by
/// q_norm, the next kv_heads by k_norm, the others as they are. x: [N, heads * head_dim]; bias:
/// [heads * head_dim] or undefined; q_norm, k_norm: [head_dim].
at::Tensor head_norm(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& q_norm,
                     int64_t q_heads, const at::Tensor& k_norm, int64_t kv_heads, double eps);

/// Returns R(position) (x + bias) for the first `rotated_heads` heads of each row, x + bias for the
/// others. x: [N, heads * head_dim]; bias: [heads * head_dim] or undefined; positions: [N] i32.
at::Tensor rope(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& positions,
                const RopeTable& table, int64_t rotated_heads, int64_t head_dim);

/// Causal attention of every row of the packed qkv [N, (q + 2 kv) heads * head_dim] -> [N, q heads
/// * head_dim].
at::Tensor attention(const at::Tensor& qkv, const AttentionLayout& layout, const HeadShape& shape);

/// The same for a subset of queries q [M, q heads * head_dim] against kv [N, 2 kv heads *
/// head_dim].
at::Tensor attention(const at::Tensor& q, const at::Tensor& kv, const AttentionLayout& layout,
                     const HeadShape& shape);

/// Returns silu(gate) * up. gate_up: [N, 2 F] -> [N, F].
at::Tensor swiglu(const at::Tensor& gate_up);

struct TokenLogProbs {
  at::Tensor logp;     // [M] f32 log softmax(h W^T)[target]
  at::Tensor entropy;  // [M] f32 entropy of softmax(h W^T), in nats
};

/// h: [M, H], weight: [V, H], target: [M] i32. As many logits exist at a time as chunk_rows rows
/// have; the forward keeps their log-sum-exp, the backward computes them again.
TokenLogProbs token_log_probs(const at::Tensor& h, const at::Tensor& weight,
                              const at::Tensor& target, int64_t chunk_rows);

/// Returns rows x[index]. x: [N, H], index: [M] i64, strictly ascending.
at::Tensor select_rows(const at::Tensor& x, const at::Tensor& index);

}  // namespace cohort::compute::ops
