#include "actors/roles/weight_parts.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::actors {
FamilyTensors tensors_of(const plan::ModelTensors& model, const compute::ParameterLayout& layout,
                         const publish::PartName& part) {
  const bool is_in_layers = model.tensors[part.family].where == plan::TensorSpec::Where::layers;
  const int64_t layer = is_in_layers ? static_cast<int64_t>(part.layer) : -1;
  const auto is_of_part = [&](const compute::ParameterSpec& spec) {
    return spec.family == part.family && spec.layer == layer &&
           (spec.expert < 0 || spec.expert == static_cast<int64_t>(part.expert));
  };
  const auto first = std::ranges::find_if(layout.specs, is_of_part);
  const auto end = std::find_if_not(first, layout.specs.end(), is_of_part);
  COHORT_CHECK(first != end, "weights: the plan's model has more tensors than the engine's");
  return {static_cast<size_t>(first - layout.specs.begin()), static_cast<size_t>(end - first)};
}

// The pieces of a family lie side by side: fused groups have no gap (LAYOUT-2), and a rank's cut
// goes through the group as a whole (ZERO-1).
publish::Source source_of(const plan::ModelTensors& model, const compute::TrainEngine& engine) {
  const compute::ParameterLayout& layout = engine.layout();
  auto held = std::make_shared<std::vector<std::span<const std::byte>>>(layout.specs.size());
  size_t spec = 0;  // shards come in the layout's order, and may be of thousands of experts
  for (const compute::ParameterShard& shard : engine.shards()) {
    while (spec < layout.specs.size() && layout.specs[spec].name != shard.name) ++spec;
    COHORT_CHECK(spec < layout.specs.size(), "weights: a shard of no tensor of its layout");
    (*held)[spec] = shard.bytes;
  }
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
