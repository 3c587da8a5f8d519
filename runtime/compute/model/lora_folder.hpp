#pragma once
/// The matrices of a LoRA adapter as PEFT writes it, adapter_config.json and
/// adapter_model.safetensors, checked against the model that they are over: y = W x + s B A x with
/// A [r, in], B [out, r], s = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora (arXiv
/// 2106.09685, 2312.03732). A value type; the file stays mapped. Torch-free header.
///
/// LORA-3: the tensors are exactly A and B of the modules that target_modules takes. Of routed
/// experts and routers PEFT makes none where transformers 5 holds them as one tensor, so that a
/// folder may have none of them at all.
#include <filesystem>
#include <map>
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
  /// tensor: a key that asks for what is not built in (use_dora, bias, modules_to_save …), targets
  /// that the model does not have, a matrix that is missing, is of no target, is without its other
  /// half or of another shape.
  static Expected<LoraFolder> open(const std::filesystem::path& folder,
                                   const ParameterLayout& layout);

  /// As adapter_config.json has them: targets are not resolved, and rank and alpha are those of the
  /// modules for which the patterns say nothing.
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
  using Modules = std::map<std::string, model::LoraShape>;  // by full name
  LoraFolder(SafetensorsFile file, model::LoraShape shape, Modules modules, std::string base)
      : file_(std::move(file)),
        shape_(std::move(shape)),
        modules_(std::move(modules)),
        base_(std::move(base)) {}
  SafetensorsFile file_;
  model::LoraShape shape_;
  Modules modules_;
  std::string base_;
};

}  // namespace cohort::compute
