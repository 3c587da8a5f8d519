#include "runtime/compute/model/policy_parts.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/compute/model/product.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

constexpr double k_inner_eps = 1e-6;  // of the latents' norms; rms_norm_eps is not theirs

using ops::product;

Tensor wide(const Tensor& x) { return x.to(at::promote_types(at::kFloat, x.scalar_type())); }

/// The `count` best of each row, ties to the lower index. Returns indices [N, count].
Tensor best_of(const Tensor& scores, int64_t count) {
  return std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/1, /*descending=*/true))
      .narrow(1, 0, count);
}

/// `choice` [N, E] with -inf for the experts of all but the best groups.
Tensor in_best_groups(const Tensor& choice, const model::MoeShape& moe) {
  if (moe.num_groups <= 1) return choice;
  const int64_t rows = choice.size(0), width = choice.size(1) / moe.num_groups;
  const Tensor grouped = choice.view({rows, moe.num_groups, width});
  const int64_t counted = std::min<int64_t>(moe.is_sigmoid ? 2 : 1, width);
  const Tensor of_group = std::get<0>(grouped.topk(counted, 2)).sum(2);
  const Tensor is_kept = at::zeros_like(of_group, at::kBool)
                             .scatter(1, best_of(of_group, moe.topk_groups), true)
                             .unsqueeze(2);
  return grouped.masked_fill(is_kept.logical_not(), -std::numeric_limits<double>::infinity())
      .view({rows, -1});
}

struct Routing {
  Tensor experts;  // [N, k] i64
  Tensor weights;  // [N, k], in the model's dtype
};

Routing route(const Tensor& h, const PolicyWeights::Layer& layer, const model::MoeShape& moe) {
  Routing out;
  Tensor scores;
  if (moe.is_sigmoid)
    scores = ops::sigmoid(product(wide(h), wide(layer[Part::router])));
  else
    scores = at::softmax(wide(product(h, layer[Part::router])), 1);
  Tensor choice = scores.detach();
  if (layer[Part::router_bias].defined()) choice = choice + wide(layer[Part::router_bias].detach());
  out.experts = best_of(in_best_groups(choice, moe), moe.experts_per_token);
  Tensor weights = scores.gather(1, out.experts);
  if (moe.norm_topk_prob)
    weights = weights / (weights.sum(1, true) + (moe.is_sigmoid ? 1e-20 : 0.0));
  if (moe.routed_scaling != 1) weights = weights * moe.routed_scaling;
  out.weights = weights.to(h.scalar_type());
  return out;
}

/// The choices of all tokens, expert after expert and token after token.
struct ExpertOrder {
  Tensor choices;               // [N k] i64 index into experts [N, k], taken flat
  Tensor rows;                  // [N k] i64 the token of each
  std::vector<int64_t> counts;  // [E]
};

