#include "runtime/model/tensors.hpp"

#include <algorithm>
#include <utility>

namespace cohort::model {
namespace {

/// Lists the tensors of one shape.
class Builder {
 public:
  explicit Builder(const ModelShape& shape) : shape_(shape) {}

  /// [rows, columns] cut by rows: what a product writes.
  Tensor& rows(Part part, const char* family, std::string name, int64_t rows, int64_t columns,
               int64_t parts) {
    return add(part, Kind::linear, family, std::move(name), rows, columns, Cut::rows, parts);
  }
  /// [hidden, columns] cut by columns: what a product reads. It adds to the residual stream.
  Tensor& residual(Part part, const char* family, std::string name, int64_t columns,
                   int64_t parts) {
    Tensor& tensor = add(part, Kind::residual, family, std::move(name), shape_.hidden_size, columns,
                         Cut::columns, parts);
    tensor.kept = columns;
    return tensor;
  }
  Tensor& bias(Part part, const char* family, std::string name, int64_t rows, int64_t parts) {
    return add(part, Kind::bias, family, std::move(name), rows, 0, Cut::rows, parts);
  }
  Tensor& whole(Part part, Kind kind, const char* family, std::string name, int64_t rows,
                int64_t columns = 0) {
    return add(part, kind, family, std::move(name), rows, columns, Cut::whole, 1);
  }
  /// A norm of the residual stream: a step keeps what it reads and what it writes.
  void norm(Part part, const char* family, std::string name) {
    whole(part, Kind::norm, family, std::move(name), shape_.hidden_size).kept =
        2 * shape_.hidden_size;
  }
  /// Gate and up, cut alike and moved as one, and down. A step keeps gate, act(gate), up and the
  /// product that down reads, for each of the `used` copies of a token.
  void mlp(const std::string& family, const std::string& name, int64_t middle, int64_t experts,
           int64_t used, bool tp_first, bool is_biased = false) {
    const bool is_dense = family == "mlp", is_shared = family == "shared";
    const Part part = is_dense    ? Part::gate_up
                      : is_shared ? Part::shared_gate_up
                                  : Part::expert_gate_up;
    const Part last_part = is_dense    ? Part::down
                           : is_shared ? Part::shared_down
                                       : Part::expert_down;
    const size_t first = tensors_.size();
    const std::string stack = family + ".w13", last = family + ".w2";
    rows(part, stack.c_str(), name + ".gate_proj.weight", middle, shape_.hidden_size, middle).kept =
        2 * middle * used;
    Tensor& up =
        rows(part, stack.c_str(), name + ".up_proj.weight", middle, shape_.hidden_size, middle);
    up.kept = middle * used;
    up.is_joined = up.is_stacked = true;
    if (is_biased) {
      bias(Part::gate_up_bias, "mlp.w13_bias", name + ".gate_proj.bias", middle, middle);
      Tensor& up_bias =
          bias(Part::gate_up_bias, "mlp.w13_bias", name + ".up_proj.bias", middle, middle);
      up_bias.is_joined = up_bias.is_stacked = true;
    }
    residual(last_part, last.c_str(), name + ".down_proj.weight", middle, middle).kept =
        middle * used;
    if (is_biased)
      whole(Part::down_bias, Kind::bias, "mlp.w2_bias", name + ".down_proj.bias",
            shape_.hidden_size);
    for (size_t i = first; i < tensors_.size(); ++i) {
      tensors_[i].experts = experts;
      tensors_[i].tp_first = tp_first;
    }
  }
  void at(Where where) { where_ = where; }
  void layers(int64_t first, int64_t end) {
    where_ = Where::layers;
    first_ = first;
    end_ = end;
  }
  std::vector<Tensor> take() { return std::move(tensors_); }

 private:
  Tensor& add(Part part, Kind kind, const char* family, std::string name, int64_t rows,
              int64_t columns, Cut cut, int64_t parts) {
    const bool is_layer = where_ == Where::layers;
    tensors_.push_back({.part = part,
                        .kind = kind,
                        .family = family,
                        .name = std::move(name),
                        .rows = rows,
                        .columns = columns,
                        .cut = cut,
                        .parts = parts,
                        .where = where_,
                        .first_layer = is_layer ? first_ : 0,
                        .end_layer = is_layer ? end_ : 0});
    return tensors_.back();
  }

