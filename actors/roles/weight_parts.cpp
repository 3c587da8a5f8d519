#include "actors/roles/weight_parts.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::actors {
namespace {

// w13 is gate and up (plan::tensors_of).
size_t tensors_in(const plan::TensorSpec& family) {
  return std::string_view(family.name).ends_with(".w13") ? 2 : 1;
}

}  // namespace

FamilyTensors tensors_of(const plan::ModelTensors& model, const compute::ParameterLayout& layout,
                         const publish::PartName& part) {
  const bool is_in_layers = model.tensors[part.family].where == plan::TensorSpec::Where::layers;
  size_t first = 0, per_layer = 0, before_layers = 0, in_layer = 0, after_layers = 0;
  for (uint32_t family = 0; family < model.tensors.size(); ++family) {
    const plan::TensorSpec& spec = model.tensors[family];
    if (spec.where == plan::TensorSpec::Where::layers) {
      if (family < part.family) in_layer += tensors_in(spec);
      per_layer += tensors_in(spec);
    } else if (per_layer == 0) {
      before_layers += family < part.family || is_in_layers ? 1 : 0;
    } else {
      after_layers += family < part.family ? 1 : 0;
    }
  }
  first = before_layers;
  if (is_in_layers)
    first += part.layer * per_layer + in_layer;
  else if (in_layer > 0)
    first += layout.layers.size() * per_layer + after_layers;
  FamilyTensors result{first, tensors_in(model.tensors[part.family])};
  COHORT_CHECK(result.first + result.count <= layout.specs.size(),
               "weights: the plan's model has more tensors than the engine's");
  return result;
}

// The pieces of a family lie side by side: fused groups have no gap (LAYOUT-2), and a rank's cut
// goes through the group as a whole (ZERO-1).
publish::Source source_of(const plan::ModelTensors& model, const compute::TrainEngine& engine) {
  const compute::ParameterLayout& layout = engine.layout();
  auto held = std::make_shared<std::vector<std::span<const std::byte>>>(layout.specs.size());
  for (const compute::ParameterShard& shard : engine.shards())
    (*held)[static_cast<size_t>(layout.find(shard.name) - layout.specs.data())] = shard.bytes;
  return [&model, &layout, held](const publish::PartName& part) {
    FamilyTensors tensors = tensors_of(model, layout, part);
    std::span<const std::byte> joined;
    for (size_t i = tensors.first; i < tensors.first + tensors.count; ++i) {
      std::span<const std::byte> piece = (*held)[i];
      if (piece.empty()) continue;
      COHORT_CHECK(joined.empty() || joined.data() + joined.size() == piece.data(),
                   "LAYOUT-2: the tensors of a fused group do not lie side by side");
      joined = joined.empty() ? piece : std::span(joined.data(), joined.size() + piece.size());
    }
    return joined;
  };
}

publish::Target target_of(const plan::ModelTensors& model, compute::ParameterLayout layout,
                          size_t element_bytes, std::span<std::byte> flat) {
  auto kept = std::make_shared<const compute::ParameterLayout>(std::move(layout));
  return [&model, kept, element_bytes, flat](const publish::PartName& part) {
    FamilyTensors tensors = tensors_of(model, *kept, part);
    const compute::ParameterSpec& last = kept->specs[tensors.first + tensors.count - 1];
    auto begin = static_cast<size_t>(kept->specs[tensors.first].offset);
    auto end = static_cast<size_t>(last.offset + last.count);
    return flat.subspan(begin * element_bytes, (end - begin) * element_bytes);
  };
}

}  // namespace cohort::actors
