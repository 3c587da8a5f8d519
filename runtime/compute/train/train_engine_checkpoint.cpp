// TrainEngine: save and load. model.safetensors is a whole Hugging Face file in f32 at every
// checkpoint: the parameter hash has each unit gathered anyhow, and rank 0 writes it as it passes.
// Moments are not gathered: alone they are whole tensors (exp_avg.<name>, exp_avg_sq.<name>) in
// optimizer.safetensors, else each rank writes its slices. train_state.json ties them together.
// What is loaded is checked whole, by every rank, before anything is changed. An adapter is saved
// in its model's place, as a PEFT folder; the model under it is named by its hash.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "runtime/base/log.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/compute/train/atomic_folder.hpp"
#include "runtime/compute/train/checkpoint_slices.hpp"
#include "runtime/compute/train/train_state.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/model/lora_file.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using State = TrainEngine::State;

constexpr int k_format_whole = 1, k_format_slices = 2;  // of train_state.json
constexpr size_t k_path_max = 4096;
constexpr const char *k_adapter_file = "adapter_model.safetensors",
                     *k_adapter_config = "adapter_config.json";

std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

/// This rank's part of each tensor in `buffer`, as slices, or whole if there is one rank.
void append_slices(const State& s, const HeldBuffer& buffer, const std::string& prefix,
                   std::vector<NamedTensor>& tensors) {
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    const ParameterSpec& of = s.layout.specs[spec];
    const TensorPart part = s.zero.part(spec, s.rank());
    if (part.count() == 0) continue;
    const bool is_whole = s.ranks() == 1;
    tensors.push_back(
        {is_whole ? prefix + of.name : slice_name(prefix + of.name, part),
         "F32",
         is_whole ? of.shape : std::vector<int64_t>{part.count()},
         {s.find(buffer, spec, part.begin), static_cast<size_t>(part.count()) * sizeof(float)}});
  }
}

uint64_t hash_of(std::span<const NamedTensor> tensors) {
  tensor::Checksum sum;
  for (const NamedTensor& tensor : tensors) sum.update(tensor.bytes);
  return sum.digest();
}

uint64_t hash_of(const State& s, const HeldBuffer& flat) {
  return tensor::checksum64({flat.data, s.flat_elements() * sizeof(float)});
}

/// Writes this rank's moments and tells all ranks its file's hash.
Expected<void> save_moments(State& s, const fs::path& folder, nlohmann::ordered_json& state) {
  std::vector<NamedTensor> tensors;
  std::vector<std::byte> m_copied, v_copied;
  const HeldBuffer m = s.on_host(s.m_buffer(), m_copied), v = s.on_host(s.v_buffer(), v_copied);
  append_slices(s, m, "exp_avg.", tensors);
  append_slices(s, v, "exp_avg_sq.", tensors);
  if (s.ranks() == 1) {
    state["exp_avg_hash"] = hex(hash_of(s, m));
    state["exp_avg_sq_hash"] = hex(hash_of(s, v));
    return write_safetensors(folder / "optimizer.safetensors", tensors, {});
  }
  const auto written = write_safetensors(folder / slice_file(s.rank(), s.ranks()), tensors, {});
  COHORT_TRY(s.agree(written, 0, "save"));
  const uint64_t hash = hash_of(tensors);
  COHORT_ASSIGN(const std::vector<uint64_t> hashes, s.gather_each(hash));
  for (int rank = 0; rank < s.ranks(); ++rank) {
    const TensorPart first = s.zero.part(0, rank);
    state["slices"].push_back({{"file", slice_file(rank, s.ranks())},
                               {"first", slice_name("exp_avg." + s.layout.specs[0].name, first)},
                               {"hash", hex(hashes[static_cast<size_t>(rank)])}});
  }
  return {};
}

/// Gathers the model unit by unit; rank 0 writes it on the way. Returns its hash.
Expected<uint64_t> save_model(const State& s, const fs::path& folder) {
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec& spec : s.experts.whole().specs)
    tensors.push_back({spec.name, "F32", spec.shape, {}});
  Expected<void> written;  // of rank 0: the others go on gathering
  std::optional<SafetensorsWriter> writer;
  if (s.rank() == 0) {
    const char* file = s.has_lora() ? k_adapter_file : "model.safetensors";
    auto created = SafetensorsWriter::create(folder / file, tensors, {{"format", "pt"}});
    if (created)
      writer.emplace(std::move(*created));
    else
      written = created.error();
  }
  auto visit = [&](const ZeroUnit& unit, std::span<const float> values) -> Expected<void> {
    for (size_t spec = unit.first_spec; writer && written && spec < unit.end_spec; ++spec) {
      const ParameterSpec& of = s.experts.whole().specs[spec];
      written = writer->append(std::as_bytes(values.subspan(
          static_cast<size_t>(of.offset - unit.begin), static_cast<size_t>(of.count))));
    }
    return {};
  };
  COHORT_ASSIGN(const uint64_t hash, s.hash_master(visit));
  if (writer && written) written = writer->finish();
  COHORT_TRY(s.agree(written, hash, "save"));
  return hash;
}