ExpertOrder by_expert(const Tensor& experts, int64_t count) {
  const Tensor flat = experts.reshape({-1});
  ExpertOrder out;
  out.choices = std::get<1>(at::sort(flat, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  out.rows = at::div(out.choices, experts.size(1), "floor");
  const Tensor counts = at::bincount(flat, {}, count).cpu();
  out.counts.assign(counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + count);
  return out;
}

using Adapters = std::vector<PolicyWeights::Adapter>;

/// An MLP without biases, and what adapters add to it.
struct GatedMlp {
  Part first = Part::shared_gate_up, last = Part::shared_down;  // of its adapters
  Tensor gate_up, down;
};

Tensor gated(const Tensor& x, const GatedMlp& mlp, const Adapters& adapters) {
  const Tensor inner = ops::swiglu(adapted(product(x, mlp.gate_up), x, adapters, mlp.first));
  return adapted(product(inner, mlp.down), inner, adapters, mlp.last);
}

/// Returns the adapters of each routed expert.
std::vector<Adapters> expert_adapters(const Adapters& all, size_t experts) {
  std::vector<Adapters> out(experts);
  for (const PolicyWeights::Adapter& of : all) {
    if (of.experts == 0) continue;
    // Splits, not narrow views, as in expert_rows.
    const std::vector<Tensor> a = at::split(of.a, of.a.size(0) / of.experts);
    const std::vector<Tensor> b = at::split(of.b, of.b.size(0) / of.experts);
    for (size_t expert = 0; expert < experts; ++expert)
      out[expert].push_back({of.part, of.first_row, a[expert], b[expert], of.scale, 0});
  }
  return out;
}

/// [N, heads * (a + b)] -> [N, heads, a] and [N, heads, b].
std::pair<Tensor, Tensor> split_heads(const Tensor& x, int64_t heads, int64_t a, int64_t b) {
  const Tensor at_heads = x.view({x.size(0), heads, a + b});
  return {at_heads.narrow(2, 0, a), at_heads.narrow(2, a, b)};
}

/// Rotates heads [N, heads, d] whose pairs are neighbours; the result is in the order of halves, a
/// permutation that queries and keys share.
Tensor rotate_pairs(const Tensor& x, const Tensor& position, const ops::RopeTable& rope) {
  const int64_t rows = x.size(0), heads = x.size(1), dim = x.size(2);
  const Tensor halves = x.reshape({rows, heads, dim / 2, 2}).transpose(2, 3).reshape({rows, -1});
  return ops::rope(halves, Tensor(), position, rope, heads, dim).view({rows, heads, dim});
}

double score_scale(const ModelConfig& config) {
  const model::MlaShape& mla = *config.mla;
  const double width = static_cast<double>(mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  double scale = 1 / std::sqrt(width);
  if (config.rope.type == "yarn" && config.rope.mscale_all_dim != 0)
    scale *= std::pow(model::yarn_magnitude(config.rope.factor, config.rope.mscale_all_dim), 2);
  return scale;
}

/// Queries [N, heads, nope] and [N, heads, rope], the latter rotated.
std::pair<Tensor, Tensor> queries_of(const Tensor& h, const PolicyWeights::Layer& layer,
                                     const ModelConfig& config, const Tensor& position,
                                     const ops::RopeTable& rope) {
  const model::MlaShape& mla = *config.mla;
  Tensor q;
  if (mla.q_lora_rank > 0)
    q = product(ops::rms_norm(biased(product(h, layer[Part::q_a]), layer[Part::q_a_bias]),
                              layer[Part::q_a_norm], k_inner_eps),
                layer[Part::q_b]);
  else
    q = product(h, layer[Part::q_full]);
  const auto [plain, turning] =
      split_heads(q, config.num_attention_heads, mla.qk_nope_head_dim, mla.qk_rope_head_dim);
  return {plain, rotate_pairs(turning, position, rope)};
}

/// The normed latent [N, kv_lora_rank], and the rotated key [N, rope] that all heads share.
std::pair<Tensor, Tensor> latent_of(const Tensor& h, const PolicyWeights::Layer& layer,
                                    const ModelConfig& config, const Tensor& position,
                                    const ops::RopeTable& rope) {
  const model::MlaShape& mla = *config.mla;
  const Tensor both = biased(product(h, layer[Part::kv_a]), layer[Part::kv_a_bias]);
  const Tensor latent = ops::rms_norm(both.narrow(1, 0, mla.kv_lora_rank).contiguous(),
                                      layer[Part::kv_a_norm], k_inner_eps);
  const Tensor turning = both.narrow(1, mla.kv_lora_rank, mla.qk_rope_head_dim).unsqueeze(1);
  return {latent, rotate_pairs(turning, position, rope).squeeze(1)};
}

/// Rows of kv_b that make one head's key (nope) and value out of the latent.
Tensor head_rows(const PolicyWeights::Layer& layer, const model::MlaShape& mla, int64_t head) {
  const int64_t rows = mla.qk_nope_head_dim + mla.v_head_dim;
  return layer[Part::kv_b].narrow(0, head * rows, rows);
}

/// q [M, heads, d], k [N, heads, d], v [N, heads, e] of packed sequences -> [M, heads * e].
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        const ops::AttentionLayout& layout) {
  const Tensor cu_q = layout.cu_q.cpu(), cu_k = layout.cu_k.cpu();
  std::vector<Tensor> outputs;
  for (int64_t s = 0; s + 1 < cu_q.size(0); ++s) {
    const int64_t q_begin = cu_q[s].item<int>(), queries = cu_q[s + 1].item<int>() - q_begin;
    const int64_t k_begin = cu_k[s].item<int>(), keys = cu_k[s + 1].item<int>() - k_begin;
    if (queries == 0) continue;
    const Tensor scores = wide(at::matmul(q.narrow(0, q_begin, queries).transpose(0, 1) * scale,
                                          k.narrow(0, k_begin, keys).permute({1, 2, 0})));
    const Tensor is_hidden = at::arange(keys, layout.q_position.options()).unsqueeze(0) >
                             layout.q_position.narrow(0, q_begin, queries).unsqueeze(1);
    const Tensor p =
        at::softmax(scores.masked_fill(is_hidden, -std::numeric_limits<double>::infinity()), -1)
            .to(q.scalar_type());
    outputs.push_back(at::matmul(p, v.narrow(0, k_begin, keys).transpose(0, 1))
                          .transpose(0, 1)
                          .reshape({queries, -1}));
  }
  return at::cat(outputs, 0);
}

}  // namespace

Tensor expert_rows(const Tensor& x, const std::vector<int64_t>& counts,
                   const PolicyWeights::Layer& layer) {
  const Tensor &gate_up = layer[Part::expert_gate_up], &down = layer[Part::expert_down];
  const auto experts = static_cast<int64_t>(counts.size());
  // Splits, not narrow views: their gradients are put together once, not one expert at a time.
  const std::vector<Tensor> rows = at::split_with_sizes(x, counts);
  const std::vector<Tensor> first = at::split(gate_up, gate_up.size(0) / experts);
  const std::vector<Tensor> second = at::split(down, down.size(0) / experts);
  const std::vector<Adapters> adapters = expert_adapters(layer.adapters, counts.size());
  std::vector<Tensor> outputs;
  for (size_t e = 0; e < counts.size(); ++e)
    if (counts[e] > 0)
      outputs.push_back(gated(
          rows[e], {Part::expert_gate_up, Part::expert_down, first[e], second[e]}, adapters[e]));
  return outputs.empty() ? x : at::cat(outputs, 0);
}

Tensor expert_mlp(const Tensor& h, const PolicyWeights::Layer& layer, const model::MoeShape& moe) {
  const Routing routing = route(h, layer, moe);
  const ExpertOrder order = by_expert(routing.experts, moe.num_experts);
  const Tensor x = h.index_select(0, order.rows);
  const Tensor y = layer.experts != nullptr ? layer.experts->apply(x, order.counts)
                                            : expert_rows(x, order.counts, layer);
  const Tensor weight = routing.weights.reshape({-1}).index_select(0, order.choices).unsqueeze(1);
  const Tensor out = at::zeros_like(h).index_add(0, order.rows, y * weight);
  if (!layer[Part::shared_gate_up].defined()) return out;
  Tensor shared = gated(h,
                        {Part::shared_gate_up, Part::shared_down, layer[Part::shared_gate_up],
                         layer[Part::shared_down]},
                        layer.adapters);
  if (layer[Part::shared_gate].defined())
    shared = shared * ops::sigmoid(product(h, layer[Part::shared_gate]));
  return out + shared;
}

Tensor latent_attention(const Tensor& h, const Tensor& h_q, const PolicyWeights::Layer& layer,
                        const ModelConfig& config, const ops::RopeTable& rope,
                        const ops::AttentionLayout& layout) {
  const model::MlaShape& mla = *config.mla;
  const int64_t heads = config.num_attention_heads;
  const auto [q_plain, q_turned] = queries_of(h_q, layer, config, layout.q_position, rope);
  const auto [latent, k_turned] = latent_of(h, layer, config, layout.k_position, rope);
  const auto [k_plain, v] =
      split_heads(product(latent, layer[Part::kv_b]), heads, mla.qk_nope_head_dim, mla.v_head_dim);
  const Tensor k_shared = k_turned.unsqueeze(1).expand({-1, heads, -1});
  return causal_attention(at::cat({q_plain, q_turned}, 2), at::cat({k_plain, k_shared}, 2), v,
                          score_scale(config), layout);
}

Tensor latent_entries(const Tensor& h, const PolicyWeights::Layer& layer, const ModelConfig& config,
                      const Tensor& position, const ops::RopeTable& rope) {
  const auto [latent, turned] = latent_of(h, layer, config, position, rope);
  return at::cat({latent, turned}, 1);
}

Tensor latent_queries(const Tensor& h, const PolicyWeights::Layer& layer, const ModelConfig& config,
                      const Tensor& position, const ops::RopeTable& rope) {
  const model::MlaShape& mla = *config.mla;
  const auto [plain, turned] = queries_of(h, layer, config, position, rope);
  std::vector<Tensor> heads;
  for (int64_t head = 0; head < config.num_attention_heads; ++head) {
    const Tensor up = head_rows(layer, mla, head).narrow(0, 0, mla.qk_nope_head_dim);
    heads.push_back(product(plain.select(1, head), up.t().contiguous()));
  }
  return at::cat({at::stack(heads, 1), turned}, 2) * score_scale(config);
}

Tensor latent_values(const Tensor& mixed, const PolicyWeights::Layer& layer,
                     const ModelConfig& config) {
  const model::MlaShape& mla = *config.mla;
  std::vector<Tensor> heads;
  for (int64_t head = 0; head < config.num_attention_heads; ++head)
    heads.push_back(
        product(mixed.select(1, head),
                head_rows(layer, mla, head).narrow(0, mla.qk_nope_head_dim, mla.v_head_dim)));
  return at::cat(heads, 1);
}

}  // namespace cohort::compute
