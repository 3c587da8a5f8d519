#pragma once
/// The matrices of a LoRA adapter as PEFT writes it, adapter_config.json and
/// adapter_model.safetensors, checked against the model that they are over: y = W x + s B A x with
/// A [r, in], B [out, r], s = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora (arXiv
/// 2106.09685, 2312.03732). A value type; the file stays mapped. Torch-free header.
#include <filesystem>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::compute {

class LoraFolder {
 public:
  /// Returns Errc::not_found, Errc::corrupt or Errc::invalid_argument naming file and key or
  /// tensor: a key that asks for what is not built in (use_dora, bias, rank_pattern,
  /// modules_to_save …), a module that the model does not have, a matrix without its other half or
  /// of another shape.
  static Expected<LoraFolder> open(const std::filesystem::path& folder,
                                   const ParameterLayout& layout);

  /// As adapter_config.json has them: targets are not resolved.
  const model::LoraShape& shape() const { return shape_; }
  /// base_model_name_or_path; empty: not said.
  const std::string& base() const { return base_; }
  const SafetensorsFile& file() const { return file_; }
  size_t modules() const { return file_.tensors().size() / 2; }
  bool has(const ParameterSpec& spec) const;
  /// Adds s B A to `weight`, the whole tensor in row order, in f32: with one
  /// thread of math the bits of LoraBase::merge.
  /// REQUIRES: has(spec).
  void add_to(const ParameterSpec& spec, std::span<float> weight) const;

 private:
  LoraFolder(SafetensorsFile file, model::LoraShape shape, std::string base)
      : file_(std::move(file)), shape_(std::move(shape)), base_(std::move(base)) {}
  SafetensorsFile file_;
  model::LoraShape shape_;
  std::string base_;
};

}  // namespace cohort::compute
