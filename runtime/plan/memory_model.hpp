#pragma once
/// Bytes of each residency object, from shapes alone. Pure. The ledger corrects them by
/// measurement.
///
/// Parameters of the decoder family of DESIGN 7: embedding (tied with the output head, or a second
/// matrix); per layer two norms, q, k, v (with biases when attention_bias), o, gate, up, down; a
/// final norm. Each tensor starts at a multiple of k_alignment_elements in the flat buffer, so a
/// prediction is padded.
#include <cstdint>
#include <map>

#include "runtime/base/error.hpp"
#include "runtime/plan/residency.hpp"

namespace cohort::plan {

inline constexpr uint64_t k_alignment_elements = 16;  // 64 bytes of f32: one cache line

struct ModelShape {
  uint64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  uint64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  bool attention_bias = false;
  bool tie_word_embeddings = true;
};

enum class OptimizerKind : uint8_t { sgd = 0, adamw = 1 };  // 0 and 2 moments per parameter

struct TrainMemory {
  uint64_t param_bytes = 4;  // per element as the forward pass reads it
  uint64_t grad_bytes = 4;   // per element
  uint64_t grad_copies = 1;  // one per training thread when each sums its own
  OptimizerKind optimizer = OptimizerKind::adamw;
  bool has_master = false;  // an f32 copy beside bf16 parameters, counted with the optimizer
  uint64_t shards = 1;      // ZeRO-style equal cut of parameters, gradients and moments over cards
};

struct InferMemory {
  uint64_t param_bytes = 4;       // per element
  uint64_t kv_element_bytes = 4;  // per element of the KV cache
  uint64_t kv_tokens = 0;         // token slots of one card's cache, rounded up to whole blocks
  uint64_t kv_block_tokens = 16;
};

/// Returns the parameters of the model, without padding.
uint64_t parameter_count(const ModelShape& shape);
/// Returns the elements of the flat buffer: each tensor padded to k_alignment_elements.
uint64_t flat_element_count(const ModelShape& shape);
/// Returns bytes of keys and values of one token over all layers.
uint64_t kv_bytes_per_token(const ModelShape& shape, uint64_t element_bytes);

/// Returns train_params, grads and optimizer per card.
std::map<Object, uint64_t> train_bytes(const ModelShape& shape, const TrainMemory& memory);
/// Returns infer_params and kv_cache per card.
std::map<Object, uint64_t> infer_bytes(const ModelShape& shape, const InferMemory& memory);
/// Returns ref_params per card.
std::map<Object, uint64_t> reference_bytes(const ModelShape& shape, uint64_t param_bytes);
/// Returns critic_params, critic_grads and critic_optimizer per card: the model with a value head
/// [hidden] in place of the output head.
std::map<Object, uint64_t> critic_bytes(const ModelShape& shape, const TrainMemory& memory);

/// Returns the token slots (whole blocks) of a cache that fits in `bytes`.
uint64_t kv_tokens_within(const ModelShape& shape, const InferMemory& memory, uint64_t bytes);

/// Returns Errc::invalid_argument, naming the field, for a zero size, heads that are not a multiple
/// of the key-value heads, or a product that would not fit 64 bits.
Expected<void> check_shape(const ModelShape& shape);

}  // namespace cohort::plan
