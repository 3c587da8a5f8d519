#include "runtime/plan/estimate/model_shape.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

namespace cohort::plan {
namespace {

__extension__ using Wide = unsigned __int128;
using Kind = TensorSpec::Kind;
using Where = TensorSpec::Where;

/// Lists the families of one shape. Extents of a matrix are those of the flat [out, in] weight.
class Families {
 public:
  explicit Families(const ModelShape& shape) : shape_(shape) {}

  /// [rows, columns] cut by rows: what a product writes.
  ShapeTensor& rows(std::string name, uint64_t rows, uint64_t columns, uint64_t parts) {
    return add(std::move(name), Kind::split, 1, rows, columns, parts);
  }
  /// [rows, columns] cut by columns: what a product reads.
  ShapeTensor& columns(std::string name, uint64_t rows, uint64_t columns, uint64_t parts) {
    return add(std::move(name), Kind::split, rows, columns, 1, parts);
  }
  ShapeTensor& whole(std::string name, uint64_t elements) {
    return add(std::move(name), Kind::replicated, 1, 1, elements, 1);
  }
  /// The same for experts: w13 is two matrices of `middle` rows, cut alike.
  void gate_up_down(const std::string& name, uint64_t middle, uint64_t experts, bool tp_first) {
    Kind kind = experts > 0 ? Kind::expert : Kind::split;
    uint64_t hidden = shape_.hidden_size;
    add(name + ".w13", kind, 2, middle, hidden, middle);
    add(name + ".w2", kind, hidden, middle, 1, middle);
    for (size_t i = tensors_.size() - 2; i < tensors_.size(); ++i) {
      tensors_[i].spec.experts = static_cast<uint32_t>(experts);
      tensors_[i].spec.tp_first = tp_first;
    }
  }
  void at(Where where) { where_ = where; }
  void layers(uint64_t first, uint64_t end) {
    where_ = Where::layers;
    first_ = first;
    end_ = end;
  }
  std::vector<ShapeTensor> take() { return std::move(tensors_); }

 private:
  ShapeTensor& add(std::string name, Kind kind, uint64_t outer, uint64_t split, uint64_t inner,
                   uint64_t parts) {
    ShapeTensor tensor;
    tensor.spec.name = std::move(name);
    tensor.spec.kind = kind;
    tensor.spec.where = where_;
    if (where_ == Where::layers) {
      tensor.spec.first_layer = static_cast<uint32_t>(first_);
      tensor.spec.end_layer = static_cast<uint32_t>(end_);
    }
    tensor.spec.outer = outer;
    tensor.spec.split = split;
    tensor.spec.inner = inner;
    tensor.spec.parts = static_cast<uint32_t>(parts);
    tensors_.push_back(std::move(tensor));
    return tensors_.back();
  }

