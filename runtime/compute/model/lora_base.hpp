#pragma once
/// The frozen model under an adapter, for an engine that serves merged weights: W + s B A, computed
/// in f32 from the folder's W each time and rounded once to the model's dtype, so that nothing
/// drifts over many versions. Owner: an engine. The folder's files stay mapped; W takes no memory
/// of its own. Torch-free header.
#include <filesystem>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/train/weight_folder.hpp"

namespace cohort::compute {

class LoraBase {
 public:
  /// `folder`: a Hugging Face folder of `model`. Errors are WeightFolder's.
  static Expected<LoraBase> open(const std::filesystem::path& folder, const ModelConfig& model,
                                 const model::LoraShape& lora);

  const LoraLayout& layout() const { return lora_; }
  uint64_t adapter_bytes() const {
    return static_cast<uint64_t>(lora_.flat.total_elements) * sizeof(float);
  }
  /// Fills `flat` (layout_of(model) in the model's dtype, padding untouched) from `adapter`
  /// (layout().flat in f32). REQUIRES: sizes that fit.
  void merge(std::span<const std::byte> adapter, std::span<std::byte> flat) const;

 private:
  LoraBase(WeightFolder weights, const ModelConfig& model, LoraLayout lora);

  WeightFolder weights_;
  ModelConfig model_;
  ParameterLayout layout_;
  LoraLayout lora_;
};

}  // namespace cohort::compute
