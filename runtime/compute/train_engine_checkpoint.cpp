// TrainEngine: save and load. model.safetensors has HF names in f32; optimizer.safetensors has
// exp_avg.<name> and exp_avg_sq.<name>; train_state.json ties them together by hash.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/compute/atomic_folder.hpp"
#include "runtime/compute/safetensors.hpp"
#include "runtime/compute/train_state.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;

constexpr int k_format = 1;  // of train_state.json

std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

uint64_t hash_of(std::span<const float> values) {
  return tensor::checksum64(std::as_bytes(values));
}

void append_tensors(const ParameterLayout& layout, std::span<const float> flat,
                    const std::string& prefix, std::vector<NamedTensor>& tensors) {
  for (const ParameterSpec& spec : layout.specs)
    tensors.push_back({prefix + spec.name, "F32", spec.shape,
                       std::as_bytes(flat.subspan(static_cast<size_t>(spec.offset),
                                                  static_cast<size_t>(spec.count)))});
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Fills `flat` (zeros in the padding) with the tensors called prefix + name.
Expected<void> read_flat(const SafetensorsFile& file, const std::string& where,
                         const ParameterLayout& layout, const std::string& prefix,
                         std::span<float> flat) {
  for (const ParameterSpec& spec : layout.specs) {
    const NamedTensor* tensor = file.find(prefix + spec.name);
    if (tensor == nullptr)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: no tensor '{}'", where, prefix + spec.name)};
    if (tensor->shape != spec.shape)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: tensor '{}' has shape {}, the model needs {}", where,
                               tensor->name, shape_text(tensor->shape), shape_text(spec.shape))};
    COHORT_TRY(copy_to_f32(
        *tensor, flat.subspan(static_cast<size_t>(spec.offset), static_cast<size_t>(spec.count))));
  }
  return {};
}

Expected<nlohmann::json> read_json(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Errc::not_found, path.string() + ": cannot be opened"};
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Errc::corrupt, path.string() + ": not a JSON object"};
  return json;
}

Expected<void> check_hash(const nlohmann::json& state, const char* key,
                          std::span<const float> values, const fs::path& folder) {
  auto it = state.find(key);
  const std::string found = hex(hash_of(values));
  if (it == state.end() || !it->is_string() || it->get<std::string>() != found)
    return Error{Errc::corrupt, fmt::format("{}: {} is {}, train_state.json says otherwise",
                                            folder.string(), key, found)};
  return {};
}

std::span<float> flat_of(const TrainEngine::State& s, const HeldBuffer& buffer) {
  return {reinterpret_cast<float*>(buffer.data), s.flat_elements()};
}

Expected<void> write_text(const fs::path& path, const std::string& text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return write_synced(path, std::span(&part, 1));
}

}  // namespace

Expected<void> TrainEngine::save(const fs::path& folder) const {
  State& s = *state_;
  COHORT_ASSIGN(AtomicFolder output, AtomicFolder::create(folder));
  std::vector<NamedTensor> tensors;
  append_tensors(s.layout, flat_of(s, s.master_buffer()), "", tensors);
  COHORT_TRY(write_safetensors(output.path() / "model.safetensors", tensors, {{"format", "pt"}}));
  nlohmann::ordered_json state = {
      {"format", k_format}, {"optimizer_steps", s.steps}, {"param_hash", hex(param_hash())}};
  if (!s.options.is_frozen) {
    COHORT_TRY(s.optimizer.materialise());
    tensors.clear();
    append_tensors(s.layout, flat_of(s, s.m_buffer()), "exp_avg.", tensors);
    append_tensors(s.layout, flat_of(s, s.v_buffer()), "exp_avg_sq.", tensors);
    COHORT_TRY(write_safetensors(output.path() / "optimizer.safetensors", tensors, {}));
    state["exp_avg_hash"] = hex(hash_of(flat_of(s, s.m_buffer())));
    state["exp_avg_sq_hash"] = hex(hash_of(flat_of(s, s.v_buffer())));
  }
  COHORT_TRY(write_text(output.path() / "config.json", to_hf_json(s.options.model)));
  COHORT_TRY(write_text(output.path() / "train_state.json", state.dump(2) + "\n"));
  return output.commit();
}

Expected<void> TrainEngine::load(const fs::path& folder) {
  State& s = *state_;
  COHORT_ASSIGN(nlohmann::json json, read_json(folder / "train_state.json"));
  auto steps = json.find("optimizer_steps");
  if (json.value("format", nlohmann::json()) != k_format || steps == json.end() ||
      !steps->is_number_unsigned())
    return Error{Errc::corrupt,
                 (folder / "train_state.json").string() + ": needs format 1 and optimizer_steps"};
  const fs::path model = folder / "model.safetensors", moments = folder / "optimizer.safetensors";
  std::vector<float> parameters(s.flat_elements()), m, v;
  COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(model));
  COHORT_TRY(read_flat(file, model.string(), s.layout, "", parameters));
  COHORT_TRY(check_hash(json, "param_hash", parameters, folder));
  if (!s.options.is_frozen) {
    m.resize(s.flat_elements());
    v.resize(s.flat_elements());
    COHORT_ASSIGN(SafetensorsFile other, SafetensorsFile::open(moments));
    COHORT_TRY(read_flat(other, moments.string(), s.layout, "exp_avg.", m));
    COHORT_TRY(read_flat(other, moments.string(), s.layout, "exp_avg_sq.", v));
    COHORT_TRY(check_hash(json, "exp_avg_hash", m, folder));
    COHORT_TRY(check_hash(json, "exp_avg_sq_hash", v, folder));
    COHORT_TRY(s.optimizer.materialise());
    std::copy(m.begin(), m.end(), flat_of(s, s.m_buffer()).begin());
    std::copy(v.begin(), v.end(), flat_of(s, s.v_buffer()).begin());
  }
  std::copy(parameters.begin(), parameters.end(), flat_of(s, s.master_buffer()).begin());
  s.refresh_compute();
  s.steps = steps->get<uint64_t>();
  return {};
}

Expected<void> TrainEngine::load_model(const fs::path& folder) {
  State& s = *state_;
  const fs::path path = folder / "model.safetensors";
  COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  std::vector<float> parameters(s.flat_elements());
  COHORT_TRY(read_flat(file, path.string(), s.layout, "", parameters));
  std::copy(parameters.begin(), parameters.end(), flat_of(s, s.master_buffer()).begin());
  s.refresh_compute();
  s.steps = 0;
  if (!s.optimizer.is_absent()) {
    for (std::span<float> values : {flat_of(s, s.m_buffer()), flat_of(s, s.v_buffer())})
      std::fill(values.begin(), values.end(), 0.0f);
  }
  return {};
}

}  // namespace cohort::compute
