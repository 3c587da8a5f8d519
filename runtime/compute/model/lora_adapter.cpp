#include "runtime/compute/model/lora_adapter.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "runtime/base/read_file.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

Expected<model::LoraShape> read_config(const fs::path& path) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  COHORT_ASSIGN(const std::string text, read_file(path, k_bytes_max));
  return model::parse_adapter_config(text, path.string());
}

Expected<Tensor> matrix_of(const NamedTensor& tensor, const std::string& where) {
  if (tensor.shape.size() != 2)
    return Error{Errc::invalid_argument,
                 fmt::format("{}: tensor '{}' is no matrix", where, tensor.name)};
  Tensor out = at::empty(tensor.shape, at::dtype(at::kFloat));
  COHORT_TRY(copy_to_f32(tensor, {out.data_ptr<float>(), static_cast<size_t>(out.numel())}));
  return out;
}

}  // namespace

Expected<void> merge_adapter(const fs::path& folder, const ParameterLayout& layout, Tensor& flat) {
  COHORT_ASSIGN(const model::LoraShape config, read_config(folder / "adapter_config.json"));
  const fs::path path = folder / "adapter_model.safetensors";
  const std::string where = path.string();
  COHORT_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  constexpr std::string_view k_prefix = "base_model.model.", k_a = ".lora_A.weight",
                             k_b = ".lora_B.weight";
  const auto refused = [&](const std::string& name, const std::string& what) {
    return Error{Errc::invalid_argument, fmt::format("{}: tensor '{}' {}", where, name, what)};
  };
  for (const NamedTensor& a : file.tensors()) {
    if (a.name.starts_with(k_prefix) && a.name.ends_with(k_b)) {
      const std::string stem = a.name.substr(0, a.name.size() - k_b.size());
      if (file.find(stem + std::string(k_a)) == nullptr) return refused(a.name, "has no lora_A");
      continue;
    }
    if (!a.name.starts_with(k_prefix) || !a.name.ends_with(k_a))
      return refused(a.name, "is neither a lora_A nor a lora_B of a module");
    const std::string stem = a.name.substr(0, a.name.size() - k_a.size());
    const NamedTensor* b = file.find(stem + std::string(k_b));
    if (b == nullptr) return refused(a.name, "has no lora_B");
    const std::string module = stem.substr(k_prefix.size());
    const ParameterSpec* spec = layout.find(module + ".weight");
    if (spec == nullptr || spec->shape.size() != 2)
      return refused(a.name, "is of a module that the model does not have");
    COHORT_ASSIGN(const Tensor left, matrix_of(*b, where));
    COHORT_ASSIGN(const Tensor right, matrix_of(a, where));
    if (left.size(0) != spec->shape[0] || left.size(1) != config.rank ||
        right.size(0) != config.rank || right.size(1) != spec->shape[1])
      return refused(a.name, fmt::format("and its lora_B do not fit rank {} and the weight [{}]",
                                         config.rank, fmt::join(spec->shape, ", ")));
    flat.narrow(0, spec->offset, spec->count)
        .view({spec->shape[0], spec->shape[1]})
        .addmm_(left, right, 1, config.scale());
  }
  return {};
}

}  // namespace cohort::compute
