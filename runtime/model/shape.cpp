#include "runtime/model/shape.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "runtime/model/tensors.hpp"

namespace cohort::model {
namespace {

__extension__ using Wide = __int128;
using Field = std::pair<const char*, int64_t>;

Error bad_shape(const ModelShape& x, const std::string& what) {
  std::string name = x.name.empty() ? "" : " " + x.name;
  return {Errc::invalid_argument, "model" + name + ": " + what};
}

Expected<void> check_fields(const ModelShape& x, std::initializer_list<Field> fields) {
  constexpr int64_t k_extent_max = int64_t{1} << 24;  // products of two stay far from 2^64
  for (auto [name, value] : fields) {
    if (value <= 0) return bad_shape(x, std::string(name) + " is " + std::to_string(value));
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
                                {"q_lora_rank", std::max<int64_t>(x.mla->q_lora_rank, 1)}}));
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

Expected<void> check_delta(const ModelShape& x) {
  if (!x.delta) return {};
  return check_fields(x, {{"full_attention_interval", x.delta->attention_interval},
                          {"linear_num_key_heads", x.delta->key_heads},
                          {"linear_num_value_heads", x.delta->value_heads},
                          {"linear_key_head_dim", x.delta->key_head_dim},
                          {"linear_value_head_dim", x.delta->value_head_dim},
                          {"linear_conv_kernel_dim", x.delta->conv_kernel}});
}

/// Groups are equal parts of the experts, and the best of them hold as many as a token takes.
Expected<void> check_groups(const ModelShape& x) {
  const MoeShape& moe = *x.moe;
  const auto text = [](int64_t number) { return std::to_string(number); };
  if (moe.num_groups < 1 || moe.num_experts % moe.num_groups != 0)
    return bad_shape(x, "n_group " + text(moe.num_groups) + " does not divide num_experts " +
                            text(moe.num_experts));
  if (moe.topk_groups < 1 || moe.topk_groups > moe.num_groups)
    return bad_shape(x, "topk_group " + text(moe.topk_groups) + " is not in 1.." +
                            text(moe.num_groups) + ", n_group");
  const int64_t reachable = moe.topk_groups * (moe.num_experts / moe.num_groups);
  if (moe.experts_per_token > reachable)
    return bad_shape(x, "experts_per_token " + text(moe.experts_per_token) + " is over the " +
                            text(reachable) + " experts of topk_group groups");
  return {};
}

Expected<void> check_experts(const ModelShape& x) {
  if (!x.moe) return {};
  COHORT_TRY(check_fields(x, {{"num_experts", x.moe->num_experts},
                              {"experts_per_token", x.moe->experts_per_token},
                              {"moe_intermediate_size", x.moe->moe_intermediate_size},
                              {"decoder_sparse_step", x.moe->sparse_step}}));
  if (x.moe->experts_per_token > x.moe->num_experts)
    return bad_shape(x, "experts_per_token " + std::to_string(x.moe->experts_per_token) +
                            " is over num_experts " + std::to_string(x.moe->num_experts));
  COHORT_TRY(check_groups(x));
  if (x.moe->first_moe_layer > x.num_hidden_layers)
    return bad_shape(x, "first_moe_layer " + std::to_string(x.moe->first_moe_layer) +
                            " is over num_hidden_layers " + std::to_string(x.num_hidden_layers));
  if (x.moe->shared_intermediate_size > int64_t{1} << 24)
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
  COHORT_TRY(check_delta(x));
  // 64 bytes of state per element at most: f32 everywhere, each thread its own gradients.
  constexpr Wide k_elements_max = std::numeric_limits<int64_t>::max() / 64;
  Wide sum = 0;
  for (const Tensor& tensor : tensors_of(x)) {
    const Wide layers = tensor.where == Where::layers ? tensor.end_layer - tensor.first_layer : 1;
    sum += Wide{tensor.rows} * std::max<int64_t>(tensor.columns, 1) * layers *
           std::max<int64_t>(tensor.experts, 1);
    if (sum > k_elements_max) return bad_shape(x, "its bytes do not fit 64 bits");
  }
  return {};
}

std::string engine_gap(const ModelShape& shape) {
  const std::string name = shape.name.empty() ? "the model" : shape.name;
  if (shape.delta)
    return name +
           " has gated delta nets in place of attention in some layers, which are planned "
           "and not computed";
  if (!shape.left_out.empty())
    return name + " has a part for " + shape.left_out +
           ", which is neither planned nor computed; use a model of text alone";
  return "";
}

ModelShape tp_part(const ModelShape& shape, int64_t tp) {
  ModelShape part = shape;
  for (int64_t ModelShape::*field :
       {&ModelShape::num_attention_heads, &ModelShape::num_key_value_heads,
        &ModelShape::intermediate_size, &ModelShape::vocab_size})
    part.*field = (shape.*field + tp - 1) / tp;
  if (part.moe)
    for (int64_t MoeShape::*field :
         {&MoeShape::moe_intermediate_size, &MoeShape::shared_intermediate_size})
      (*part.moe).*field = ((*shape.moe).*field + tp - 1) / tp;
  return part;
}

}  // namespace cohort::model
