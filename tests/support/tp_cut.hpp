#pragma once
/// A rank's part of a whole model's flat buffer, tensor by tensor (TP-1, model_tp.hpp); a publisher
/// brings the same by a reshard plan. Header only.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/compute/model/model_tp.hpp"

namespace cohort::tests {

/// One tensor's part as a box of the whole model's flat buffer; it lies tight in the rank's.
struct TpSlice {
  int64_t source = 0;         // [elements] first element in the whole buffer
  int64_t source_stride = 0;  // [elements] from row to row there
  int64_t target = 0;         // [elements] first element in the rank's buffer
  int64_t rows = 0;
  int64_t columns = 0;
};

inline std::vector<TpSlice> tp_slices(const compute::ModelConfig& whole,
                                      const compute::TpRank& at) {
  using compute::layout_of, compute::ParameterLayout, compute::ParameterSpec, compute::tp_config;
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

/// Copies the rank's part out of a whole flat buffer; what lies between tensors becomes zero
/// (LAYOUT-3). REQUIRES: both spans have the sizes of their layouts in `element_bytes`.
inline void cut_flat(const compute::ModelConfig& whole, const compute::TpRank& at,
                     size_t element_bytes, std::span<const std::byte> flat,
                     std::span<std::byte> part) {
  using compute::layout_of, compute::tp_config;
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

}  // namespace cohort::tests
