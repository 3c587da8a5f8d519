#include "runtime/compute/train/weight_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/outside_json.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view k_scale = "_scale_inv";  // of an F8 tensor: "<name>_scale_inv"
constexpr int64_t k_block = 128;  // rows and columns that share one scale (DeepSeek-V3)

/// The files of the index: each tensor's, and the files once.
struct Index {
  std::map<std::string, std::string> files;  // by tensor
  std::set<std::string> names;               // of the files
};

Expected<Index> read_index(const fs::path& path) {
  constexpr uintmax_t k_bytes_max = uintmax_t{64} << 20;
  COHORT_ASSIGN(const std::string text, read_file(path, k_bytes_max));
  const Expected<Json> parsed = parse_outside_object<Json>(text);
  if (!parsed) return Error{Errc::corrupt, path.string() + ": " + parsed.error().detail};
  const auto map = parsed->find("weight_map");
  if (map == parsed->end() || !map->is_object() || map->empty())
    return Error{Errc::corrupt, path.string() + ": has no object 'weight_map' of tensor: file"};
  Index index;
  for (const auto& [tensor, name] : map->items()) {
    const std::string shard = name.is_string() ? name.get<std::string>() : "";
    if (shard.empty() || fs::path(shard).filename() != shard)
      return Error{Errc::corrupt, fmt::format("{}: tensor '{}': {} is not the name of a file of "
                                              "the folder",
                                              path.string(), tensor, name.dump().substr(0, 80))};
    index.files[tensor] = shard;
    index.names.insert(shard);
  }
  return index;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Buffers of old files that follow from config.json, and the layers behind the last one (MTP).
bool is_left_out(std::string_view name, const ModelConfig& model) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  constexpr std::string_view k_layers = "model.layers.";
  if (!name.starts_with(k_layers)) return false;
  name.remove_prefix(k_layers.size());
  const std::string number(name.substr(0, name.find('.')));
  return !number.empty() && number.size() < 6 &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }) &&
         std::stoll(number) >= model.num_hidden_layers;
}

float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000U} << 16, exponent = (half >> 10) & 31U;
  uint32_t mantissa = half & 1023U, bits = 0;
  if (exponent == 31) {
    bits = sign | 0x7f800000U | mantissa << 13;
  } else if (exponent > 0) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa > 0) {  // a subnormal half is a normal float
    uint32_t shift = 0;
    for (; (mantissa & 1024U) == 0; mantissa <<= 1) ++shift;
    bits = sign | (113 - shift) << 23 | (mantissa & 1023U) << 13;
  } else {
    bits = sign;
  }
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// F8_E4M3 without infinities: bias 7; 0x7f and 0xff are NaN.
float eighth_to_float(uint8_t x) {
  const int exponent = (x >> 3) & 15, mantissa = x & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if (exponent == 15 && mantissa == 7) value = std::numeric_limits<float>::quiet_NaN();
  return (x & 128) != 0 ? -value : value;
}

template <class T>
T element(const NamedTensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(at) * sizeof value, sizeof value);
  return value;
}

std::vector<int64_t> scale_shape(const std::vector<int64_t>& shape) {
  std::vector<int64_t> blocks;
  for (int64_t extent : shape) blocks.push_back((extent + k_block - 1) / k_block);
  return blocks;
}

}  // namespace

Expected<void> WeightFolder::add(const fs::path& path) {
  COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  paths_.push_back(path);
  files_.push_back(std::move(file));
  return {};
}