  const ModelShape& shape_;
  std::vector<ShapeTensor> tensors_;
  Where where_ = Where::layers;
  uint64_t first_ = 0, end_ = 0;
};

void add_grouped_attention(Families& to, const ModelShape& x) {
  uint64_t q = x.num_attention_heads * x.head_dim, kv = x.num_key_value_heads * x.head_dim;
  to.rows("attention.q", q, x.hidden_size, x.num_attention_heads);
  for (const char* name : {"attention.k", "attention.v"}) {
    ShapeTensor& tensor = to.rows(name, kv, x.hidden_size, x.num_key_value_heads);
    tensor.spec.may_repeat = true;
    tensor.is_joined = true;
  }
  if (x.attention_bias) {
    to.rows("attention.q_bias", q, 1, x.num_attention_heads);
    for (const char* name : {"attention.k_bias", "attention.v_bias"}) {
      ShapeTensor& tensor = to.rows(name, kv, 1, x.num_key_value_heads);
      tensor.spec.may_repeat = true;
      tensor.is_joined = true;
    }
  }
  if (x.qk_norm) {
    to.whole("attention.q_norm", x.head_dim);
    to.whole("attention.k_norm", x.head_dim);
  }
  to.columns("attention.o", x.hidden_size, q, x.num_attention_heads).spec.tp_first = true;
  if (x.attention_output_bias) to.whole("attention.o_bias", x.hidden_size);
}

void add_latent_attention(Families& to, const ModelShape& x) {
  const MlaShape& mla = *x.mla;
  uint64_t heads = x.num_attention_heads, h = x.hidden_size;
  uint64_t q = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  if (mla.q_lora_rank > 0) {
    to.whole("attention.q_a", mla.q_lora_rank * h);
    to.whole("attention.q_a_norm", mla.q_lora_rank);
    to.rows("attention.q_b", q, mla.q_lora_rank, heads).spec.tp_first = true;
  } else {
    to.rows("attention.q", q, h, heads);
  }
  to.whole("attention.kv_a", (mla.kv_lora_rank + mla.qk_rope_head_dim) * h);
  to.whole("attention.kv_a_norm", mla.kv_lora_rank);
  to.rows("attention.kv_b", heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank,
          heads)
      .spec.tp_first = true;
  to.columns("attention.o", h, heads * mla.v_head_dim, heads).spec.tp_first = true;
}

void add_experts(Families& to, const ModelShape& x) {
  const MoeShape& moe = *x.moe;
  to.layers(moe.first_moe_layer, x.num_hidden_layers);
  to.whole("router", moe.num_experts * x.hidden_size);
  if (moe.router_bias) to.whole("router_bias", moe.num_experts);
  to.gate_up_down("experts", moe.moe_intermediate_size, moe.num_experts, false);
  if (moe.shared_intermediate_size > 0)
    to.gate_up_down("shared", moe.shared_intermediate_size, 0, true);
  if (moe.shared_gate) to.whole("shared_gate", x.hidden_size);
}

}  // namespace

uint64_t ShapeTensor::count(uint64_t layers) const {
  if (spec.where != Where::layers) return 1;
  return layers * (spec.kind == Kind::expert ? spec.experts : 1);
}

std::vector<ShapeTensor> tensors_of(const ModelShape& x, HeadKind head) {
  Families families(x);
  bool is_tied = x.tie_word_embeddings && head == HeadKind::language;
  families.at(is_tied ? Where::both_ends : Where::first_stage);
  families.rows("embedding", x.vocab_size, x.hidden_size, x.vocab_size);
  families.layers(0, x.num_hidden_layers);
  families.whole("attention_norm", x.hidden_size);
  if (x.mla)
    add_latent_attention(families, x);
  else
    add_grouped_attention(families, x);
  families.whole("mlp_norm", x.hidden_size);
  uint64_t dense_layers = x.moe ? x.moe->first_moe_layer : x.num_hidden_layers;
  if (dense_layers > 0) {
    families.layers(0, dense_layers);
    families.gate_up_down("mlp", x.intermediate_size, 0, false);
  }
  if (x.moe && dense_layers < x.num_hidden_layers) add_experts(families, x);
  families.at(Where::last_stage);
  families.whole("final_norm", x.hidden_size);
  if (head == HeadKind::value)
    families.whole("value_head", x.hidden_size);
  else if (!x.tie_word_embeddings)
    families.rows("head", x.vocab_size, x.hidden_size, x.vocab_size);
  return families.take();
}

ModelTensors reshard_tensors_of(const ModelShape& shape, uint64_t element_bytes) {
  ModelTensors model{static_cast<uint32_t>(shape.num_hidden_layers), {}};
  for (ShapeTensor& tensor : tensors_of(shape)) {
    tensor.spec.element_bytes = element_bytes;
    model.tensors.push_back(std::move(tensor.spec));
  }
  return model;
}

uint64_t parameter_count(const ModelShape& shape) {
  uint64_t sum = 0;
  for (const ShapeTensor& tensor : tensors_of(shape)) sum += tensor.elements() * tensor.count();
  return sum;
}

namespace {

using Field = std::pair<const char*, uint64_t>;

Error bad_shape(const ModelShape& x, const std::string& what) {
  std::string name = x.name.empty() ? "" : " " + x.name;
  return {Errc::invalid_argument, "model" + name + ": " + what};
}

Expected<void> check_fields(const ModelShape& x, std::initializer_list<Field> fields) {
  constexpr uint64_t k_extent_max = uint64_t{1} << 24;  // products of two stay far from 2^64
  for (auto [name, value] : fields) {
    if (value == 0) return bad_shape(x, std::string(name) + " is 0");
    if (value > k_extent_max)
      return bad_shape(x, std::string(name) + " " + std::to_string(value) + " is over 2^24");
  }
  return {};
}

Expected<void> check_attention(const ModelShape& x) {
  if (x.mla) {
    COHORT_TRY(check_fields(x, {{"kv_lora_rank", x.mla->kv_lora_rank},
                                {"qk_rope_head_dim", x.mla->qk_rope_head_dim},
                                {"qk_nope_head_dim", x.mla->qk_nope_head_dim},
                                {"v_head_dim", x.mla->v_head_dim},
                                {"q_lora_rank", std::max<uint64_t>(x.mla->q_lora_rank, 1)}}));
    return {};
  }
  COHORT_TRY(
      check_fields(x, {{"num_key_value_heads", x.num_key_value_heads}, {"head_dim", x.head_dim}}));
  if (x.num_attention_heads % x.num_key_value_heads != 0)
    return bad_shape(x, "num_attention_heads " + std::to_string(x.num_attention_heads) +
                            " is not a multiple of num_key_value_heads " +
                            std::to_string(x.num_key_value_heads));
  return {};
}

Expected<void> check_experts(const ModelShape& x) {
  if (!x.moe) return {};
  COHORT_TRY(check_fields(x, {{"num_experts", x.moe->num_experts},
                              {"experts_per_token", x.moe->experts_per_token},
                              {"moe_intermediate_size", x.moe->moe_intermediate_size}}));
  if (x.moe->experts_per_token > x.moe->num_experts)
    return bad_shape(x, "experts_per_token " + std::to_string(x.moe->experts_per_token) +
                            " is over num_experts " + std::to_string(x.moe->num_experts));
  if (x.moe->first_moe_layer > x.num_hidden_layers)
    return bad_shape(x, "first_moe_layer " + std::to_string(x.moe->first_moe_layer) +
                            " is over num_hidden_layers " + std::to_string(x.num_hidden_layers));
  if (x.moe->shared_intermediate_size > uint64_t{1} << 24)
    return bad_shape(x, "shared_intermediate_size is over 2^24");
  return {};
}

}  // namespace

Expected<void> check_shape(const ModelShape& x) {
  COHORT_TRY(check_fields(x, {{"vocab_size", x.vocab_size},
                              {"hidden_size", x.hidden_size},
                              {"num_hidden_layers", x.num_hidden_layers},
                              {"num_attention_heads", x.num_attention_heads}}));
  if (!x.moe || x.moe->first_moe_layer > 0)
    COHORT_TRY(check_fields(x, {{"intermediate_size", x.intermediate_size}}));
  COHORT_TRY(check_attention(x));
  COHORT_TRY(check_experts(x));
  // 64 bytes of state per element at most: f32 everywhere, each thread its own gradients.
  constexpr Wide k_elements_max = std::numeric_limits<uint64_t>::max() / 64;
  Wide sum = 0;
  for (const ShapeTensor& tensor : tensors_of(x)) {
    Wide elements = Wide{tensor.spec.outer} * tensor.spec.split;
    if (elements > k_elements_max) return bad_shape(x, "its bytes do not fit 64 bits");
    elements *= tensor.spec.inner;
    if (elements > k_elements_max) return bad_shape(x, "its bytes do not fit 64 bits");
    sum += elements * tensor.count();
    if (sum > k_elements_max) return bad_shape(x, "its bytes do not fit 64 bits");
  }
  return {};
}

}  // namespace cohort::plan
