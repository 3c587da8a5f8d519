#include "runtime/compute/model/model_tp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"

namespace cohort::compute {

Expected<ModelConfig> tp_config(const ModelConfig& whole, int size) {
  COHORT_TRY(validate(whole));
  if (size < 1)
    return Error{Errc::invalid_argument, fmt::format("model: tensor parallel size = {}", size)};
  const auto refused = [size](const char* field, int64_t value) {
    return Error{Errc::invalid_argument,
                 fmt::format("model: tensor parallel size {} does not divide {} = {}; choose a "
                             "size that divides heads, intermediate_size and vocab_size",
                             size, field, value)};
  };
  for (auto [name, value] : {std::pair{"num_attention_heads", whole.num_attention_heads},
                             std::pair{"intermediate_size", whole.intermediate_size},
                             std::pair{"vocab_size", whole.vocab_size}})
    if (value % size != 0) return refused(name, value);
  const int64_t kv = whole.num_key_value_heads;
  if (kv % size != 0 && size % kv != 0)
    return Error{Errc::invalid_argument,
                 fmt::format("model: num_key_value_heads = {} and tensor parallel size {}: one "
                             "must be a multiple of the other",
                             kv, size)};
  return ModelConfig{model::tp_part(whole, size), whole.dtype};
}

std::vector<TpSlice> tp_slices(const ModelConfig& whole, const TpRank& at) {
  COHORT_CHECK(at.rank >= 0 && at.rank < at.size, "TP-1: a rank outside its group");
  const ParameterLayout all = layout_of(whole);
  const ParameterLayout part = layout_of(tp_config(whole, at.size).value());
  std::vector<TpSlice> slices;
  slices.reserve(all.specs.size());
  for (size_t i = 0; i < all.specs.size(); ++i) {
    const auto extent = [](const ParameterSpec& spec, size_t axis) {
      return axis < spec.shape.size() ? spec.shape[axis] : 1;
    };
    const ParameterSpec& from = all.specs[i];
    const ParameterSpec& to = part.specs[i];
    TpSlice slice{from.offset, extent(from, 1), to.offset, extent(to, 0), extent(to, 1)};
    // Parts of the axis that was cut; fewer than ranks where key-value heads are repeated.
    const auto first = [&](size_t axis) {
      const int64_t parts = extent(from, axis) / extent(to, axis);
      return at.rank * parts / at.size * extent(to, axis);
    };
    slice.source += first(0) * slice.source_stride + first(1);
    slices.push_back(slice);
  }
  return slices;
}

void cut_flat(const ModelConfig& whole, const TpRank& at, size_t element_bytes,
              std::span<const std::byte> flat, std::span<std::byte> part) {
  const auto bytes = [element_bytes](int64_t elements) {
    return static_cast<size_t>(elements) * element_bytes;
  };
  COHORT_CHECK(
      flat.size() == bytes(layout_of(whole).total_elements) &&
          part.size() == bytes(layout_of(tp_config(whole, at.size).value()).total_elements),
      "TP-1: a flat buffer has another size than its layout");
  std::fill(part.begin(), part.end(), std::byte{0});
  for (const TpSlice& slice : tp_slices(whole, at))
    for (int64_t row = 0; row < slice.rows; ++row)
      std::memcpy(part.data() + bytes(slice.target + row * slice.columns),
                  flat.data() + bytes(slice.source + row * slice.source_stride),
                  bytes(slice.columns));
}

}  // namespace cohort::compute
