#include "runtime/plan/estimate/memory_model.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"
#include "runtime/plan/estimate/batch.hpp"

namespace cohort::plan {
namespace {

using Kind = TensorSpec::Kind;
using Where = TensorSpec::Where;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Calls visit(group, count) for each run of joined families; count = layers that have it, 1 for an
/// end of the model.
template <class Visit>
void for_each_group(const std::vector<ShapeTensor>& tensors, Visit visit) {
  for (size_t i = 0; i < tensors.size();) {
    size_t end = i + 1;
    while (end < tensors.size() && tensors[end].is_joined) ++end;
    const TensorSpec& spec = tensors[i].spec;
    const bool is_layer = spec.where == Where::layers;
    visit(std::span(tensors).subspan(i, end - i),
          is_layer ? uint64_t{spec.end_layer} - spec.first_layer : 1);
    i = end;
  }
}

bool is_expert(const ShapeTensor& tensor) { return tensor.spec.kind == Kind::expert; }

/// Tensors of the family in one layer that a card holds: one for each routed expert there.
uint64_t copies(const ShapeTensor& tensor, uint64_t expert_ways) {
  return is_expert(tensor) ? tensor.spec.experts / expert_ways : 1;
}

/// Elements of one part of the flat buffer; the experts of a layer lie side by side.
uint64_t part_elements(std::span<const ShapeTensor> group, uint64_t expert_ways) {
  uint64_t elements = 0;
  for (const ShapeTensor& tensor : group)
    elements += tensor.elements() * copies(tensor, expert_ways);
  return round_up(elements, k_alignment_elements);
}

uint64_t flat_count(const std::vector<ShapeTensor>& tensors, uint64_t expert_ways = 1) {
  uint64_t sum = 0;
  for_each_group(tensors, [&](std::span<const ShapeTensor> group, uint64_t count) {
    sum += part_elements(group, expert_ways) * count;
  });
  return sum;
}

/// Cards that share the tensors of a family.
uint64_t sharers(const ShapeTensor& tensor, const TrainMemory& x) {
  return std::max<uint64_t>(x.shards, 1) / (is_expert(tensor) ? x.expert_ways : 1);
}

/// Elements of one card's shard, as compute::ZeroLayout lays it out.
uint64_t shard_count(const std::vector<ShapeTensor>& tensors, const TrainMemory& x) {
  if (x.shards <= 1) return flat_count(tensors);
  uint64_t sum = 0;
  for (const ShapeTensor& tensor : tensors)
    sum += divide_up(tensor.elements(), sharers(tensor, x)) * tensor.count() /
           (is_expert(tensor) ? x.expert_ways : 1);
  return round_up(sum, k_alignment_elements);
}

std::vector<ShapeTensor> trained_families(const ModelShape& shape, HeadKind head,
                                          const TrainMemory& x) {
  return x.lora ? families_of(model::lora_tensors_of(shape, *x.lora)) : families_of(shape, head);
}

StateBytes trained_elements(const ModelShape& shape, HeadKind head, const TrainMemory& x) {
  const std::vector<ShapeTensor> families = trained_families(shape, head, x);
  uint64_t flat = flat_count(families, x.expert_ways), shard = shard_count(families, x);
  return {x.zero_stage >= 3 ? shard : flat, x.zero_stage >= 2 ? shard : flat,
          x.zero_stage >= 1 ? shard : flat};
}

/// f32 arrays of the optimizer: from stage 1 on the master is cut with the moments.
uint64_t optimizer_arrays(const TrainMemory& x) {
  return x.has_master && x.zero_stage >= 1 && !x.lora ? 3 : 2;
}

uint64_t param_element_bytes(const TrainMemory& x) {
  if (x.lora) return 4;
  return x.param_bytes + (x.has_master && x.zero_stage == 0 ? 4 : 0);
}

StateBytes card_bytes(const ModelShape& shape, HeadKind head, const TrainMemory& x) {
  constexpr uint64_t k_pieces = 16;  // of a swapped optimizer
  StateBytes elements = trained_elements(shape, head, x);
  if (x.swap_optimizer)
    elements.optimizer = round_up(divide_up(elements.optimizer, k_pieces), k_alignment_elements);
  const uint64_t frozen =
      x.lora ? flat_element_count(shape, head, x.expert_ways) * x.param_bytes : 0;
  return {x.offload_params ? 0 : elements.params * param_element_bytes(x) + frozen,
          elements.grads * 4,
          x.offload_optimizer ? 0 : elements.optimizer * 4 * optimizer_arrays(x)};
}

StateBytes host_bytes(const ModelShape& shape, HeadKind head, const TrainMemory& x) {
  StateBytes elements = trained_elements(shape, head, x);
  bool is_hosted = x.offload_optimizer || x.swap_optimizer;
  return {x.offload_params ? elements.params * param_element_bytes(x) : 0, 0,
          is_hosted ? elements.optimizer * 4 * optimizer_arrays(x) : 0};
}

/// The model in the pieces that ranks exchange.
struct UnitElements {
  uint64_t flat = 0;   // whole, with padding
  uint64_t parts = 0;  // of one rank, of what several share
  void take_larger(const UnitElements& other) {
    flat = std::max(flat, other.flat);
    parts = std::max(parts, other.parts);
  }
};
struct ModelUnits {
  UnitElements embedding, layer, last;
};

/// A layer's units one after the other: experts that are cut over cards are one of their own.
class LayerUnits {
 public:
  void add(const UnitElements& one, bool is_apart) {
    if (units_.empty() || is_apart != is_last_apart_) units_.emplace_back();
    is_last_apart_ = is_apart;
    units_.back().flat += one.flat;
    units_.back().parts += one.parts;
  }
  UnitElements largest() const {
    UnitElements out;
    for (const UnitElements& unit : units_) out.take_larger(unit);
    return out;
  }