Expected<WeightFolder> WeightFolder::open(const fs::path& folder) {
  WeightFolder out;
  out.folder_ = folder;
  const fs::path index_path = folder / "model.safetensors.index.json";
  if (!is_there(index_path)) {
    const fs::path whole = folder / "model.safetensors";
    if (!is_there(whole)) {
      const bool has_pickle = is_there(folder / "pytorch_model.bin") ||
                              is_there(folder / "pytorch_model.bin.index.json");
      return Error{Errc::not_found,
                   folder.string() +
                       ": neither model.safetensors nor "
                       "model.safetensors.index.json" +
                       (has_pickle ? "; pytorch_model.bin is a pickle, which runs code when it is "
                                     "read: save the model with safe_serialization"
                                   : "")};
    }
    COHORT_TRY(out.add(whole));
    for (const NamedTensor& tensor : out.files_.front().tensors())
      out.tensors_[tensor.name] = {0, &tensor};
    return out;
  }
  COHORT_ASSIGN(const Index index, read_index(index_path));
  std::map<std::string, size_t> numbers;
  for (const std::string& name : index.names) {
    numbers[name] = out.files_.size();
    if (!is_there(folder / name))
      return Error{Errc::not_found, fmt::format("{}: is missing; {} names it",
                                                (folder / name).string(), index_path.string())};
    COHORT_TRY(out.add(folder / name));
  }
  for (const auto& [tensor, name] : index.files) {
    const size_t number = numbers[name];
    const NamedTensor* found = out.files_[number].find(tensor);
    if (found == nullptr)
      return Error{Errc::corrupt,
                   fmt::format("{}: has no tensor '{}', which {} says it has",
                               (folder / name).string(), tensor, index_path.string())};
    out.tensors_[tensor] = {number, found};
  }
  return out;
}

bool WeightFolder::has_only(std::string_view dtype) const {
  return std::ranges::all_of(
      tensors_, [&](const auto& entry) { return entry.second.tensor->dtype == dtype; });
}

const NamedTensor* WeightFolder::find(std::string_view name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : it->second.tensor;
}

std::string WeightFolder::place_of(std::string_view name) const {
  return fmt::format("{}: tensor '{}'", paths_[tensors_.find(name)->second.file].string(), name);
}

Expected<std::vector<std::string>> WeightFolder::check(const ModelConfig& model,
                                                       const ParameterLayout& layout,
                                                       const std::vector<std::string>& more) const {
  std::vector<std::string> notices;
  std::set<std::string_view> used(more.begin(), more.end());
  const auto refused = [](const std::string& what) { return Error{Errc::invalid_argument, what}; };
  for (const ParameterSpec& spec : layout.specs) {
    const NamedTensor* tensor = find(spec.name);
    if (tensor == nullptr)
      return refused(fmt::format("{}: no tensor '{}'{}", folder_.string(), spec.name,
                                 spec.name == "lm_head.weight"
                                     ? "; does config.json leave out tie_word_embeddings: true?"
                                     : ""));
    used.insert(spec.name);
    if (tensor->shape != spec.shape)
      return refused(fmt::format("{} has shape [{}], the model needs [{}]", place_of(spec.name),
                                 fmt::join(tensor->shape, ", "), fmt::join(spec.shape, ", ")));
    if (tensor->dtype == "F8_E4M3") {
      const std::string scale = spec.name + std::string(k_scale);
      const NamedTensor* scales = find(scale);
      if (scales == nullptr || scales->dtype != "F32" ||
          scales->shape != scale_shape(tensor->shape))
        return refused(fmt::format("{} is F8_E4M3 and needs F32 scales '{}' of shape [{}]",
                                   place_of(spec.name), scale,
                                   fmt::join(scale_shape(tensor->shape), ", ")));
      used.insert(find(scale)->name);
    } else if (tensor->dtype != "F32" && tensor->dtype != "BF16" && tensor->dtype != "F16") {
      return refused(fmt::format("{} is {}, not F32, BF16, F16 or F8_E4M3", place_of(spec.name),
                                 tensor->dtype));
    }
  }
  for (const auto& [name, place] : tensors_) {
    if (used.contains(name) || is_left_out(name, model)) continue;
    if (name == "lm_head.weight" && layout.is_tied()) {
      notices.push_back(place_of(name) +
                        " is not read: config.json ties the head to the embedding");
      continue;
    }
    return refused(place_of(name) + " is of no parameter that config.json's model_type '" +
                   model.family + "' has; is it the config.json of another model?");
  }
  return notices;
}

