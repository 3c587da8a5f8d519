#pragma once
/// A LoRA adapter as PEFT writes it: adapter_config.json and adapter_model.safetensors.
/// y = W x + s B A x with A [r, in], B [out, r], s = lora_alpha / r, or lora_alpha / sqrt(r) with
/// use_rslora (arXiv 2106.09685, 2312.03732).
#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {

/// Adds s B A to each weight of `flat` [total_elements] f32 that the adapter has. Returns
/// Errc::not_found, Errc::corrupt or Errc::invalid_argument naming file and key or tensor: a key
/// that asks for what is not built in (use_dora, bias, rank_pattern, modules_to_save …), a module
/// that the model does not have, a matrix without its other half or of another shape.
Expected<void> merge_adapter(const std::filesystem::path& folder, const ParameterLayout& layout,
                             at::Tensor& flat);

}  // namespace cohort::compute
