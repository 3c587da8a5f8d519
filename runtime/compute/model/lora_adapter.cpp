#include "runtime/compute/model/lora_adapter.hpp"

#include "runtime/compute/model/lora_folder.hpp"

namespace cohort::compute {

Expected<void> merge_adapter(const std::filesystem::path& folder, const ParameterLayout& layout,
                             at::Tensor& flat) {
  COHORT_ASSIGN(const LoraFolder adapter, LoraFolder::open(folder, layout));
  for (const ParameterSpec& spec : layout.specs)
    if (adapter.has(spec))
      adapter.add_to(spec, {flat.data_ptr<float>() + spec.offset, static_cast<size_t>(spec.count)});
  return {};
}

}  // namespace cohort::compute
