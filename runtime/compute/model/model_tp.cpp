#include "runtime/compute/model/model_tp.hpp"

#include <fmt/format.h>

#include <utility>

namespace cohort::compute {

Expected<ModelConfig> tp_config(const ModelConfig& whole, int size) {
  COHORT_TRY(validate(whole));
  if (size < 1)
    return Error{Errc::invalid_argument, fmt::format("model: tensor parallel size = {}", size)};
  const auto refused = [size](const char* field, int64_t value) {
    return Error{Errc::invalid_argument,
                 fmt::format("model: tensor parallel size {} does not divide {} = {}; choose a "
                             "size that divides heads, the MLPs' widths and vocab_size",
                             size, field, value)};
  };
  const model::MoeShape moe = whole.moe.value_or(model::MoeShape{});
  for (auto [name, value] :
       {std::pair{"num_attention_heads", whole.num_attention_heads},
        std::pair{"intermediate_size", whole.intermediate_size},
        std::pair{"moe_intermediate_size", moe.moe_intermediate_size},
        std::pair{"the width of the shared experts", moe.shared_intermediate_size},
        std::pair{"vocab_size", whole.vocab_size}})
    if (value % size != 0) return refused(name, value);
  const int64_t kv = whole.num_key_value_heads;
  if (!whole.mla && kv % size != 0 && size % kv != 0)
    return Error{Errc::invalid_argument,
                 fmt::format("model: num_key_value_heads = {} and tensor parallel size {}: one "
                             "must be a multiple of the other",
                             kv, size)};
  return ModelConfig{model::tp_part(whole, size), whole.dtype};
}

}  // namespace cohort::compute