/// Rank 0 makes the folder under its temporary name and tells the others where it is.
Expected<fs::path> share_folder(const State& s, const fs::path& folder,
                                std::optional<AtomicFolder>& output) {
  Expected<void> made;
  std::string path(k_path_max, '\0');
  if (s.rank() == 0) {
    auto created = AtomicFolder::create(folder);
    if (created) {
      output.emplace(std::move(*created));
      path.replace(0, output->path().string().size(), output->path().string());
    } else {
      made = created.error();
    }
    if (made && path.size() != k_path_max)
      made = Error{Errc::invalid_argument,
                   fmt::format("{}: path is over {} characters", folder.string(), k_path_max)};
    path.resize(k_path_max);
  }
  COHORT_TRY(s.agree(made, 0, "save"));
  if (s.ranks() > 1)
    COHORT_TRY(s.options.zero.group->broadcast(std::as_writable_bytes(std::span(path)), 0));
  return fs::path(path.c_str());
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Expected<json> read_json(const fs::path& path) {
  constexpr uintmax_t k_bytes_max = uintmax_t{64} << 20;
  COHORT_ASSIGN(const std::string text, read_file(path, k_bytes_max));
  auto parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Error{Errc::corrupt, path.string() + ": not a JSON object"};
  return parsed;
}

/// Checks that the file has every tensor called prefix + name in its shape, f32 or bf16.
Expected<void> check_tensors(const State& s, const SafetensorsFile& file, const std::string& where,
                             const std::string& prefix) {
  for (const ParameterSpec& spec : s.experts.whole().specs) {
    const NamedTensor* tensor = file.find(prefix + spec.name);
    if (tensor == nullptr)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: no tensor '{}'", where, prefix + spec.name)};
    if (tensor->shape != spec.shape)
      return Error{Errc::invalid_argument,
                   fmt::format("{}: tensor '{}' has shape {}, the model needs {}", where,
                               tensor->name, shape_text(tensor->shape), shape_text(spec.shape))};
    if (tensor->dtype != "F32" && tensor->dtype != "BF16")
      return Error{Errc::invalid_argument, fmt::format("{}: tensor '{}' is {}, not F32 or BF16",
                                                       where, tensor->name, tensor->dtype)};
  }
  return {};
}

/// Hash of the tensors as they lie in the flat buffer, padding included.
using ReadTensor = std::function<Expected<void>(const std::string& name, std::span<float> to)>;
Expected<void> check_flat_hash(const State& s, const ReadTensor& read, const json& state,
                               const char* key, const fs::path& folder) {
  tensor::Checksum sum;
  std::vector<float> values;
  const ParameterLayout& layout = s.experts.whole();
  for (size_t spec = 0; spec < layout.specs.size(); ++spec) {
    const ParameterSpec& of = layout.specs[spec];
    const int64_t end =
        spec + 1 < layout.specs.size() ? layout.specs[spec + 1].offset : layout.total_elements;
    values.assign(static_cast<size_t>(end - of.offset), 0.0f);
    COHORT_TRY(read(of.name, std::span(values).first(static_cast<size_t>(of.count))));
    sum.update(std::as_bytes(std::span(values)));
  }
  const std::string found = hex(sum.digest());
  if (state.value(key, json()) != found)
    return Error{Errc::corrupt, fmt::format("{}: {} is {}, train_state.json says otherwise",
                                            folder.string(), key, found)};
  return {};
}

void store_model(const State& s, const WeightFolder& weights) {
  std::vector<float> values;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    values.assign(static_cast<size_t>(s.layout.specs[spec].count), 0.0f);
    if (weights.find(s.layout.specs[spec].name) != nullptr)  // else a value head that begins
      weights.read(s.layout.specs[spec].name, 0, values);
    s.store_parameters(spec, 0, values);
  }
}

