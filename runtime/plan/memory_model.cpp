#include "runtime/plan/memory_model.hpp"

#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

namespace cohort::plan {
namespace {

__extension__ using Wide = unsigned __int128;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t divide_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

/// Calls visit(elements) for each tensor of the transformer without its output head.
template <class Visit>
void for_each_body_tensor(const ModelShape& x, Visit visit) {
  uint64_t q = x.num_attention_heads * x.head_dim, kv = x.num_key_value_heads * x.head_dim;
  visit(x.vocab_size * x.hidden_size, uint64_t{1});
  for (uint64_t elements :
       {x.hidden_size, x.hidden_size, q * x.hidden_size, kv * x.hidden_size, kv * x.hidden_size,
        x.hidden_size * q, x.intermediate_size * x.hidden_size, x.intermediate_size * x.hidden_size,
        x.hidden_size * x.intermediate_size})
    visit(elements, x.num_hidden_layers);
  if (x.attention_bias)
    for (uint64_t elements : {q, kv, kv}) visit(elements, x.num_hidden_layers);
  visit(x.hidden_size, uint64_t{1});
}

struct TensorSums {
  uint64_t exact = 0, padded = 0;
  void operator()(uint64_t elements, uint64_t count) {
    exact += elements * count;
    padded += round_up(elements, k_alignment_elements) * count;
  }
};

TensorSums body_sums(const ModelShape& shape) {
  TensorSums sums;
  for_each_body_tensor(shape, [&](uint64_t elements, uint64_t count) { sums(elements, count); });
  return sums;
}

TensorSums policy_sums(const ModelShape& shape) {
  TensorSums sums = body_sums(shape);
  if (!shape.tie_word_embeddings) sums(shape.vocab_size * shape.hidden_size, 1);
  return sums;
}

std::map<Object, uint64_t> optimised_bytes(uint64_t elements, const TrainMemory& memory,
                                           Object params, Object grads, Object optimizer) {
  uint64_t shard = round_up(divide_up(elements, memory.shards), k_alignment_elements);
  uint64_t moments = memory.optimizer == OptimizerKind::adamw ? 2 : 0;
  uint64_t state = 4 * (moments + (memory.has_master ? 1 : 0));  // f32 all
  return {{params, shard * memory.param_bytes},
          {grads, shard * memory.grad_bytes * memory.grad_copies},
          {optimizer, shard * state}};
}

uint64_t block_tokens(const InferMemory& memory) {
  return memory.kv_block_tokens == 0 ? 1 : memory.kv_block_tokens;
}

}  // namespace

uint64_t parameter_count(const ModelShape& shape) { return policy_sums(shape).exact; }

uint64_t flat_element_count(const ModelShape& shape) { return policy_sums(shape).padded; }

uint64_t kv_bytes_per_token(const ModelShape& x, uint64_t element_bytes) {
  return 2 * x.num_hidden_layers * x.num_key_value_heads * x.head_dim * element_bytes;
}

std::map<Object, uint64_t> train_bytes(const ModelShape& shape, const TrainMemory& memory) {
  return optimised_bytes(flat_element_count(shape), memory, Object::train_params, Object::grads,
                         Object::optimizer);
}

std::map<Object, uint64_t> infer_bytes(const ModelShape& shape, const InferMemory& memory) {
  uint64_t tokens = round_up(memory.kv_tokens, block_tokens(memory));
  return {{Object::infer_params, flat_element_count(shape) * memory.param_bytes},
          {Object::kv_cache, tokens * kv_bytes_per_token(shape, memory.kv_element_bytes)}};
}

std::map<Object, uint64_t> reference_bytes(const ModelShape& shape, uint64_t param_bytes) {
  return {{Object::ref_params, flat_element_count(shape) * param_bytes}};
}

std::map<Object, uint64_t> critic_bytes(const ModelShape& shape, const TrainMemory& memory) {
  TensorSums sums = body_sums(shape);
  sums(shape.hidden_size, 1);  // the value head
  return optimised_bytes(sums.padded, memory, Object::critic_params, Object::critic_grads,
                         Object::critic_optimizer);
}

uint64_t kv_tokens_within(const ModelShape& shape, const InferMemory& memory, uint64_t bytes) {
  uint64_t per_token = kv_bytes_per_token(shape, memory.kv_element_bytes);
  if (per_token == 0) return 0;
  uint64_t tokens = bytes / per_token;
  return tokens - tokens % block_tokens(memory);
}

Expected<void> check_shape(const ModelShape& x) {
  for (auto [name, value] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"vocab_size", x.vocab_size},
           {"hidden_size", x.hidden_size},
           {"num_hidden_layers", x.num_hidden_layers},
           {"num_attention_heads", x.num_attention_heads},
           {"num_key_value_heads", x.num_key_value_heads},
           {"head_dim", x.head_dim},
           {"intermediate_size", x.intermediate_size}}) {
    if (value == 0) return Error{Errc::invalid_argument, "model: " + std::string(name) + " is 0"};
    if (value > uint64_t{1} << 32)
      return Error{Errc::invalid_argument,
                   "model: " + std::string(name) + " " + std::to_string(value) + " is over 2^32"};
  }
  if (x.num_attention_heads % x.num_key_value_heads != 0)
    return Error{Errc::invalid_argument, "model: num_attention_heads " +
                                             std::to_string(x.num_attention_heads) +
                                             " is not a multiple of num_key_value_heads " +
                                             std::to_string(x.num_key_value_heads)};
  Wide widest = Wide{x.num_attention_heads} * x.head_dim;
  if (widest < x.intermediate_size) widest = x.intermediate_size;
  if (widest > std::numeric_limits<uint32_t>::max() || x.hidden_size > (uint64_t{1} << 24))
    return Error{Errc::invalid_argument, "model: a layer this wide is not addressable"};
  // 7 matrices a layer, two embeddings, 20 bytes of training state per element at most.
  Wide bound =
      (widest * x.hidden_size * 9 * x.num_hidden_layers + Wide{x.vocab_size} * x.hidden_size * 2) *
      20;
  if (bound > std::numeric_limits<uint64_t>::max())
    return Error{Errc::invalid_argument, "model: its bytes do not fit 64 bits"};
  return {};
}

}  // namespace cohort::plan
