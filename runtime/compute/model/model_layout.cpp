#include "runtime/compute/model/model_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::compute {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + k_alignment - 1) / k_alignment * k_alignment;
}

/// Lays tensors one after the other.
class LayoutBuilder {
 public:
  void add(const model::Tensor& tensor, uint32_t family, int64_t layer, PartSpan& part,
           int64_t expert = -1, bool is_first_expert = true) {
    if (!tensor.is_joined && is_first_expert) {
      next_ = aligned(next_);
      part = {next_, 0, tensor.columns};
    }
    part.rows += tensor.rows;
    ParameterSpec spec{model::tensor_name(tensor, layer, std::max<int64_t>(expert, 0)),
                       {tensor.rows},
                       next_,
                       tensor.elements(),
                       tensor.kind,
                       tensor.is_stacked,
                       family,
                       layer,
                       expert};
    if (tensor.columns > 0) spec.shape.push_back(tensor.columns);
    next_ += spec.count;
    layout.specs.push_back(std::move(spec));
  }
  ParameterLayout finish() && {
    layout.total_elements = aligned(next_);
    return std::move(layout);
  }

  ParameterLayout layout;

 private:
  int64_t next_ = 0;
};

}  // namespace

Expected<void> validate(const ModelConfig& c) {
  if (auto valid = model::check_shape(c); !valid) return valid;
  const auto refused = [](const std::string& what) {
    return Error{Errc::invalid_argument, "model: " + what};
  };
  constexpr int64_t k_extent_max = int64_t{1} << 24;
  if (c.max_position <= 0 || c.max_position > k_extent_max)
    return refused(fmt::format("max_position = {} is not in 1..{}", c.max_position, k_extent_max));
  if (c.rotary_dim() % 2 != 0)
    return refused(
        fmt::format("{} = {} is odd", c.mla ? "qk_rope_head_dim" : "head_dim", c.rotary_dim()));
  if (c.dtype != tensor::Dtype::f32 && c.dtype != tensor::Dtype::bf16)
    return refused(fmt::format("dtype {} is not f32 or bf16", tensor::to_string(c.dtype)));
  if (auto valid = model::check_rope(c.rope); !valid) return refused(valid.error().detail);
  if (!(c.rms_norm_eps > 0) || !(c.initializer_range >= 0))
    return refused("rms_norm_eps must be positive, initializer_range not negative");
  return {};
}

const ParameterSpec* ParameterLayout::find(std::string_view name) const {
  for (const ParameterSpec& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

ParameterLayout layout_of(const ModelConfig& c, model::HeadKind head, ExpertRange experts) {
  const std::vector<model::Tensor> tensors = model::tensors_of(c, head);
  std::vector<uint32_t> families;  // of the tensors
  for (const model::Tensor& tensor : tensors)
    families.push_back(families.empty() ? 0 : families.back() + (tensor.is_stacked ? 0 : 1));
  LayoutBuilder builder;
  model::ByPart<PartSpan> ends;
  size_t next = 0;
  for (; next < tensors.size() && tensors[next].where != model::Where::layers; ++next)
    builder.add(tensors[next], families[next], -1, ends[tensors[next].part]);
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    LayerParts& parts = builder.layout.layers.emplace_back();
    for (size_t i = next, end = 0; i < tensors.size(); i = end) {
      end = i + 1;
      if (!tensors[i].is_in(layer)) continue;
      // What is joined is one matrix of each expert; the experts' lie one behind the other.
      while (end < tensors.size() && tensors[end].is_joined) ++end;
      const bool is_routed = tensors[i].experts > 0;
      const int64_t first = is_routed ? std::max<int64_t>(experts.first, 0) : -1;
      const int64_t last = is_routed ? std::min(experts.end, tensors[i].experts) : 0;
      for (int64_t expert = first; expert < last; ++expert)
        for (size_t of = i; of < end; ++of)
          builder.add(tensors[of], families[of], layer, parts[tensors[of].part], expert,
                      expert == first);
    }
  }
  for (; next < tensors.size(); ++next)
    if (tensors[next].where != model::Where::layers)
      builder.add(tensors[next], families[next], -1, ends[tensors[next].part]);
  ParameterLayout layout = std::move(builder).finish();
  layout.embedding = ends[Part::embedding];
  layout.final_norm = ends[Part::final_norm];
  layout.lm_head = ends[ends[Part::head].offset < 0 ? Part::embedding : Part::head];
  return layout;
}

int64_t parameter_count(const ParameterLayout& layout) {
  int64_t count = 0;
  for (const ParameterSpec& spec : layout.specs) count += spec.count;
  return count;
}

}  // namespace cohort::compute
