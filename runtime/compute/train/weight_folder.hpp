#pragma once
/// The weights of a Hugging Face folder: model.safetensors, or the files that
/// model.safetensors.index.json names, each mapped once. Nothing is trusted: files, names, shapes
/// and dtypes are checked against the model before a value is handed out. A value type; may be read
/// from several threads.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/safetensors.hpp"

namespace cohort::compute {

class WeightFolder {
 public:
  /// Returns Errc::not_found, Errc::io or Errc::corrupt naming the file, and the tensor where one
  /// is at fault: a shard that is missing, a tensor that is not in the shard that the index names.
  static Expected<WeightFolder> open(const std::filesystem::path& folder);

  /// Returns one sentence for each thing that a user may want to know (an lm_head that is tied and
  /// so not read). Returns Errc::invalid_argument naming file and tensor where a parameter of
  /// `layout` is missing, has another shape or a dtype that is not F32, BF16, F16 or F8_E4M3 with
  /// scales, and where the folder has a tensor that the model has no use for.
  /// `more`: tensors that the caller reads besides, where they are there.
  Expected<std::vector<std::string>> check(const ModelConfig& model, const ParameterLayout& layout,
                                           const std::vector<std::string>& more = {}) const;

  /// The same of a value model (HeadKind::value), a critic's start: the folder of a classifier with
  /// one label, or of a language model, whose head is passed over and which lacks score.weight: the
  /// values then start at 0. Returns Errc::invalid_argument for a score.bias that is not 0, for
  /// which the value head has no tensor.
  Expected<std::vector<std::string>> check_values(const ModelConfig& model) const;

  /// Copies elements [begin, begin + to.size()) of a tensor, taken flat, to f32. REQUIRES: check()
  /// accepted the tensor.
  void read(std::string_view name, int64_t begin, std::span<float> to) const;

  /// The same as `dtype`, f32 or bf16 (rounded to nearest, ties to even): as many elements as `to`
  /// holds.
  void read_as(tensor::Dtype dtype, std::string_view name, int64_t begin,
               std::span<std::byte> to) const;

  /// Returns whether every tensor is of this dtype.
  bool has_only(std::string_view dtype) const;
  /// Returns the tensor, or nullptr.
  const NamedTensor* find(std::string_view name) const;

 private:
  struct Place {
    size_t file = 0;
    const NamedTensor* tensor = nullptr;
  };
  Expected<void> add(const std::filesystem::path& path);
  std::string place_of(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace cohort::compute
