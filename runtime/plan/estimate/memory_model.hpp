#pragma once
/// Bytes of each residency object, from shapes alone. Pure. The ledger corrects them by
/// measurement.
///
/// Two kinds of arithmetic. The built-in engine (runtime/compute on the cpu platform), to the byte:
/// one flat buffer in which each tensor, or fused group of tensors, starts at a multiple of
/// k_alignment_elements; generation in f32 packs the weights into panels of columns, but for models
/// with routed experts or latent attention, whose weights stay as they are published. The named
/// engines, by what they are known to hold per element (state_of): DeepSpeed keeps bf16 parameters
/// and gradients, and f32 master and moments with the optimizer; FSDP (as verl sets it up) f32
/// parameters, gradients and moments, all cut over the ranks; Megatron bf16 parameters, f32
/// gradients, f32 master and moments. ZeRO stage 1 cuts the optimizer, 2 gradients too, 3
/// parameters too (arXiv 1910.02054, section 5); CPU offload moves an object to host memory.
///
/// MEM-1: the shards of all ranks together hold every parameter at least once; exactly once where
/// every degree divides and nothing is replicated.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/place/residency.hpp"
#include "runtime/plan/reshard/model_families.hpp"

namespace cohort::plan {

inline constexpr uint64_t k_alignment_elements = 16;  // 64 bytes of f32: one cache line

inline uint64_t divide_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

/// Training state of the built-in engine: gradients and AdamW's moments in f32. ZeRO cuts each
/// tensor, taken flat, in `shards` parts of ceil(count / shards) elements
/// (runtime/compute/train/zero_layout.hpp).
struct TrainMemory {
  uint64_t param_bytes = 4;  // per element as the forward pass reads it
  /// An f32 copy beside bf16 parameters: counted with them, from stage 1 on with the optimizer.
  bool has_master = false;
  uint64_t shards = 1;      // cards of the group
  uint32_t zero_stage = 0;  // 1 cuts the optimizer, 2 gradients too, 3 parameters too
  bool offload_optimizer = false, offload_params = false;  // they rest on the host
  bool swap_optimizer = false;  // likewise; a sixteenth of each array is on the card
  /// What is trained is this adapter, in f32; the model itself is frozen and whole on each card.
  std::optional<model::LoraShape> lora = {};
  uint64_t expert_ways = 1;  // cards over which routed experts are cut; the stage is below 3 then
};

struct InferMemory {
  uint64_t param_bytes = 4;       // per element
  uint64_t kv_element_bytes = 4;  // per element of the KV cache
  uint64_t kv_tokens = 0;         // token slots of one card's cache, rounded up to whole blocks
  uint64_t kv_block_tokens = 16;
  uint64_t panel_columns = 0;  // >0: weights in panels, value vectors padded to 16 (CPU runner)
};

/// Returns what runtime/compute allocates for parameters of `param_bytes` (2 or 4) per element.
TrainMemory builtin_train_memory(uint64_t param_bytes);
/// Likewise; kv_tokens is left at 0. On other cards than the host's the weights lie flat.
InferMemory builtin_infer_memory(uint64_t param_bytes, bool is_on_cpu = true);

/// Returns the elements of the flat buffer, as compute::layout_of lays it out, of a card that holds
/// 1 / expert_ways of the routed experts.
uint64_t flat_element_count(const ModelShape& shape, HeadKind head = HeadKind::language,
                            uint64_t expert_ways = 1);
/// Returns the words of 4 bytes of the CPU runner's weights: its matrices are panels of columns, a
/// word holds one f32 or two bf16 of a column; norm weights and biases are f32.
uint64_t panel_word_count(const ModelShape& shape, uint64_t panel_columns, uint64_t param_bytes);
/// Returns bytes of keys and values of one token over all layers (of the latent with MLA).
uint64_t kv_bytes_per_token(const ModelShape& shape, uint64_t element_bytes);
/// Returns the same as `memory` lays it out.
uint64_t kv_bytes_per_token(const ModelShape& shape, const InferMemory& memory);

/// Returns train_params, grads and optimizer per card.
std::map<Object, uint64_t> train_bytes(const ModelShape& shape, const TrainMemory& memory,
                                       HeadKind head = HeadKind::language);
/// Returns what of them rests in host memory, per card: nothing unless offloaded or swapped.
std::map<Object, uint64_t> train_host_bytes(const ModelShape& shape, const TrainMemory& memory);
/// What a step of the built-in engine takes on the card beside the objects.
struct TrainBuffers {
  uint64_t exchange = 0;  // messages of a unit (embedding; a layer; final norm and head)
  uint64_t gathered = 0;  // by unit (ZeRO 3, offload_params): the largest that is there whole
  bool operator==(const TrainBuffers&) const = default;
};
TrainBuffers train_buffers(const ModelShape& shape, const TrainMemory& memory,
                           HeadKind head = HeadKind::language);
/// Returns infer_params and kv_cache per card.
std::map<Object, uint64_t> infer_bytes(const ModelShape& shape, const InferMemory& memory);
/// Returns ref_params per card.
std::map<Object, uint64_t> reference_bytes(const ModelShape& shape, uint64_t param_bytes);
/// Returns critic_params, critic_grads and critic_optimizer per card: the model with a value head
/// [hidden] in place of the output head.
std::map<Object, uint64_t> critic_bytes(const ModelShape& shape, const TrainMemory& memory);

/// Whose arithmetic a role's bytes follow.
enum class Engine : uint8_t { builtin, deepspeed, fsdp, megatron, vllm, sglang, hf };
std::string_view to_string(Engine engine);

/// Bytes per element of a training engine's objects.
struct StateBytes {
  uint64_t params = 0, grads = 0, optimizer = 0;
};
StateBytes state_of(Engine engine, uint64_t param_bytes);

/// How a role cuts the model; ZeRO comes after it.
struct ShardCut {
  uint32_t tp = 1, pp = 1;
  uint32_t ep = 1, expert_tp = 1;               // experts over ep slots, each cut by expert_tp
  std::vector<uint32_t> layers_per_stage = {};  // empty: stage_layers
};

struct ShardElements {
  uint64_t dense = 0, experts = 0;
  uint64_t total() const { return dense + experts; }
  bool operator==(const ShardElements&) const = default;
};

/// Returns layers per stage, as even as pp allows, larger stages first.
std::vector<uint32_t> stage_layers(uint64_t layers, uint32_t pp);
/// Returns the elements that one rank of `stage` holds. REQUIRES: check_cut passed.
ShardElements shard_elements(const ModelShape& shape, const ShardCut& cut, uint32_t stage,
                             HeadKind head = HeadKind::language);
/// Returns the stage that holds the most, the first of equals.
uint32_t largest_stage(const ModelShape& shape, const ShardCut& cut,
                       HeadKind head = HeadKind::language);
/// Returns Errc::invalid_argument, with the nearest values that work, for TP that does not divide
/// the heads (or neither divides nor is a multiple of the key-value heads), EP that does not divide
/// the experts, more stages than layers, or layers_per_stage that do not sum up. `role` is named.
Expected<void> check_cut(const ModelShape& shape, const ShardCut& cut, const std::string& role);

/// Returns KV bytes of one token on one card: `layers` of the stage, key-value heads over TP (one
/// at least), the latent whole.
uint64_t kv_bytes_on_card(const ModelShape& shape, const ShardCut& cut, uint64_t element_bytes);
/// Returns bytes of one sequence's states on one card: of each gated delta net a matrix
/// [key_head_dim, value_head_dim] in f32 per value head over TP, and what its convolution looks
/// back on.
uint64_t state_bytes_on_card(const ModelShape& shape, const ShardCut& cut, uint64_t element_bytes);

}  // namespace cohort::plan