/// Moments as one rank wrote them, or as slices.
Expected<SliceTable> open_moments(const State& s, const json& state, const fs::path& folder) {
  SliceTable table;
  if (!state.contains("slices")) {
    const fs::path path = folder / "optimizer.safetensors";
    COHORT_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
    for (const char* prefix : {"exp_avg.", "exp_avg_sq."}) {
      COHORT_TRY(check_tensors(s, file, path.string(), prefix));
      if (s.rank() == 0)
        COHORT_TRY(check_flat_hash(
            s,
            [&](const std::string& name, std::span<float> to) {
              return copy_to_f32(*file.find(prefix + name), to);
            },
            state, prefix[7] == '.' ? "exp_avg_hash" : "exp_avg_sq_hash", folder));
    }
    COHORT_TRY(table.add(file, path.string()));
    return table;
  }
  int index = 0;
  for (const json& slice : state["slices"]) {
    if (!slice.is_object() || !slice.contains("file") || !slice["file"].is_string())
      return Error{Errc::corrupt, (folder / "train_state.json").string() + ": bad 'slices'"};
    const fs::path path = folder / fs::path(slice["file"].get<std::string>()).filename();
    auto file = SafetensorsFile::open(path);
    if (!file)
      return Error{file.error().code,
                   fmt::format("{} (it has '{}' and others)", file.error().detail,
                               slice.value("first", std::string("slices")))};
    if (index++ % s.ranks() == s.rank()) {  // each rank reads some of them whole
      tensor::Checksum sum;
      for (const NamedTensor& tensor : file->tensors()) sum.update(tensor.bytes);
      if (slice.value("hash", json()) != hex(sum.digest()))
        return Error{Errc::corrupt,
                     fmt::format("{}: hash is {}, train_state.json says otherwise (it has '{}' and "
                                 "others)",
                                 path.string(), hex(sum.digest()),
                                 slice.value("first", std::string("slices")))};
    }
    COHORT_TRY(table.add(*file, path.string()));
  }
  return table;
}

Expected<void> check_moments(const State& s, const SliceTable& table) {
  const HeldBuffer m = s.m_buffer();
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec)
    for (const char* prefix : {"exp_avg.", "exp_avg_sq."})
      COHORT_TRY(table.check(prefix + s.layout.specs[spec].name, s.layout.specs[spec].count,
                             s.held(m, spec)));
  return {};
}

void store_moments(const State& s, const SliceTable& table) {
  const std::pair<const char*, HeldBuffer> both[] = {{"exp_avg.", s.m_buffer()},
                                                     {"exp_avg_sq.", s.v_buffer()}};
  std::vector<float> staging;  // for moments on a device
  for (const auto& [prefix, buffer] : both)
    for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
      const TensorPart part = s.held(buffer, spec);
      if (part.count() == 0) continue;
      float* to = s.find_float(buffer, spec, part.begin);
      const auto count = static_cast<size_t>(part.count());
      if (s.math.is_on_device(to)) staging.resize(count);
      float* host = s.math.is_on_device(to) ? staging.data() : to;
      table.copy(prefix + s.layout.specs[spec].name, part, {host, count});
      if (host != to) s.math.copy(to, host, count * sizeof(float));
    }
}

void store_base(const State& s, const WeightFolder& weights) {
  std::vector<float> values;
  for (size_t spec = 0; spec < s.base_layout.specs.size(); ++spec) {
    values.resize(static_cast<size_t>(s.base_layout.specs[spec].count));
    weights.read(s.base_layout.specs[spec].name, 0, values);
    s.store_base(spec, values);
  }
}

Expected<void> store_adapter(const State& s, const SafetensorsFile& file) {
  std::vector<float> values;
  for (size_t spec = 0; spec < s.layout.specs.size(); ++spec) {
    values.resize(static_cast<size_t>(s.layout.specs[spec].count));
    COHORT_TRY(copy_to_f32(*file.find(s.layout.specs[spec].name), values));
    s.store_parameters(spec, 0, values);
  }
  return {};
}

/// The optimizer begins: moments that are there become zeros.
void forget_moments(State& s) {
  s.steps = 0;
  if (s.optimizer.is_absent() || s.options.is_frozen) return;
  for (const HeldBuffer& moments : {s.m_buffer(), s.v_buffer()})
    s.math.zero(moments.data, s.optimizer_elements() * sizeof(float));
}

/// Everything a load reads, checked.
struct Loaded {
  model::HfConfig described;
  std::optional<WeightFolder> model;
  std::optional<SafetensorsFile> adapter;  // in the place of the model
  SliceTable moments;
  uint64_t steps = 0;
};

