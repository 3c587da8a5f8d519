#include "runtime/compute/model/lora_layout.hpp"

#include <utility>

namespace cohort::compute {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + k_alignment - 1) / k_alignment * k_alignment;
}

}  // namespace

LoraLayout lora_layout_of(const ModelConfig& config, const model::LoraShape& lora) {
  LoraLayout layout;
  layout.shape = lora;
  const std::vector<model::LoraModule> modules = model::lora_modules_of(config, lora);
  const std::vector<model::Tensor> tensors = model::lora_tensors_of(config, lora);
  int64_t next = 0;
  const auto add = [&](size_t index, int64_t layer) {
    const model::Tensor& tensor = tensors[index];
    ParameterSpec spec;
    spec.name = model::lora_tensor_name(tensor, layer);
    spec.shape = {tensor.rows, tensor.columns};
    spec.offset = next;
    spec.count = tensor.elements();
    spec.kind = tensor.kind;
    spec.family = static_cast<uint32_t>(index);
    spec.layer = layer;
    next = aligned(next + spec.count);
    layout.flat.specs.push_back(std::move(spec));
    return PartSpan{layout.flat.specs.back().offset, tensor.rows, tensor.columns};
  };
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::vector<LoraPair>& pairs = layout.layers.emplace_back();
    for (size_t i = 0; i < modules.size(); ++i) {
      const model::LoraModule& module = modules[i];
      if (!module.weight.is_in(layer)) continue;
      LoraPair pair{module.weight.part, module.first_row, {}, {}};
      pair.a = add(2 * i, layer);
      pair.b = add(2 * i + 1, layer);
      pairs.push_back(pair);
    }
  }
  layout.flat.total_elements = next;
  return layout;
}

}  // namespace cohort::compute
