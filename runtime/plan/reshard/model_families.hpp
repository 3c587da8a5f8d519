#pragma once
/// A model's tensors (model::tensors_of) as the families that the planners move and count. Pure.
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/model/lora.hpp"
#include "runtime/model/shape.hpp"
#include "runtime/model/tensors.hpp"
#include "runtime/plan/reshard/reshard_layout.hpp"

namespace cohort::plan {

using model::HeadKind;
using model::ModelShape;

/// A family of tensors (reshard_layout.hpp), and how it lies in a flat buffer.
struct ShapeTensor {
  TensorSpec spec;
  bool is_joined = false;  // follows the family before it without padding (q,k,v)
  uint64_t elements() const { return spec.outer * spec.split * spec.inner; }  // of one tensor
  /// Returns the tensors of the family in `layers` of its layers (of all experts); 1 for an end.
  uint64_t count(uint64_t layers) const;
  uint64_t count() const { return count(spec.end_layer - spec.first_layer); }  // in the whole model
};

/// Returns the families in the order of the flat buffer: embedding, layers, final norm, head. Gate
/// and up are one family, [2, rows, columns].
std::vector<ShapeTensor> families_of(const ModelShape& shape, HeadKind head = HeadKind::language);
/// The same of any list of tensors: what is stacked joins the family before it.
std::vector<ShapeTensor> families_of(const std::vector<model::Tensor>& tensors);
/// Returns the same for the reshard planner, with `element_bytes` per element: of the model, or of
/// its adapter alone.
ModelTensors reshard_tensors_of(const ModelShape& shape, uint64_t element_bytes,
                                const std::optional<model::LoraShape>& lora = {});

}  // namespace cohort::plan