/// What a folder says of its model beyond the shape that the engine has: ids, the length that
/// positions are good for, the dtype of its tensors, and where its tokenizer is.
Expected<model::HfConfig> describe(const State& s, const fs::path& folder,
                                   const WeightFolder& weights) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  model::HfConfig described = s.described;
  const Expected<std::string> text = read_file(folder / "config.json", k_bytes_max);
  if (!text && text.error().code == Errc::not_found) return described;
  if (!text) return text.error();
  COHORT_ASSIGN(described, model::read_hf_config(*text, folder.string()));
  const int64_t length = described.shape.max_position;
  described.shape = s.options.model;
  if (length > 0) described.shape.max_position = length;
  s.describe_head(described);
  std::error_code unreadable;  // then it is as if it were not there
  if (fs::exists(folder / "train_state.json", unreadable))
    return described;  // of ours: it says the rest
  described.dtype = weights.has_only("BF16") ? "bfloat16" : "float32";
  // A folder of weights alone: the tokenizer is where the options say.
  described.name_or_path = s.options.described.name_or_path;
  if (described.name_or_path.empty() || fs::exists(folder / "tokenizer.json", unreadable))
    described.name_or_path = fs::absolute(folder, unreadable).lexically_normal().string();
  return described;
}

Expected<void> open_weights(const State& s, const fs::path& folder, bool is_start, Loaded& out) {
  COHORT_ASSIGN(out.model, WeightFolder::open(folder));
  const bool may_lack_head = is_start && s.options.head == model::HeadKind::value;
  const auto notices =
      may_lack_head
          ? out.model->check_values(s.options.model)
          : out.model->check(s.options.model, (s.has_lora() ? s.base_experts : s.experts).whole());
  if (!notices) return notices.error();
  COHORT_ASSIGN(out.described, describe(s, folder, *out.model));
  for (const std::string& notice : *notices)
    if (s.rank() == 0) log::info("{}", notice);
  return {};
}

/// Adapters fit if they are of the same modules, rank and scale.
Expected<void> open_adapter(const State& s, const fs::path& folder, Loaded& out) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  const fs::path config_path = folder / k_adapter_config, path = folder / k_adapter_file;
  COHORT_ASSIGN(const std::string text, read_file(config_path, k_bytes_max));
  COHORT_ASSIGN(const model::LoraShape found,
                model::parse_adapter_config(text, config_path.string()));
  const model::LoraShape& asked = s.lora->shape;
  if (found.rank != asked.rank || found.scale() != asked.scale())
    return Error{
        Errc::invalid_argument,
        fmt::format("{}: rank {} and scale {}, the run's lora_rank and lora_alpha give {} "
                    "and {}",
                    config_path.string(), found.rank, found.scale(), asked.rank, asked.scale())};
  COHORT_ASSIGN(out.adapter, SafetensorsFile::open(path));
  COHORT_TRY(check_tensors(s, *out.adapter, path.string(), ""));
  std::set<std::string_view> names;
  for (const ParameterSpec& spec : s.experts.whole().specs) names.insert(spec.name);
  for (const NamedTensor& tensor : out.adapter->tensors())
    if (!names.contains(tensor.name))
      return Error{Errc::invalid_argument,
                   fmt::format("{}: tensor '{}' is of no module that the run's lora_target names",
                               path.string(), tensor.name)};
  return {};
}

/// What a checkpoint has of the parameters: the model, or an adapter over the model that is here.
Expected<void> open_parameters(const State& s, const json& state, const fs::path& folder,
                               Loaded& out) {
  if (!s.has_lora()) return open_weights(s, folder, false, out);
  COHORT_TRY(open_adapter(s, folder, out));
  COHORT_ASSIGN(const uint64_t base, s.base_hash());
  if (state.value("base_hash", json()) != hex(base))
    return Error{
        Errc::invalid_argument,
        fmt::format("{}: its adapter was trained over another model than {}: set "
                    "`pretrain` to the folder that it was trained from",
                    folder.string(), s.base_folder.empty() ? "the initial one" : s.base_folder)};
  return {};
}

Expected<void> read_parameter(const Loaded& from, const std::string& name, std::span<float> to) {
  if (from.adapter) return copy_to_f32(*from.adapter->find(name), to);
  from.model->read(name, 0, to);
  return {};
}

