#pragma once
/// The frozen model under an adapter, for an engine that serves merged weights: W + s B A, computed
/// in f32 from the folder's W each time and rounded once to the model's dtype, so that nothing
/// drifts over many versions. Owner: an engine. The folder's files stay mapped; W takes no memory
/// of its own. Under tensor parallelism it is one rank's part of W, and the adapter that fits it
/// (TP-1, LORA-1). Torch-free header.
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/model/model_tp.hpp"
#include "runtime/compute/train/weight_folder.hpp"

namespace cohort::compute {

class LoraBase {
 public:
  /// `folder`: a Hugging Face folder of `model`, which is whole. Errors are WeightFolder's and
  /// tp_config's.
  static Expected<LoraBase> open(const std::filesystem::path& folder, const ModelConfig& model,
                                 const model::LoraShape& lora, TpRank tp = {});

  const LoraLayout& layout() const { return lora_; }
  uint64_t adapter_bytes() const {
    return static_cast<uint64_t>(lora_.flat.total_elements) * sizeof(float);
  }
  /// Fills `flat` (layout_of the part in the model's dtype, padding untouched) from `adapter`
  /// (layout().flat in f32). REQUIRES: sizes that fit.
  void merge(std::span<const std::byte> adapter, std::span<std::byte> flat) const;

 private:
  LoraBase(WeightFolder weights, const ModelConfig& whole, const ModelConfig& part, TpRank tp,
           LoraLayout lora);
  void read_part(size_t spec, std::span<float> to) const;

  WeightFolder weights_;
  TpRank tp_;
  ModelConfig model_;               // the part
  ParameterLayout whole_, layout_;  // of the model, of the part: the same tensors
  LoraLayout lora_;
};

}  // namespace cohort::compute
