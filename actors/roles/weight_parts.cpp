#include "actors/roles/weight_parts.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"

namespace cohort::actors {
namespace {

/// The tensors of a layout that one family is in one layer: gate and up are one family.
struct PartTensors {
  publish::PartName name;
  size_t first = 0, count = 0;  // of ParameterLayout::specs
};

/// Every part of a layout by its name. A model with routed experts has tens of thousands, and a
/// publish asks for each.
class PartIndex {
 public:
  explicit PartIndex(const compute::ParameterLayout& layout) {
    for (size_t i = 0; i < layout.specs.size(); ++i) {
      const compute::ParameterSpec& spec = layout.specs[i];
      const publish::PartName name{spec.family,
                                   static_cast<uint64_t>(std::max<int64_t>(spec.layer, 0)),
                                   static_cast<uint32_t>(std::max<int64_t>(spec.expert, 0))};
      if (parts_.empty() || parts_.back().name != name) parts_.push_back({name, i, 0});
      ++parts_.back().count;
    }
    std::ranges::sort(parts_, {}, &PartTensors::name);
  }

  /// Aborts for a part outside the layout.
  const PartTensors& at(const publish::PartName& name) const {
    const auto found = std::ranges::lower_bound(parts_, name, {}, &PartTensors::name);
    COHORT_CHECK(found != parts_.end() && found->name == name,
                 "weights: the plan's model has more tensors than the engine's");
    return *found;
  }

 private:
  std::vector<PartTensors> parts_;
};

}  // namespace

// The pieces of a family lie side by side: fused groups have no gap (LAYOUT-2), and a rank's cut
// goes through the group as a whole (ZERO-1).
publish::Source source_of(const compute::TrainEngine& engine) {
  const compute::ParameterLayout& layout = engine.layout();
  auto held = std::make_shared<std::vector<std::span<const std::byte>>>(layout.specs.size());
  size_t spec = 0;  // shards come in the layout's order, and may be of thousands of experts
  for (const compute::ParameterShard& shard : engine.shards()) {
    while (spec < layout.specs.size() && layout.specs[spec].name != shard.name) ++spec;
    COHORT_CHECK(spec < layout.specs.size(), "weights: a shard of no tensor of its layout");
    (*held)[spec] = shard.bytes;
  }
  return [index = std::make_shared<const PartIndex>(layout), held](const publish::PartName& part) {
    const PartTensors& tensors = index->at(part);
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

publish::Target target_of(compute::ParameterLayout layout, size_t element_bytes,
                          std::span<std::byte> flat) {
  struct Kept {
    compute::ParameterLayout layout;
    PartIndex index;
  };
  PartIndex index(layout);
  auto kept = std::make_shared<const Kept>(std::move(layout), std::move(index));
  return [kept, element_bytes, flat](const publish::PartName& part) {
    const PartTensors& tensors = kept->index.at(part);
    const compute::ParameterSpec& last = kept->layout.specs[tensors.first + tensors.count - 1];
    auto begin = static_cast<size_t>(kept->layout.specs[tensors.first].offset);
    auto end = static_cast<size_t>(last.offset + last.count);
    return flat.subspan(begin * element_bytes, (end - begin) * element_bytes);
  };
}

}  // namespace cohort::actors