Expected<std::vector<std::string>> WeightFolder::check_values(const ModelConfig& model) const {
  constexpr const char *k_score = "score.weight", *k_bias = "score.bias";
  ParameterLayout layout = layout_of(model, model::HeadKind::value);
  const bool has_score = find(k_score) != nullptr;
  if (!has_score)
    std::erase_if(layout.specs, [&](const ParameterSpec& spec) { return spec.name == k_score; });
  COHORT_ASSIGN(std::vector<std::string> notices, check(model, layout, {"lm_head.weight", k_bias}));
  if (!has_score)
    notices.push_back(folder_.string() + ": has no score.weight: the values start at 0");
  const NamedTensor* bias = find(k_bias);
  if (bias == nullptr) return notices;
  float value = 0;
  const bool is_one = bias->shape == std::vector<int64_t>{1} &&
                      (bias->dtype == "F32" || bias->dtype == "BF16" || bias->dtype == "F16");
  if (is_one) read(k_bias, 0, std::span(&value, 1));
  if (!is_one || value != 0)
    return Error{Errc::invalid_argument,
                 place_of(k_bias) +
                     " is not one 0: a value head has no bias here; start from the "
                     "policy's folder, or write the classifier without it"};
  return notices;
}

void WeightFolder::read_as(tensor::Dtype dtype, std::string_view name, int64_t begin,
                           std::span<std::byte> to) const {
  const NamedTensor& tensor = *find(name);
  const size_t element = tensor::size_of(dtype), count = to.size() / element;
  if (tensor.dtype == (dtype == tensor::Dtype::bf16 ? "BF16" : "F32")) {
    std::memcpy(to.data(), tensor.bytes.data() + static_cast<size_t>(begin) * element, to.size());
    return;
  }
  std::array<float, 1024> values;
  for (size_t done = 0; done < count; done += values.size()) {
    const std::span<float> block(values.data(), std::min(values.size(), count - done));
    read(name, begin + static_cast<int64_t>(done), block);
    std::byte* at = to.data() + done * element;
    if (dtype == tensor::Dtype::f32) {
      std::memcpy(at, block.data(), block.size_bytes());
      continue;
    }
    for (size_t i = 0; i < block.size(); ++i) {
      const uint16_t half = to_bf16(block[i]);
      std::memcpy(at + i * sizeof half, &half, sizeof half);
    }
  }
}

void WeightFolder::read(std::string_view name, int64_t begin, std::span<float> to) const {
  const NamedTensor& tensor = *find(name);
  const auto count = static_cast<int64_t>(to.size());
  if (tensor.dtype == "F32") {
    std::memcpy(to.data(), tensor.bytes.data() + static_cast<size_t>(begin) * sizeof(float),
                to.size_bytes());
  } else if (tensor.dtype == "BF16") {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = uint32_t{element<uint16_t>(tensor, begin + i)} << 16;
      std::memcpy(&to[static_cast<size_t>(i)], &bits, sizeof bits);
    }
  } else if (tensor.dtype == "F16") {
    for (int64_t i = 0; i < count; ++i)
      to[static_cast<size_t>(i)] = half_to_float(element<uint16_t>(tensor, begin + i));
  } else {
    const NamedTensor& scales = *find(std::string(name) + std::string(k_scale));
    const int64_t columns = tensor.shape.back(), scale_columns = scales.shape.back();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (begin + i) / columns, column = (begin + i) % columns;
      const auto scale = element<float>(scales, row / k_block * scale_columns + column / k_block);
      to[static_cast<size_t>(i)] = eighth_to_float(element<uint8_t>(tensor, begin + i)) * scale;
    }
  }
}

}  // namespace cohort::compute
