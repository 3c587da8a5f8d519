#include "runtime/compute/model/lora_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

constexpr std::string_view k_prefix = "base_model.model.", k_a = ".lora_A.weight",
                           k_b = ".lora_B.weight", k_weight = ".weight";

/// Returns the name of a module's A or B.
std::string half_of(const ParameterSpec& spec, std::string_view half) {
  if (!spec.name.ends_with(k_weight)) return "";
  return std::string(k_prefix) + spec.name.substr(0, spec.name.size() - k_weight.size()) +
         std::string(half);
}

Error refused(const std::string& where, const NamedTensor& tensor, const std::string& what) {
  return Error{Errc::invalid_argument, fmt::format("{}: tensor '{}' {}", where, tensor.name, what)};
}

bool is_readable(const NamedTensor& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "BF16";
}

/// A module's A, with the B that belongs to it.
Expected<void> check_pair(const SafetensorsFile& file, const NamedTensor& a, int64_t rank,
                          const ParameterLayout& layout, const std::string& where) {
  const std::string stem = a.name.substr(0, a.name.size() - k_a.size());
  const NamedTensor* b = file.find(stem + std::string(k_b));
  if (b == nullptr) return refused(where, a, "has no lora_B");
  const ParameterSpec* spec = layout.find(stem.substr(k_prefix.size()) + std::string(k_weight));
  if (spec == nullptr || spec->shape.size() != 2)
    return refused(where, a, "is of a module that the model does not have");
  for (const NamedTensor* each : {&a, b})
    if (!is_readable(*each))
      return refused(where, *each, "is " + each->dtype + "; F32 and BF16 are read");
  if (a.shape != std::vector<int64_t>{rank, spec->shape[1]} ||
      b->shape != std::vector<int64_t>{spec->shape[0], rank})
    return refused(where, a,
                   fmt::format("and its lora_B do not fit rank {} and the weight [{}]", rank,
                               fmt::join(spec->shape, ", ")));
  return {};
}

Tensor matrix_of(const NamedTensor& tensor) {
  Tensor out = at::empty(tensor.shape, at::dtype(at::kFloat));
  const auto read = copy_to_f32(tensor, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
  COHORT_CHECK(read.has_value(), "a tensor that open() has accepted");
  return out;
}

}  // namespace

Expected<LoraFolder> LoraFolder::open(const fs::path& folder, const ParameterLayout& layout) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  const fs::path config = folder / "adapter_config.json",
                 path = folder / "adapter_model.safetensors";
  COHORT_ASSIGN(const std::string text, read_file(config, k_bytes_max));
  COHORT_ASSIGN(model::LoraShape shape, model::parse_adapter_config(text, config.string()));
  COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  for (const NamedTensor& each : file.tensors()) {
    const bool is_a = each.name.ends_with(k_a);
    if (!each.name.starts_with(k_prefix) || (!is_a && !each.name.ends_with(k_b)))
      return refused(path.string(), each, "is neither a lora_A nor a lora_B of a module");
    if (is_a) {
      COHORT_TRY(check_pair(file, each, shape.rank, layout, path.string()));
      continue;
    }
    const std::string stem = each.name.substr(0, each.name.size() - k_b.size());
    if (file.find(stem + std::string(k_a)) == nullptr)
      return refused(path.string(), each, "has no lora_A");
  }
  return LoraFolder(std::move(file), std::move(shape), model::adapter_base_of(text));
}

bool LoraFolder::has(const ParameterSpec& spec) const {
  return file_.find(half_of(spec, k_a)) != nullptr;
}

void LoraFolder::add_to(const ParameterSpec& spec, std::span<float> weight) const {
  at::NoGradGuard no_grad;
  at::from_blob(weight.data(), {spec.shape[0], spec.shape[1]}, at::dtype(at::kFloat))
      .addmm_(matrix_of(*file_.find(half_of(spec, k_b))),
              matrix_of(*file_.find(half_of(spec, k_a))), 1, shape_.scale());
}

}  // namespace cohort::compute
