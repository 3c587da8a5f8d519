#include "runtime/compute/model/lora_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/model/lora_file.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

constexpr std::string_view k_prefix = "base_model.model.", k_a = ".lora_A.weight",
                           k_b = ".lora_B.weight", k_weight = ".weight";

/// Returns the module's full name; empty: the parameter is no weight.
std::string module_of(const ParameterSpec& spec) {
  if (!spec.name.ends_with(k_weight)) return "";
  return spec.name.substr(0, spec.name.size() - k_weight.size());
}

/// Returns the name of a module's A or B.
std::string half_of(const std::string& module, std::string_view half) {
  return std::string(k_prefix) + module + std::string(half);
}

Error refused(const std::string& where, const NamedTensor& tensor, const std::string& what) {
  return Error{Errc::invalid_argument, fmt::format("{}: tensor '{}' {}", where, tensor.name, what)};
}

bool is_readable(const NamedTensor& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
}

bool is_end(const ParameterSpec& spec) { return spec.name == "lm_head.weight"; }

/// Linear layers, as PEFT finds them: not the embedding, whose matrices have names of their own.
std::vector<model::LinearModule> linear_modules(const ParameterLayout& layout) {
  std::vector<model::LinearModule> modules;
  for (const ParameterSpec& spec : layout.specs)
    if (spec.shape.size() == 2 && !module_of(spec).empty() &&
        (spec.kind != model::Kind::table || is_end(spec)))
      modules.push_back({module_of(spec), is_end(spec)});
  return modules;
}

/// What transformers 5 holds as one tensor of all experts, or as no linear layer.
enum class Fused : uint8_t { no, expert, router };
Fused fused_of(const ParameterSpec& spec) {
  if (spec.expert >= 0) return Fused::expert;
  return spec.name.ends_with(".mlp.gate.weight") ? Fused::router : Fused::no;
}

using Modules = std::map<std::string, model::LoraShape>;
using Specs = std::map<std::string_view, const ParameterSpec*>;  // by name: experts are thousands

/// A tensor's module is a target, and it fits the weight.
Expected<void> check_half(const NamedTensor& half, const Modules& modules, const Specs& specs,
                          const std::string& where) {
  const bool is_a = half.name.ends_with(k_a);
  if (!half.name.starts_with(k_prefix) || (!is_a && !half.name.ends_with(k_b)))
    return refused(where, half, "is neither a lora_A nor a lora_B of a module");
  const std::string module =
      half.name.substr(k_prefix.size(), half.name.size() - k_prefix.size() - k_a.size());
  const auto of = specs.find(module + std::string(k_weight));
  if (of == specs.end() || of->second->shape.size() != 2)
    return refused(where, half, "is of a module that the model does not have");
  const ParameterSpec* spec = of->second;
  const auto found = modules.find(module);
  if (found == modules.end())
    return refused(where, half,
                   "is of a module that target_modules of adapter_config.json does not take");
  if (!is_readable(half))
    return refused(where, half, "is " + half.dtype + "; F32, BF16 and F16 are read");
  const int64_t rank = found->second.rank;
  const std::vector<int64_t> shape = is_a ? std::vector<int64_t>{rank, spec->shape[1]}
                                          : std::vector<int64_t>{spec->shape[0], rank};
  if (half.shape != shape)
    return refused(where, half,
                   fmt::format("has shape [{}]; rank {} and the weight [{}] need [{}]",
                               fmt::join(half.shape, ", "), rank, fmt::join(spec->shape, ", "),
                               fmt::join(shape, ", ")));
  return {};
}

/// LORA-3: nothing is missing.
Expected<void> check_complete(const SafetensorsFile& file, const Modules& modules,
                              const ParameterLayout& layout, const std::string& where) {
  const auto has = [&](const ParameterSpec& spec, std::string_view half) {
    return file.find(half_of(module_of(spec), half)) != nullptr;
  };
  std::set<Fused> present = {Fused::no};
  for (const ParameterSpec& spec : layout.specs)
    if (has(spec, k_a) || has(spec, k_b)) present.insert(fused_of(spec));
  for (const ParameterSpec& spec : layout.specs) {
    const std::string module = module_of(spec);
    if (!modules.contains(module) || !present.contains(fused_of(spec))) continue;
    for (std::string_view half : {k_a, k_b})
      if (!has(spec, half))
        return Error{Errc::invalid_argument,
                     fmt::format("{}: no tensor '{}', which target_modules of adapter_config.json "
                                 "asks for; was the file cut?",
                                 where, half_of(module, half))};
  }
  return {};
}

Tensor matrix_of(const NamedTensor& tensor) {
  Tensor out = at::empty(tensor.shape, at::dtype(at::kFloat));
  if (tensor.dtype == "F16") {
    Tensor half = at::empty(tensor.shape, at::dtype(at::kHalf));
    std::memcpy(half.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    return out.copy_(half);
  }
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
  COHORT_ASSIGN(model::AdapterFile adapter, model::parse_adapter_file(text, config.string()));
  COHORT_ASSIGN(Modules modules,
                model::adapted_modules(adapter, linear_modules(layout), config.string()));
  COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  Specs specs;
  for (const ParameterSpec& spec : layout.specs) specs.emplace(spec.name, &spec);
  for (const NamedTensor& each : file.tensors())
    COHORT_TRY(check_half(each, modules, specs, path.string()));
  COHORT_TRY(check_complete(file, modules, layout, path.string()));
  return LoraFolder(std::move(file), std::move(adapter.shape), std::move(modules),
                    std::move(adapter.base));
}

bool LoraFolder::has(const ParameterSpec& spec) const {
  return file_.find(half_of(module_of(spec), k_a)) != nullptr;
}

void LoraFolder::add_to(const ParameterSpec& spec, std::span<float> weight) const {
  at::NoGradGuard no_grad;
  const std::string module = module_of(spec);
  at::from_blob(weight.data(), {spec.shape[0], spec.shape[1]}, at::dtype(at::kFloat))
      .addmm_(matrix_of(*file_.find(half_of(module, k_b))),
              matrix_of(*file_.find(half_of(module, k_a))), 1,
              modules_.find(module)->second.scale());
}

}  // namespace cohort::compute