Expected<void> open_checkpoint(State& s, const fs::path& folder, Loaded& out) {
  COHORT_ASSIGN(json state, read_json(folder / "train_state.json"));
  auto steps = state.find("optimizer_steps");
  const json format = state.value("format", json());
  if ((format != 1 && format != 2) || steps == state.end() || !steps->is_number_unsigned())
    return Error{Errc::corrupt, (folder / "train_state.json").string() +
                                    ": needs format 1 or 2, and optimizer_steps"};
  out.steps = steps->get<uint64_t>();
  COHORT_TRY(open_parameters(s, state, folder, out));
  if (s.rank() == 0)
    COHORT_TRY(check_flat_hash(
        s,
        [&](const std::string& name, std::span<float> to) { return read_parameter(out, name, to); },
        state, "param_hash", folder));
  if (s.options.is_frozen) return {};
  COHORT_ASSIGN(out.moments, open_moments(s, state, folder));
  COHORT_TRY(check_moments(s, out.moments));
  return s.optimizer.materialise();
}

/// Beside the tensors: what they are of.
Expected<void> write_description(const State& s, const fs::path& folder) {
  const std::string text = s.has_lora() ? model::write_adapter_config(s.lora->shape, s.base_folder)
                                        : model::write_hf_config(s.described);
  return write_synced(folder / (s.has_lora() ? k_adapter_config : "config.json"),
                      std::as_bytes(std::span(text)));
}

}  // namespace

Expected<void> TrainEngine::save(const fs::path& folder) const try {
  State& s = *state_;
  Expected<void> ready;
  if (!s.options.is_frozen) ready = s.optimizer.materialise();
  COHORT_TRY(s.agree(ready, s.steps, "save"));
  std::optional<AtomicFolder> output;
  COHORT_ASSIGN(const fs::path path, share_folder(s, folder, output));
  COHORT_ASSIGN(const uint64_t hash, save_model(s, path));
  const bool has_slices = s.ranks() > 1 && !s.options.is_frozen;
  nlohmann::ordered_json state = {{"format", has_slices ? k_format_slices : k_format_whole},
                                  {"optimizer_steps", s.steps},
                                  {"param_hash", hex(hash)}};
  if (s.has_lora()) {
    COHORT_ASSIGN(const uint64_t base, s.base_hash());
    state["base_hash"] = hex(base);
  }
  if (!s.options.is_frozen) COHORT_TRY(save_moments(s, path, state));
  Expected<void> done;  // the folder gets its name when every rank's part is on disk
  if (s.rank() == 0) {
    const std::string ties = state.dump(2) + "\n";
    done = write_description(s, path);
    if (done) done = write_synced(path / "train_state.json", std::as_bytes(std::span(ties)));
    if (done) done = output->commit();
  }
  return s.agree(done, 0, "save");
} catch (const std::exception& e) {
  return failed("save", e);
}

Expected<void> TrainEngine::load(const fs::path& folder) try {
  State& s = *state_;
  Loaded loaded;
  if (s.has_lora()) COHORT_TRY(s.base_hash());  // of all ranks, before one of them may fail alone
  const auto opened = open_checkpoint(s, folder, loaded);
  COHORT_TRY(s.agree(opened, loaded.steps, "load"));
  if (s.has_lora())
    COHORT_TRY(store_adapter(s, *loaded.adapter));
  else
    store_model(s, *loaded.model);
  if (!s.options.is_frozen) store_moments(s, loaded.moments);
  s.steps = loaded.steps;
  if (!s.has_lora()) s.described = std::move(loaded.described);
  return {};
} catch (const std::exception& e) {
  return failed("load", e);
}

Expected<void> TrainEngine::load_model(const fs::path& folder) try {
  State& s = *state_;
  Loaded loaded;
  COHORT_TRY(s.agree(open_weights(s, folder, true, loaded), 0, "load_model"));
  if (s.has_lora()) {
    store_base(s, *loaded.model);
    s.base_folder = folder.string();
  } else {
    store_model(s, *loaded.model);
  }
  forget_moments(s);
  s.described = std::move(loaded.described);
  return {};
} catch (const std::exception& e) {
  return failed("load_model", e);
}

Expected<void> TrainEngine::load_adapter(const fs::path& folder) try {
  State& s = *state_;
  if (!s.has_lora())
    return Error{Errc::invalid_argument,
                 fmt::format("{}: {} trains no adapter", folder.string(), s.options.role)};
  Loaded loaded;
  COHORT_TRY(s.agree(open_adapter(s, folder, loaded), 0, "load_adapter"));
  COHORT_TRY(store_adapter(s, *loaded.adapter));
  forget_moments(s);
  return {};
} catch (const std::exception& e) {
  return failed("load_adapter", e);
}

}  // namespace cohort::compute
