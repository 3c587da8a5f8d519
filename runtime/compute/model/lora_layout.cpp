#include "runtime/compute/model/lora_layout.hpp"

#include <algorithm>
#include <utility>

namespace cohort::compute {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + k_alignment - 1) / k_alignment * k_alignment;
}

}  // namespace

LoraLayout lora_layout_of(const ModelConfig& config, const model::LoraShape& lora,
                          ExpertRange experts) {
  LoraLayout layout;
  layout.shape = lora;
  const std::vector<model::LoraModule> modules = model::lora_modules_of(config, lora);
  const std::vector<model::Tensor> tensors = model::lora_tensors_of(config, lora);
  int64_t next = 0;
  const auto add = [&](size_t index, int64_t layer) {
    const model::Tensor& tensor = tensors[index];
    const bool is_routed = tensor.experts > 0;
    const int64_t end = is_routed ? std::min(experts.end, tensor.experts) : 0;
    PartSpan part{next, 0, tensor.columns};
    for (int64_t expert = is_routed ? experts.first : -1; expert < end; ++expert) {
      ParameterSpec spec;
      spec.name = model::lora_tensor_name(tensor, layer, std::max<int64_t>(expert, 0));
      spec.shape = {tensor.rows, tensor.columns};
      spec.offset = next;
      spec.count = tensor.elements();
      spec.kind = tensor.kind;
      spec.family = static_cast<uint32_t>(index);
      spec.layer = layer;
      spec.expert = expert;
      next += spec.count;
      part.rows += tensor.rows;
      layout.flat.specs.push_back(std::move(spec));
    }
    next = aligned(next);
    return part;
  };
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::vector<LoraPair>& pairs = layout.layers.emplace_back();
    for (size_t i = 0; i < modules.size(); ++i) {
      const model::LoraModule& module = modules[i];
      if (!module.weight.is_in(layer)) continue;
      LoraPair pair{module.weight.part, module.first_row, {}, {}, 0};
      if (module.weight.experts > 0)
        pair.experts = std::min(experts.end, module.weight.experts) - experts.first;
      pair.a = add(2 * i, layer);
      pair.b = add(2 * i + 1, layer);
      pairs.push_back(pair);
    }
  }
  layout.flat.total_elements = next;
  return layout;
}

}  // namespace cohort::compute