  const ModelShape& shape_;
  std::vector<Tensor> tensors_;
  Where where_ = Where::layers;
  int64_t first_ = 0, end_ = 0;
};

void add_output_bias(Builder& to, const ModelShape& x) {
  if (x.attention_output_bias)
    to.whole(Part::o_bias, Kind::bias, "attention.o_bias", "self_attn.o_proj.bias", x.hidden_size);
}

/// A step keeps q, k and v, q and k once more after the rotation, and what o reads.
void add_grouped_attention(Builder& to, const ModelShape& x) {
  const int64_t heads = x.num_attention_heads, kv_heads = x.num_key_value_heads;
  const auto joined = [](Tensor& tensor) -> Tensor& {
    tensor.may_repeat = tensor.is_joined = true;
    return tensor;
  };
  const int64_t q_rows = x.q_size() * (x.attention_gate ? 2 : 1);
  to.rows(Part::qkv, "attention.q", "self_attn.q_proj.weight", q_rows, x.hidden_size, heads).kept =
      q_rows + x.q_size();
  joined(to.rows(Part::qkv, "attention.k", "self_attn.k_proj.weight", x.kv_size(), x.hidden_size,
                 kv_heads))
      .kept = 2 * x.kv_size();
  joined(to.rows(Part::qkv, "attention.v", "self_attn.v_proj.weight", x.kv_size(), x.hidden_size,
                 kv_heads))
      .kept = x.kv_size();
  if (x.attention_bias) {
    to.bias(Part::qkv_bias, "attention.q_bias", "self_attn.q_proj.bias", x.q_size(), heads);
    joined(to.bias(Part::qkv_bias, "attention.k_bias", "self_attn.k_proj.bias", x.kv_size(),
                   kv_heads));
    joined(to.bias(Part::qkv_bias, "attention.v_bias", "self_attn.v_proj.bias", x.kv_size(),
                   kv_heads));
  }
  if (x.qk_norm) {  // what they read and write is not counted as kept
    to.whole(Part::q_norm, Kind::norm, "attention.q_norm", "self_attn.q_norm.weight", x.head_dim);
    to.whole(Part::k_norm, Kind::norm, "attention.k_norm", "self_attn.k_norm.weight", x.head_dim);
  }
  to.residual(Part::o, "attention.o", "self_attn.o_proj.weight", x.q_size(), heads).tp_first = true;
  add_output_bias(to, x);
}

/// A step keeps the latents before and after their norms, q, k and v of all heads (q and k once
/// more, assembled and rotated), and what o reads.
void add_latent_attention(Builder& to, const ModelShape& x) {
  const MlaShape& mla = *x.mla;
  const int64_t heads = x.num_attention_heads, h = x.hidden_size;
  const int64_t qk = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  const int64_t kv = heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  if (mla.q_lora_rank > 0) {
    to.whole(Part::q_a, Kind::linear, "attention.q_a", "self_attn.q_a_proj.weight", mla.q_lora_rank,
             h)
        .kept = mla.q_lora_rank;
    if (x.attention_bias)
      to.whole(Part::q_a_bias, Kind::bias, "attention.q_a_bias", "self_attn.q_a_proj.bias",
               mla.q_lora_rank);
    to.whole(Part::q_a_norm, Kind::norm, "attention.q_a_norm", "self_attn.q_a_layernorm.weight",
             mla.q_lora_rank)
        .kept = mla.q_lora_rank;
    Tensor& q = to.rows(Part::q_b, "attention.q_b", "self_attn.q_b_proj.weight", qk,
                        mla.q_lora_rank, heads);
    q.kept = 2 * qk;
    q.tp_first = true;
  } else {
    to.rows(Part::q_full, "attention.q", "self_attn.q_proj.weight", qk, h, heads).kept = 2 * qk;
  }
  to.whole(Part::kv_a, Kind::linear, "attention.kv_a", "self_attn.kv_a_proj_with_mqa.weight",
           mla.kv_lora_rank + mla.qk_rope_head_dim, h)
      .kept = mla.kv_lora_rank + mla.qk_rope_head_dim;
  if (x.attention_bias)
    to.whole(Part::kv_a_bias, Kind::bias, "attention.kv_a_bias",
             "self_attn.kv_a_proj_with_mqa.bias", mla.kv_lora_rank + mla.qk_rope_head_dim);
  to.whole(Part::kv_a_norm, Kind::norm, "attention.kv_a_norm", "self_attn.kv_a_layernorm.weight",
           mla.kv_lora_rank)
      .kept = mla.kv_lora_rank;
  Tensor& kv_b = to.rows(Part::kv_b, "attention.kv_b", "self_attn.kv_b_proj.weight", kv,
                         mla.kv_lora_rank, heads);
  kv_b.kept = kv + qk;
  kv_b.tp_first = true;
  to.residual(Part::o, "attention.o", "self_attn.o_proj.weight", heads * mla.v_head_dim, heads)
      .tp_first = true;
  add_output_bias(to, x);
}

/// Names are Qwen3-Next's; Qwen3.5 stores the same rows as four matrices. A step keeps q, k, v and
/// gate, q, k and v once more behind the convolution, and what o reads.
void add_delta_net(Builder& to, const ModelShape& x) {
  const DeltaShape& d = *x.delta;
  const int64_t mixed = 2 * d.key_size() + d.value_size();
  to.rows(Part::delta_in, "delta.qkvz", "linear_attn.in_proj_qkvz.weight", mixed + d.value_size(),
          x.hidden_size, d.key_heads)
      .kept = 2 * mixed + d.value_size();
  to.rows(Part::delta_in, "delta.ba", "linear_attn.in_proj_ba.weight", 2 * d.value_heads,
          x.hidden_size, d.key_heads)
      .is_joined = true;
  to.rows(Part::delta_conv, "delta.conv", "linear_attn.conv1d.weight", mixed, d.conv_kernel,
          d.key_heads)
      .kind = Kind::router;  // no linear layer: "all-linear" adapts none of it
  to.bias(Part::delta_decay, "delta.dt_bias", "linear_attn.dt_bias", d.value_heads, d.key_heads);
  to.bias(Part::delta_decay, "delta.a_log", "linear_attn.A_log", d.value_heads, d.key_heads);
  to.whole(Part::delta_norm, Kind::norm, "delta.norm", "linear_attn.norm.weight", d.value_head_dim);
  to.residual(Part::o, "delta.o", "linear_attn.out_proj.weight", d.value_size(), d.key_heads)
      .tp_first = true;
}

/// Runs of layers of one kind: attention, or gated delta nets.
void add_mixers(Builder& to, const ModelShape& x) {
  for (int64_t first = 0, end = 0; first < x.num_hidden_layers; first = end) {
    const bool is_delta = x.delta && x.delta->is_in(first);
    for (end = first + 1; end < x.num_hidden_layers; ++end)
      if ((x.delta && x.delta->is_in(end)) != is_delta) break;
    to.layers(first, end);
    if (is_delta)
      add_delta_net(to, x);
    else if (x.mla)
      add_latent_attention(to, x);
    else
      add_grouped_attention(to, x);
  }
  to.layers(0, x.num_hidden_layers);
}

void add_experts(Builder& to, const ModelShape& x) {
  const MoeShape& moe = *x.moe;
  // Each token's copies for its experts, and what they return; balanced routing.
  to.whole(Part::router, Kind::router, "router", "mlp.gate.weight", moe.num_experts, x.hidden_size)
      .kept = 2 * moe.experts_per_token * x.hidden_size;
  if (moe.router_bias)
    to.whole(Part::router_bias, Kind::bias, "router_bias", "mlp.gate.e_score_correction_bias",
             moe.num_experts);
  to.mlp("experts", "mlp.experts.{}", moe.moe_intermediate_size, moe.num_experts,
         moe.experts_per_token, false);
  if (moe.shared_intermediate_size > 0)
    to.mlp("shared", moe.shared_gate ? "mlp.shared_expert" : "mlp.shared_experts",
           moe.shared_intermediate_size, 0, 1, true);
  if (moe.shared_gate)
    to.whole(Part::shared_gate, Kind::router, "shared_gate", "mlp.shared_expert_gate.weight", 1,
             x.hidden_size);
}

void add_head(Builder& to, const ModelShape& x, HeadKind head) {
  if (head == HeadKind::value)
    to.whole(Part::head, Kind::score, "value_head", "score.weight", 1, x.hidden_size);
  else if (!x.tie_word_embeddings)
    to.rows(Part::head, "head", "lm_head.weight", x.vocab_size, x.hidden_size, x.vocab_size).kind =
        Kind::table;
}

}  // namespace

std::vector<Tensor> tensors_of(const ModelShape& x, HeadKind head) {
  Builder to(x);
  const bool is_tied = x.tie_word_embeddings && head == HeadKind::language;
  to.at(is_tied ? Where::both_ends : Where::first_stage);
  to.rows(Part::embedding, "embedding", "model.embed_tokens.weight", x.vocab_size, x.hidden_size,
          x.vocab_size)
      .kind = Kind::table;
  to.layers(0, x.num_hidden_layers);
  to.norm(Part::input_norm, "attention_norm", "input_layernorm.weight");
  add_mixers(to, x);
  to.norm(Part::post_norm, "mlp_norm", "post_attention_layernorm.weight");
  // Runs of layers of one kind: dense ones, and those with experts.
  for (int64_t first = 0, end = 0; first < x.num_hidden_layers; first = end) {
    const bool has_experts = x.moe && x.moe->is_in(first);
    for (end = first + 1; end < x.num_hidden_layers; ++end)
      if ((x.moe && x.moe->is_in(end)) != has_experts) break;
    to.layers(first, end);
    if (has_experts)
      add_experts(to, x);
    else
      to.mlp("mlp", "mlp", x.intermediate_size, 0, 1, false, x.mlp_bias);
  }
  to.at(Where::last_stage);
  to.whole(Part::final_norm, Kind::norm, "final_norm", "model.norm.weight", x.hidden_size);
  add_head(to, x, head);
  return to.take();
}

std::string tensor_name(const Tensor& tensor, int64_t layer, int64_t expert) {
  std::string name = tensor.name;
  if (size_t hole = name.find("{}"); hole != name.npos)
    name.replace(hole, 2, std::to_string(expert));
  if (tensor.where != Where::layers) return name;
  return "model.layers." + std::to_string(layer) + "." + name;
}

uint64_t parameter_count(const ModelShape& shape) {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_of(shape)) {
    const int64_t layers =
        tensor.where == Where::layers ? tensor.end_layer - tensor.first_layer : 1;
    const int64_t count = layers * std::max<int64_t>(tensor.experts, 1);
    sum += static_cast<uint64_t>(tensor.elements()) * static_cast<uint64_t>(count);
  }
  return sum;
}

}  // namespace cohort::model
