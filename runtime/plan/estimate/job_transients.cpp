// Bytes that come and go inside a phase. Activations: what backward reads, per token and layer, as
// Korthikanti et al. count it (arXiv 2205.05198, equation 1: two bytes a value, no attention matrix
// with flash attention), for RMSNorm, grouped queries, a gated MLP and no dropout. With
// checkpointing only each layer's input stays, and one layer's whole share while it is recomputed.
// The built-in engine: as policy_graph.cpp and ops.cpp save tensors.
#include <algorithm>

#include "runtime/plan/estimate/job_parts.hpp"

namespace cohort::plan::job {
namespace {

/// Values per token and layer: kept whole on every rank, and cut over TP.
struct LayerValues {
  uint64_t whole = 0, cut = 0;
  uint64_t bytes(uint64_t element_bytes, uint32_t tp) const {
    return element_bytes * (whole + divide_up(cut, tp));
  }
};

/// One layer, as its tensors say; attention and MLP are cut apart.
uint64_t layer_bytes(const ModelShape& x, int64_t layer, uint64_t element_bytes, uint32_t tp) {
  LayerValues attention, mlp;
  for (const model::Tensor& tensor : model::tensors_of(x)) {
    if (!tensor.is_in(layer)) continue;
    LayerValues& values = tensor.part < model::Part::post_norm ? attention : mlp;
    (tensor.cut == model::Cut::whole ? values.whole : values.cut) +=
        static_cast<uint64_t>(tensor.kept);
  }
  return attention.bytes(element_bytes, tp) + mlp.bytes(element_bytes, tp);
}

/// The wider kind of layer, with attention or a gated delta net.
uint64_t layer_bytes(const ModelShape& x, bool has_experts, uint64_t element_bytes, uint32_t tp) {
  const int64_t last = x.num_hidden_layers - 1, layer = has_experts ? last : 0;
  const uint64_t bytes = layer_bytes(x, layer, element_bytes, tp);
  if (!x.delta || last == 0) return bytes;
  return std::max(bytes, layer_bytes(x, last - 1, element_bytes, tp));
}

/// Values per row that attention of the built-in engine keeps: q, k and v, what o reads, and a
/// log-sum-exp of each head; of latent attention the latents too, q and k before and behind their
/// assembly, and scores over `longest` keys thrice.
uint64_t builtin_attention_values(const ModelShape& x, uint64_t longest) {
  const uint64_t heads = x.num_attention_heads;
  if (!x.mla) return 2 * heads * x.head_dim + 2 * x.num_key_value_heads * x.head_dim + heads;
  const model::MlaShape& mla = *x.mla;
  const uint64_t qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim, v = mla.v_head_dim;
  return 2 * (mla.q_lora_rank + mla.kv_lora_rank) + mla.qk_rope_head_dim +
         heads * (5 * qk + 3 * v + 3 * longest);
}

/// Likewise of the wider kind of MLP: gate, up and their product, for each of a token's experts,
/// with their inputs and outputs.
uint64_t builtin_mlp_values(const ModelShape& x) {
  const uint64_t dense = 3 * x.intermediate_size;
  if (!x.moe) return dense;
  const model::MoeShape& moe = *x.moe;
  const uint64_t experts =
      moe.experts_per_token * (3 * moe.moe_intermediate_size + 3 * x.hidden_size) +
      3 * moe.shared_intermediate_size + 4 * moe.num_experts;
  const bool has_dense =
      moe.first_moe_layer > 0 || moe.sparse_step > 1 || !moe.dense_layers.empty();
  return has_dense ? std::max(dense, experts) : experts;
}

/// The built-in engine, per row and layer. f32: fused operations, which keep norm inputs and
/// outputs, rotated q, k, v, the attention's output, gate_up and its product. bf16: composed ones,
/// which keep f32 copies in the norms, expanded heads, and probabilities over `longest` keys.
uint64_t builtin_layer_bytes(const ModelShape& x, uint64_t param_bytes, uint64_t longest) {
  uint64_t h = x.hidden_size, q = x.num_attention_heads * x.head_dim;
  uint64_t kv = x.num_key_value_heads * x.head_dim, mlp = builtin_mlp_values(x);
  if (param_bytes == 4) return 4 * (4 * h + builtin_attention_values(x, longest) + mlp + 2);
  uint64_t keys = longest * (6 * x.num_attention_heads + 1);
  uint64_t attention =
      x.mla ? 4 * builtin_attention_values(x, longest) : 2 * (q + 2 * kv) + 8 * q + keys;
  return 16 * h + attention + divide_up(8 * mlp, 3);
}

uint64_t expert_layers(const RoleFacts& role) {
  if (!role.shape.moe) return 0;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < role.stage; ++i) begin += role.cut.layers_per_stage[i];
  uint64_t first = std::max<uint64_t>(begin, role.shape.moe->first_moe_layer);
  return begin + role.layers > first ? begin + role.layers - first : 0;
}

uint64_t largest_layer_bytes(const RoleFacts& role, uint64_t element_bytes) {
  uint64_t experts = expert_layers(role), most = 0;
  if (experts > 0) most = layer_bytes(role.shape, true, element_bytes, role.job.tp);
  if (experts < role.layers)
    most = std::max(most, layer_bytes(role.shape, false, element_bytes, role.job.tp));
  return most;
}

/// Tokens of one pass on one card.
struct PassTokens {
  uint64_t tokens = 0;
  std::string arithmetic;
};
PassTokens pass_tokens(const JobSpec& spec, const RoleJob& job, uint64_t sequences) {
  uint64_t length = sequence_length(spec);
  if (job.packed_tokens > 0) {
    uint64_t tokens = std::max(job.packed_tokens, length);  // one longer sample is a pass
    std::string threads = job.threads > 1 ? " * " + std::to_string(job.threads) + " threads" : "";
    return {tokens * job.threads, text(tokens) + " packed tokens" + threads};
  }
  std::string ranks = job.cp > 1 ? " / " + std::to_string(job.cp) : "";
  return {divide_up(sequences * length, job.cp),
          std::to_string(sequences) + " * " + text(length) + ranks + " tokens"};
}

void put(std::vector<TransientBytes>& to, const RoleFacts& role, std::string name, uint64_t bytes,
         std::string arithmetic) {
  if (bytes > 0) to.push_back({role.job.name, std::move(name), bytes, std::move(arithmetic)});
}

bool is_by_unit(const RoleFacts& role) {
  return is_builtin_whole(role) && (role.job.zero_stage >= 3 || role.job.offload_params);
}

/// Messages between the ranks of the built-in engine, and the unit that is there whole.
void put_builtin_buffers(const RoleFacts& role, bool is_trained, std::vector<TransientBytes>& to) {
  if (!is_builtin_whole(role)) return;
  TrainBuffers buffers = train_buffers(role.shape, builtin_memory(role), role.head);
  bool is_cut = role.job.zero_stage >= 3;
  if (is_trained || is_cut)
    put(to, role, "exchange buffers", buffers.exchange,
        "2 messages of the largest unit over " + std::to_string(role.ways) + " ranks");
  put(to, role, "gathered unit", buffers.gathered,
      is_cut ? "the largest unit whole" : "the largest unit, from the host");
}

/// By unit one micro-batch is in flight: the inputs of all layers, one layer's activations, and the
/// gradient of a unit (of a tied table too, until the embedding's share joins the head's).
void put_builtin_by_unit(const JobSpec& spec, RoleFacts& role) {
  const RoleJob& job = role.job;
  uint64_t tokens = std::max(job.packed_tokens, sequence_length(spec));
  if (job.packed_tokens == 0) tokens = job.micro_batch * sequence_length(spec);
  uint64_t input = role.shape.hidden_size * job.param_bytes;
  uint64_t layer = builtin_layer_bytes(role.shape, job.param_bytes, sequence_length(spec));
  if (job.param_bytes < 4) layer *= 2;  // composed operations take another share in the backward
  put(role.update, role, "activations (by unit)", tokens * (role.layers * input + layer),
      text(tokens) + " tokens * (" + std::to_string(role.layers) + " layers * " + text(input) +
          " + one layer " + text(layer) + ")");
  TrainMemory whole = builtin_memory(role);
  whole.zero_stage = 3;
  uint64_t unit = train_buffers(role.shape, whole, role.head).gathered;
  if (role.shape.tie_word_embeddings && role.head == HeadKind::language) unit *= 2;
  put(role.update, role, "unit gradients", unit, "of the largest unit");
}

void put_activations(const JobSpec& spec, RoleFacts& role) {
  const RoleJob& job = role.job;
  if (is_by_unit(role)) return put_builtin_by_unit(spec, role);
  PassTokens pass = pass_tokens(spec, job, job.micro_batch);
  if (job.engine == Engine::builtin) {
    bool is_half = job.param_bytes < 4;
    uint64_t per_layer = builtin_layer_bytes(role.shape, job.param_bytes, sequence_length(spec));
    // Composed operations take about another layer's share while they run backward (measured).
    uint64_t layers = role.layers + (is_half ? 1 : 0);
    put(role.update, role, "activations", pass.tokens * layers * per_layer,
        pass.arithmetic + " * " + std::to_string(layers) + " layers * " + text(per_layer) + " B");
    // Backward frees a layer's activations as it makes that layer's gradient, and begins with the
    // gradient of the output end: the fullest moment of a thread is its begin, or its end with the
    // gradient of the whole model.
    uint64_t whole = flat_element_count(role.shape, role.head) * job.param_bytes;
    uint64_t first = role.shape.vocab_size * role.shape.hidden_size * job.param_bytes;
    uint64_t activations = pass.tokens / job.threads * layers * per_layer;
    uint64_t beside = std::max(std::min(first, whole), whole - std::min(whole, activations));
    put(role.update, role, "micro-batch gradients", beside * job.threads,
        std::to_string(job.threads) + " threads * " + text(beside) +
            " beside the activations that are left");
    return;
  }
  uint64_t element = std::max<uint64_t>(job.param_bytes, 2);
  uint64_t experts = expert_layers(role);
  // A pipeline's first stage keeps up to PP micro-batches (one forward, one backward at a time).
  uint64_t in_flight = job.pp;
  std::string flight = job.pp > 1 ? " * " + std::to_string(job.pp) + " in flight" : "";
  if (job.gradient_checkpointing) {
    uint64_t input = role.shape.hidden_size * element, layer = largest_layer_bytes(role, element);
    put(role.update, role, "activations (checkpointed)",
        pass.tokens * (role.layers * input * in_flight + layer),
        pass.arithmetic + " * (" + std::to_string(role.layers) + " layers * " + text(input) +
            flight + " + one layer " + text(layer) + ")");
    return;
  }
  uint64_t all = experts * layer_bytes(role.shape, true, element, job.tp) +
                 (role.layers - experts) * layer_bytes(role.shape, false, element, job.tp);
  put(role.update, role, "activations", pass.tokens * all * in_flight,
      fmt::format("{} * {} B over {} layers{}", pass.arithmetic, text(all), role.layers, flight));
}

/// Rows of the built-in engine's chunk (TrainEngineOptions::logits_max, policy_graph.cpp).
uint64_t builtin_chunk(uint64_t asked, uint64_t vocab_size) {
  constexpr uint64_t k_logits_max = uint64_t{1} << 20, k_rows_min = 16;
  return std::max(k_rows_min, asked > 0 ? asked : k_logits_max / vocab_size);
}

/// Logits of a pass. In chunks: a chunk in f32 (the built-in engine in bf16: the product, its f32
/// copy and the log-softmax). Whole: FSDP as verl runs it keeps them in 16 bits, with a gradient of
/// the same size, and f32 log-softmax of the response alone; the others all of them in the
/// parameters' type, in f32, and the f32 log-softmax or gradient.
void put_logits(const JobSpec& spec, const RoleFacts& role, uint64_t sequences, bool is_trained,
                std::vector<TransientBytes>& to) {
  if (role.head == HeadKind::value) return;
  const RoleJob& job = role.job;
  uint64_t columns = divide_up(role.shape.vocab_size, job.tp), half = job.param_bytes;
  bool is_builtin = job.engine == Engine::builtin;
  uint64_t chunk = job.logits_chunk_tokens;
  if (is_builtin) chunk = builtin_chunk(chunk, role.shape.vocab_size);
  if (chunk > 0) {
    uint64_t bytes = is_builtin && half < 4 ? half + 8 : 4;
    put(to, role, "logits chunk", chunk * columns * bytes * job.threads,
        text(chunk) + " tokens * " + text(columns) + " * " + std::to_string(bytes) + " B" +
            (job.threads > 1 ? " * " + std::to_string(job.threads) + " threads" : ""));
    return;
  }
  PassTokens pass = pass_tokens(spec, job, sequences);
  if (job.engine == Engine::fsdp && spec.response_length > 0 && job.packed_tokens == 0) {
    uint64_t whole = half * (is_trained ? 2 : 1);
    uint64_t answers = divide_up(sequences * spec.response_length, job.cp);
    put(to, role, "logits", (pass.tokens * whole + answers * 4) * columns,
        "(" + pass.arithmetic + " * " + std::to_string(whole) + " B + responses " + text(answers) +
            " * 4 B) * " + text(columns));
    return;
  }
  uint64_t bytes = (half < 4 ? half + 4 : 4) + 4;
  put(to, role, "logits", pass.tokens * columns * bytes,
      pass.arithmetic + " * " + text(columns) + " * " + std::to_string(bytes) + " B");
}

/// Largest layer and largest end of the stage, in elements, whole but for TP and EP.
struct Pieces {
  uint64_t layer = 0, end = 0;
};
Pieces pieces_of(const RoleFacts& role) {
  const ShardCut& cut = role.cut;
  std::vector<uint64_t> layers(static_cast<size_t>(role.shape.num_hidden_layers));
  Pieces out;
  for (const ShapeTensor& tensor : families_of(role.shape, role.head)) {
    const TensorSpec& spec = tensor.spec;
    bool is_expert = spec.kind == TensorSpec::Kind::expert;
    uint64_t ways = is_expert                              ? uint64_t{cut.ep} * cut.expert_tp
                    : spec.kind == TensorSpec::Kind::split ? cut.tp
                                                           : 1;
    uint64_t elements = divide_up(tensor.elements() * (is_expert ? spec.experts : 1), ways);
    if (spec.where != TensorSpec::Where::layers)
      out.end = std::max(out.end, elements);
    else
      for (size_t layer = spec.first_layer; layer < spec.end_layer; ++layer)
        layers[layer] += elements;
  }
  out.layer = *std::ranges::max_element(layers);
  return out;
}

/// Parameters that are cut or on the host come to the card layer by layer: the current layer, the
/// next one, and an end of the model.
void put_gather(const RoleFacts& role, bool is_cut, std::vector<TransientBytes>& to) {
  if (is_builtin_whole(role) || (!is_cut && !role.job.offload_params)) return;
  Pieces pieces = pieces_of(role);
  uint64_t bytes = std::max<uint64_t>(role.job.param_bytes, 2);
  uint64_t elements = std::min(2 * pieces.layer + pieces.end, role.shard.total());
  put(to, role, is_cut ? "gathered layers" : "layers from the host", elements * bytes,
      fmt::format("2 layers * {} + end {}, * {} B", text(pieces.layer), text(pieces.end), bytes));
}

/// Gradients on their way: ZeRO 2 fills buckets (twice: one fills while one is reduced), FSDP and
/// ZeRO 3 hold a layer's whole gradients until they are cut.
void put_buckets(const RoleFacts& role, std::vector<TransientBytes>& to) {
  const RoleJob& job = role.job;
  if (is_builtin_whole(role)) return;
  uint64_t element = state_of(job.engine, job.param_bytes).grads;
  if (job.engine == Engine::fsdp || job.zero_stage >= 3) {
    uint64_t layer = pieces_of(role).layer;
    put(to, role, "gradients of a layer", layer * element,
        text(layer) + " * " + std::to_string(element) + " B");
  } else if (job.engine == Engine::deepspeed && job.zero_stage >= 1) {
    constexpr uint64_t k_default = 500'000'000;  // reduce_bucket_size
    uint64_t bucket = job.reduce_bucket_elements > 0 ? job.reduce_bucket_elements : k_default;
    bucket = std::min(bucket, role.shard.total());
    put(to, role, "gradient buckets", 2 * bucket * element,
        "2 * " + text(bucket) + " * " + std::to_string(element) + " B");
  }
}

/// Forward alone keeps one layer's values at a time.
void put_forward(const JobSpec& spec, RoleFacts& role) {
  const RoleJob& job = role.job;
  PassTokens pass = pass_tokens(spec, job, job.log_prob_micro_batch);
  uint64_t layer = job.engine == Engine::builtin
                       ? builtin_layer_bytes(role.shape, job.param_bytes, sequence_length(spec))
                       : largest_layer_bytes(role, std::max<uint64_t>(job.param_bytes, 2));
  put(role.log_prob, role, "forward", pass.tokens * layer,
      pass.arithmetic + " * " + text(layer) + " B");
  put_logits(spec, role, job.log_prob_micro_batch, false, role.log_prob);
  put_gather(role, job.zero_stage >= 3 || job.engine == Engine::fsdp, role.log_prob);
  put_builtin_buffers(role, false, role.log_prob);
}

/// What a serving engine sets aside: the widest layer for max_batched_tokens, and the sampler's
/// logits (f32, with a sorted copy for top-p) of max_running sequences. The built-in engine: rows
/// of an iteration (BuiltInOptions::batch_tokens) in each lane, and f32 logits of as many.
void put_serving(const JobSpec& spec, RoleFacts& role) {
  const RoleJob& job = role.job;
  if (job.engine == Engine::builtin) {
    constexpr uint64_t k_batch_tokens = 256;
    uint64_t layer = builtin_layer_bytes(role.shape, job.param_bytes, sequence_length(spec));
    put(role.generate, role, "forward", k_batch_tokens * job.threads * layer,
        std::to_string(job.threads) + " lanes * 256 rows * " + text(layer) + " B");
    uint64_t rows = std::min(k_batch_tokens * job.threads, job.max_running);
    put(role.generate, role, "sampler", rows * role.shape.vocab_size * 4,
        text(rows) + " rows * " + text(role.shape.vocab_size) + " * 4 B");
    return;
  }
  uint64_t element = std::max<uint64_t>(job.param_bytes, 2);
  uint64_t tokens = job.max_batched_tokens, layer = largest_layer_bytes(role, element);
  put(role.generate, role, "forward", tokens * layer,
      text(tokens) + " batched tokens * " + text(layer) + " B");
  uint64_t rows = std::min(job.max_running, std::max<uint64_t>(tokens, 1));
  put(role.generate, role, "sampler", rows * role.shape.vocab_size * 8,
      text(rows) + " sequences * " + text(role.shape.vocab_size) + " * 8 B");
  const uint64_t state = state_bytes_on_card(role.shape, role.cut, element);
  put(role.generate, role, "states", job.max_running * state,
      text(job.max_running) + " sequences * " + text(state) + " B of the gated delta nets");
}

}  // namespace

void add_transients(const JobSpec& spec, RoleFacts& role) {
  const RoleJob& job = role.job;
  if (role.kind == RoleKind::infer) return put_serving(spec, role);
  if (role.kind == RoleKind::reference && job.is_judge) {
    put_serving(spec, role);
    return role.generate.swap(role.log_prob);  // where a frozen role computes
  }
  if (role.kind == RoleKind::reference) return put_forward(spec, role);
  put_activations(spec, role);
  put_logits(spec, role, job.micro_batch, true, role.update);
  put_gather(role, job.zero_stage >= 3 || job.engine == Engine::fsdp, role.update);
  put_buckets(role, role.update);
  put_builtin_buffers(role, true, role.update);
}

}  // namespace cohort::plan::job
