#include "runtime/plan/reshard/model_families.hpp"

#include <algorithm>
#include <utility>

namespace cohort::plan {
namespace {

/// Extents of a matrix are those of the flat [out, in] weight, seen as [outer, split, inner].
TensorSpec spec_of(const model::Tensor& tensor) {
  TensorSpec spec;
  spec.name = tensor.family;
  spec.where = static_cast<TensorSpec::Where>(tensor.where);
  spec.first_layer = static_cast<uint32_t>(tensor.first_layer);
  spec.end_layer = static_cast<uint32_t>(tensor.end_layer);
  spec.parts = static_cast<uint32_t>(tensor.parts);
  spec.may_repeat = tensor.may_repeat;
  spec.tp_first = tensor.tp_first;
  spec.experts = static_cast<uint32_t>(tensor.experts);
  const auto rows = static_cast<uint64_t>(tensor.rows);
  const auto columns = static_cast<uint64_t>(std::max<int64_t>(tensor.columns, 1));
  spec.kind = tensor.experts > 0                ? TensorSpec::Kind::expert
              : tensor.cut == model::Cut::whole ? TensorSpec::Kind::replicated
                                                : TensorSpec::Kind::split;
  if (tensor.cut == model::Cut::whole) {
    spec.inner = rows * columns;
  } else if (tensor.cut == model::Cut::rows) {
    spec.split = rows;
    spec.inner = columns;
  } else {
    spec.outer = rows;
    spec.split = columns;
  }
  return spec;
}

}  // namespace

uint64_t ShapeTensor::count(uint64_t layers) const {
  if (spec.where != TensorSpec::Where::layers) return 1;
  return layers * (spec.kind == TensorSpec::Kind::expert ? spec.experts : 1);
}

std::vector<ShapeTensor> families_of(const std::vector<model::Tensor>& tensors) {
  std::vector<ShapeTensor> families;
  for (const model::Tensor& tensor : tensors) {
    if (tensor.is_stacked)
      ++families.back().spec.outer;
    else
      families.push_back({spec_of(tensor), tensor.is_joined});
  }
  return families;
}

std::vector<ShapeTensor> families_of(const ModelShape& shape, HeadKind head) {
  return families_of(model::tensors_of(shape, head));
}

ModelTensors reshard_tensors_of(const ModelShape& shape, uint64_t element_bytes,
                                const std::optional<model::LoraShape>& lora) {
  ModelTensors model{static_cast<uint32_t>(shape.num_hidden_layers), {}};
  for (ShapeTensor& family :
       families_of(lora ? model::lora_tensors_of(shape, *lora) : model::tensors_of(shape))) {
    family.spec.element_bytes = element_bytes;
    model.tensors.push_back(std::move(family.spec));
  }
  return model;
}

}  // namespace cohort::plan