 private:
  std::vector<UnitElements> units_;
  bool is_last_apart_ = false;
};

ModelUnits units_of(const ModelShape& shape, HeadKind head, const TrainMemory& x) {
  const std::vector<ShapeTensor> tensors = trained_families(shape, head, x);
  LayerUnits embedding, last;
  std::vector<LayerUnits> layers(static_cast<size_t>(shape.num_hidden_layers));
  bool is_first = !x.lora;  // an adapter has layers alone
  for_each_group(tensors, [&](std::span<const ShapeTensor> group, uint64_t) {
    UnitElements one{part_elements(group, x.expert_ways), 0};
    for (const ShapeTensor& tensor : group)
      if (const uint64_t ways = sharers(tensor, x); ways > 1 || x.expert_ways == 1)
        one.parts += divide_up(tensor.elements(), ways) * copies(tensor, x.expert_ways);
    const TensorSpec& spec = group.front().spec;
    const bool is_apart = x.expert_ways > 1 && is_expert(group.front());
    if (is_first)
      embedding.add(one, false);
    else if (spec.where != Where::layers)
      last.add(one, false);
    else
      for (uint64_t layer = spec.first_layer; layer < spec.end_layer; ++layer)
        layers[layer].add(one, is_apart);
    is_first = false;
  });
  ModelUnits units{embedding.largest(), {}, last.largest()};
  for (const LayerUnits& layer : layers)  // dense layers and those with experts differ
    units.layer.take_larger(layer.largest());
  return units;
}

/// Whether weights lie in panels of columns: layers that the packed runner computes.
bool is_packed(const ModelShape& shape, const InferMemory& memory) {
  return memory.panel_columns > 0 && !shape.moe && !shape.mla && !shape.delta;
}

uint64_t block_tokens(const InferMemory& memory) {
  return memory.kv_block_tokens == 0 ? 1 : memory.kv_block_tokens;
}

}  // namespace

TrainMemory builtin_train_memory(uint64_t param_bytes) {
  TrainMemory memory;
  memory.param_bytes = param_bytes;
  memory.has_master = param_bytes < 4;
  return memory;
}

InferMemory builtin_infer_memory(uint64_t param_bytes, bool is_on_cpu) {
  InferMemory memory;
  memory.param_bytes = memory.kv_element_bytes = param_bytes;
  // Panels of the AVX-512 kernels; the AVX2 ones are 16 wide and take at most as much.
  memory.panel_columns = is_on_cpu ? 32 : 0;
  return memory;
}

uint64_t flat_element_count(const ModelShape& shape, HeadKind head, uint64_t expert_ways) {
  return flat_count(families_of(shape, head), expert_ways);
}

uint64_t panel_word_count(const ModelShape& shape, uint64_t panel, uint64_t param_bytes) {
  constexpr uint64_t k_word_bytes = 4;
  const uint64_t per_word = k_word_bytes / param_bytes;
  uint64_t sum = 0;
  for_each_group(families_of(shape), [&](std::span<const ShapeTensor> group, uint64_t count) {
    uint64_t columns = 0;  // output features of the fused matrix
    for (const ShapeTensor& tensor : group) columns += tensor.spec.outer * tensor.spec.split;
    const TensorSpec& first = group.front().spec;
    uint64_t depth = first.inner;
    if (first.kind == Kind::replicated || depth == 1) {
      bool is_matrix = depth == 1 && first.outer > 1;  // o and down: cut by columns
      if (is_matrix) {
        sum += round_up(first.outer, panel) * divide_up(first.split, per_word) * count;
        return;
      }
      uint64_t elements = 0;
      for (const ShapeTensor& tensor : group) elements += tensor.elements();
      sum += round_up(elements, std::max(panel, k_alignment_elements)) * count;
      return;
    }
    // gate and up lie side by side: a panel is half gate columns, half up columns
    if (first.outer == 2)
      sum += divide_up(first.split, panel / 2) * panel * divide_up(depth, per_word) * count;
    else
      sum += round_up(columns, panel) * divide_up(depth, per_word) * count;
  });
  return sum;
}

uint64_t kv_bytes_per_token(const ModelShape& x, uint64_t element_bytes) {
  return kv_bytes_on_card(x, {}, element_bytes);
}

uint64_t kv_bytes_per_token(const ModelShape& x, const InferMemory& memory) {
  uint64_t bytes = kv_bytes_per_token(x, memory.kv_element_bytes);
  if (!is_packed(x, memory)) return bytes;
  uint64_t padding = round_up(x.head_dim, k_alignment_elements) - x.head_dim;
  return bytes + x.num_hidden_layers * x.num_key_value_heads * padding * memory.kv_element_bytes;
}

std::map<Object, uint64_t> train_bytes(const ModelShape& shape, const TrainMemory& memory,
                                       HeadKind head) {
  StateBytes bytes = card_bytes(shape, head, memory);
  return {{Object::train_params, bytes.params},
          {Object::grads, bytes.grads},
          {Object::optimizer, bytes.optimizer}};
}

std::map<Object, uint64_t> train_host_bytes(const ModelShape& shape, const TrainMemory& memory) {
  StateBytes bytes = host_bytes(shape, HeadKind::language, memory);
  return {{Object::train_params, bytes.params}, {Object::optimizer, bytes.optimizer}};
}

TrainBuffers train_buffers(const ModelShape& shape, const TrainMemory& x, HeadKind head) {
  ModelUnits units = units_of(shape, head, x);
  TrainBuffers out;
  if (x.shards > 1) {
    // Gradients travel as products make them; at stage 0 their f32 sums are gathered too.
    uint64_t element = x.zero_stage == 0 || x.lora ? 4 : x.param_bytes;
    uint64_t part = std::max({units.embedding.parts, units.layer.parts, units.last.parts});
    out.exchange = 2 * x.shards * part * element;
  }
  if (x.zero_stage < 3 && !x.offload_params) return out;
  bool is_tied = shape.tie_word_embeddings && head == HeadKind::language;
  uint64_t last = units.last.flat + (is_tied ? units.embedding.flat : 0);
  out.gathered = std::max({units.embedding.flat, units.layer.flat, last}) * x.param_bytes;
  return out;
}

std::map<Object, uint64_t> infer_bytes(const ModelShape& shape, const InferMemory& memory) {
  uint64_t tokens = round_up(memory.kv_tokens, block_tokens(memory));
  constexpr uint64_t k_word_bytes = 4;
  const uint64_t params =
      is_packed(shape, memory)
          ? panel_word_count(shape, memory.panel_columns, memory.param_bytes) * k_word_bytes
          : flat_element_count(shape) * memory.param_bytes;
  return {{Object::infer_params, params},
          {Object::kv_cache, tokens * kv_bytes_per_token(shape, memory)}};
}

std::map<Object, uint64_t> reference_bytes(const ModelShape& shape, uint64_t param_bytes) {
  return {{Object::ref_params, flat_element_count(shape) * param_bytes}};
}

std::map<Object, uint64_t> critic_bytes(const ModelShape& shape, const TrainMemory& memory) {
  StateBytes bytes = card_bytes(shape, HeadKind::value, memory);
  return {{Object::critic_params, bytes.params},
          {Object::critic_grads, bytes.grads},
          {Object::critic_optimizer, bytes.optimizer}};
}

std::string_view to_string(Engine engine) {
  return name_in({"builtin", "deepspeed", "fsdp", "megatron", "vllm", "sglang", "hf"}, engine);
}

StateBytes state_of(Engine engine, uint64_t param_bytes) {
  bool is_half = param_bytes < 4;
  switch (engine) {
    case Engine::builtin:
      return {param_bytes + (is_half ? 4 : 0), 4, 8};
    case Engine::fsdp:
      return {4, 4, 8};
    case Engine::megatron:
      return {param_bytes, 4, is_half ? 12u : 8u};
    default:
      return {param_bytes, param_bytes, is_half ? 12u : 8u};
  }
}

std::vector<uint32_t> stage_layers(uint64_t layers, uint32_t pp) {
  std::vector<uint32_t> out(pp, static_cast<uint32_t>(layers / pp));
  for (size_t i = 0; i < layers % pp; ++i) ++out[i];
  return out;
}

namespace {

std::vector<uint32_t> layers_of(const ModelShape& shape, const ShardCut& cut) {
  return cut.layers_per_stage.empty() ? stage_layers(shape.num_hidden_layers, cut.pp)
                                      : cut.layers_per_stage;
}

/// Layers of the family that the stage holds; 1 or 0 for an end.
uint64_t layers_held(const TensorSpec& spec, const std::vector<uint32_t>& layers, uint32_t stage) {
  bool is_first = stage == 0, is_last = stage + 1 == layers.size();
  switch (spec.where) {
    case Where::first_stage:
      return is_first;
    case Where::last_stage:
      return is_last;
    case Where::both_ends:
      return is_first || is_last;
    case Where::layers:
      break;
  }
  uint64_t begin = 0;
  for (uint32_t i = 0; i < stage; ++i) begin += layers[i];
  uint64_t end = begin + layers[stage];
  begin = std::max<uint64_t>(begin, spec.first_layer);
  end = std::min<uint64_t>(end, spec.end_layer);
  return end > begin ? end - begin : 0;
}

/// Elements of one tensor of the family on one rank.
uint64_t slice_elements(const TensorSpec& spec, const ShardCut& cut) {
  uint64_t ways = spec.kind == Kind::replicated ? 1
                  : spec.kind == Kind::expert   ? cut.expert_tp
                                                : cut.tp;
  if (spec.may_repeat) ways = std::min<uint64_t>(ways, spec.parts);
  return spec.outer * divide_up(spec.split, ways) * spec.inner;
}

}  // namespace

ShardElements shard_elements(const ModelShape& shape, const ShardCut& cut, uint32_t stage,
                             HeadKind head) {
  std::vector<uint32_t> layers = layers_of(shape, cut);
  ShardElements out;
  for (const ShapeTensor& tensor : families_of(shape, head)) {
    uint64_t held = layers_held(tensor.spec, layers, stage) * slice_elements(tensor.spec, cut);
    if (tensor.spec.kind == Kind::expert)
      out.experts += held * divide_up(tensor.spec.experts, cut.ep);
    else
      out.dense += held;
  }
  return out;
}

uint32_t largest_stage(const ModelShape& shape, const ShardCut& cut, HeadKind head) {
  uint32_t best = 0;
  for (uint32_t stage = 1; stage < cut.pp; ++stage)
    if (shard_elements(shape, cut, stage, head).total() >
        shard_elements(shape, cut, best, head).total())
      best = stage;
  return best;
}

namespace {

Error bad_cut(const std::string& role, const std::string& what) {
  return {Errc::invalid_argument, role + ": " + what};
}

Expected<void> check_tp(const ModelShape& x, const ShardCut& cut, const std::string& role) {
  uint64_t tp = cut.tp, heads = x.num_attention_heads, kv = x.num_key_value_heads;
  auto fits_kv = [&](uint64_t n) { return x.mla || kv % n == 0 || n % kv == 0; };
  std::string asked = "tensor parallel " + std::to_string(tp);
  if (heads % tp != 0)
    return bad_cut(role, asked + " does not divide num_attention_heads " + std::to_string(heads) +
                             ": " + std::to_string(heads) + " = " + std::to_string(heads / tp) +
                             "*" + std::to_string(tp) + " + " + std::to_string(heads % tp) +
                             "; nearest that work: " + nearest_divisors(heads, tp, fits_kv));
  if (!fits_kv(tp))
    return bad_cut(role, asked + " neither divides nor is a multiple of num_key_value_heads " +
                             std::to_string(kv) +
                             "; nearest that work: " + nearest_divisors(heads, tp, fits_kv));
  return {};
}

Expected<void> check_ep(const ModelShape& x, const ShardCut& cut, const std::string& role) {
  if (cut.ep > 1 && !x.moe)
    return bad_cut(role, "expert parallel " + std::to_string(cut.ep) +
                             " for a model without experts; set it to 1");
  if (!x.moe) return {};
  uint64_t experts = x.moe->num_experts;
  if (experts % cut.ep != 0)
    return bad_cut(role, "expert parallel " + std::to_string(cut.ep) +
                             " does not divide num_experts " + std::to_string(experts) +
                             "; nearest that work: " + nearest_divisors(experts, cut.ep));
  if (x.moe->moe_intermediate_size % cut.expert_tp != 0)
    return bad_cut(role, "expert tensor parallel " + std::to_string(cut.expert_tp) +
                             " does not divide moe_intermediate_size " +
                             std::to_string(x.moe->moe_intermediate_size));
  return {};
}

}  // namespace

Expected<void> check_cut(const ModelShape& x, const ShardCut& cut, const std::string& role) {
  if (cut.tp == 0 || cut.pp == 0 || cut.ep == 0 || cut.expert_tp == 0)
    return bad_cut(role, "a parallel degree is 0; the least is 1");
  COHORT_TRY(check_tp(x, cut, role));
  COHORT_TRY(check_ep(x, cut, role));
  if (cut.pp > x.num_hidden_layers)
    return bad_cut(role, "pipeline parallel " + std::to_string(cut.pp) + " for " +
                             std::to_string(x.num_hidden_layers) + " layers; at most " +
                             std::to_string(x.num_hidden_layers));
  if (cut.layers_per_stage.empty()) return {};
  int64_t sum = 0;
  for (uint32_t layers : cut.layers_per_stage) sum += layers;
  if (cut.layers_per_stage.size() != cut.pp || sum != x.num_hidden_layers)
    return bad_cut(role, std::to_string(cut.layers_per_stage.size()) + " stages of together " +
                             std::to_string(sum) + " layers; the model has " +
                             std::to_string(x.num_hidden_layers) + " layers for " +
                             std::to_string(cut.pp) + " stages");
  return {};
}

namespace {

/// Most layers of one stage that keep keys and values, or (is_delta) a state of their own.
uint64_t most_layers(const ModelShape& x, const ShardCut& cut, bool is_delta) {
  uint64_t most = 0;
  int64_t layer = 0;
  for (uint32_t layers : layers_of(x, cut)) {
    uint64_t here = 0;
    for (const int64_t end = layer + layers; layer < end; ++layer)
      here += (x.delta && x.delta->is_in(layer)) == is_delta;
    most = std::max(most, here);
  }
  return most;
}

}  // namespace

uint64_t state_bytes_on_card(const ModelShape& x, const ShardCut& cut, uint64_t element_bytes) {
  if (!x.delta) return 0;
  const model::DeltaShape& d = *x.delta;
  const uint64_t mixed = 2 * d.key_size() + d.value_size();
  const uint64_t matrix = divide_up(d.value_heads, cut.tp) * d.key_head_dim * d.value_head_dim;
  const uint64_t window = divide_up(mixed, cut.tp) * (d.conv_kernel - 1);
  constexpr uint64_t k_state_bytes = 4;  // mamba_ssm_dtype: float32
  return most_layers(x, cut, true) * (matrix * k_state_bytes + window * element_bytes);
}

uint64_t kv_bytes_on_card(const ModelShape& x, const ShardCut& cut, uint64_t element_bytes) {
  const uint64_t most = most_layers(x, cut, false);
  if (x.mla) return most * (x.mla->kv_lora_rank + x.mla->qk_rope_head_dim) * element_bytes;
  uint64_t heads = divide_up(x.num_key_value_heads, cut.tp);
  return 2 * most * heads * x.head_dim * element_bytes;
}

}  // namespace cohort::plan
