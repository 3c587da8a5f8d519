#include "runtime/compute/train/export_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/failpoint.hpp"
#include "runtime/base/outside_json.hpp"
#include "runtime/base/read_file.hpp"
#include "runtime/compute/device/cpu_setup.hpp"
#include "runtime/compute/model/lora_folder.hpp"
#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/train/atomic_folder.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/model/lora_file.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uintmax_t k_json_bytes_max = uintmax_t{64} << 20;
constexpr uintmax_t k_text_bytes_max = uintmax_t{256} << 20;  // of a tokenizer.json
constexpr int64_t k_piece = int64_t{1} << 20;                 // [elements] held at a time

/// What is copied as it is. Templates for several purposes are in additional_chat_templates.
constexpr const char* k_text_files[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "generation_config.json"};
constexpr const char *k_score = "score.weight", *k_score_bias = "score.bias";
constexpr const char* k_template_folder = "additional_chat_templates";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// What is exported, checked.
struct Source {
  fs::path folder;
  model::HfConfig config;
  ParameterLayout layout;
  WeightFolder weights;
  std::string hash;  // of the flat f32 parameters; empty: not known
  std::optional<LoraFolder> adapter = {};
  std::string base_hash = {};  // of the weights that the adapter was trained over; empty: not known
};

/// `key`: param_hash, or an adapter's base_hash.
Expected<std::string> recorded_hash(const fs::path& checkpoint, const char* key) {
  const fs::path path = checkpoint / "train_state.json";
  if (!is_there(path)) return std::string();
  COHORT_ASSIGN(const std::string text, read_file(path, k_json_bytes_max));
  const Expected<Json> state = parse_outside_object<Json>(text);
  if (!state || !state->contains(key) || !state->at(key).is_string())
    return Error{Errc::corrupt, fmt::format("{}: has no text '{}'", path.string(), key)};
  return state->at(key).get<std::string>();
}

/// A classification head's tensors, behind those of the model.
Expected<void> add_head(const fs::path& checkpoint, Source& source) {
  const auto add = [&](const char* name, std::vector<int64_t> shape) -> Expected<void> {
    const NamedTensor* found = source.weights.find(name);
    if (found == nullptr || found->shape != shape ||
        (found->dtype != "F32" && found->dtype != "BF16" && found->dtype != "F16"))
      return Error{Errc::invalid_argument,
                   fmt::format("{}: no tensor '{}' of shape [{}] in F32, BF16 or F16",
                               checkpoint.string(), name, fmt::join(shape, ", "))};
    ParameterSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    spec.offset = source.layout.total_elements;
    spec.count = spec.shape.front() * (spec.shape.size() > 1 ? spec.shape.back() : 1);
    source.layout.total_elements += spec.count;
    source.layout.specs.push_back(std::move(spec));
    return {};
  };
  COHORT_TRY(add(k_score, {source.config.labels, source.config.shape.hidden_size}));
  if (source.config.head == model::HfConfig::Head::token_score)
    COHORT_TRY(add(k_score_bias, {source.config.labels}));
  return {};
}

Expected<Source> open_source(const fs::path& checkpoint, std::vector<std::string>& notices) {
  Source source;
  source.folder = checkpoint;
  COHORT_ASSIGN(source.config, model::read_hf_folder(checkpoint));
  notices = source.config.notices;
  ModelConfig shape{source.config.shape};
  const bool has_head = source.config.head != model::HfConfig::Head::language;
  shape.tie_word_embeddings |= has_head;  // a classification head is in the place of lm_head
  source.layout = layout_of(shape);
  COHORT_ASSIGN(source.weights, WeightFolder::open(checkpoint));
  COHORT_ASSIGN(const std::vector<std::string> said,
                source.weights.check(shape, source.layout,
                                     has_head ? std::vector<std::string>{k_score, k_score_bias}
                                              : std::vector<std::string>{}));
  notices.insert(notices.end(), said.begin(), said.end());
  if (has_head) COHORT_TRY(add_head(checkpoint, source));
  COHORT_ASSIGN(source.hash, recorded_hash(checkpoint, "param_hash"));
  return source;
}

bool is_adapter(const fs::path& folder) {
  return !is_there(folder / "config.json") && is_there(folder / "adapter_config.json");
}

/// The folder whose weights are exported: the checkpoint, or the model under an adapter.
Expected<fs::path> weights_folder(const ExportOptions& options) {
  const fs::path& from = options.checkpoint;
  if (!is_adapter(from)) {
    if (!options.merges_adapter) return from;
    return Error{Errc::invalid_argument, from.string() +
                                             ": --merge: is no LoRA adapter (a folder "
                                             "with adapter_config.json)"};
  }
  if (!options.merges_adapter)
    return Error{Errc::unsupported, from.string() +
                                        ": holds a LoRA adapter, which PEFT reads as it is; "
                                        "--merge writes the whole model with it"};
  fs::path base = options.base;
  if (base.empty()) {
    COHORT_ASSIGN(const std::string text,
                  read_file(from / "adapter_config.json", k_json_bytes_max));
    base = model::adapter_base_of(text);
  }
  if (!base.empty() && is_there(base / "config.json")) return base;
  return Error{Errc::not_found, fmt::format("{}: no folder '{}' of the model under the adapter "
                                            "(base_model_name_or_path): --base FOLDER names it",
                                            from.string(), base.string())};
}

/// A checkpoint of ours is in f32 and says what it came from; others are what they are.
tensor::Dtype dtype_of(const Source& source, const ExportOptions& options) {
  if (options.dtype) return *options.dtype;
  const bool is_bf16 =
      source.hash.empty() ? source.weights.has_only("BF16") : source.config.dtype == "bfloat16";
  return is_bf16 ? tensor::Dtype::bf16 : tensor::Dtype::f32;
}

// ---- weights ---------------------------------------------------------------------------------

struct Shard {
  std::string file;
  std::vector<NamedTensor> tensors;         // without bytes
  std::vector<const ParameterSpec*> specs;  // the same, in the same order
  uint64_t bytes = 0;
};

/// Tensors in the order of the layout, as many as fit a file; no tensor is cut.
std::vector<Shard> shards_of(const ParameterLayout& layout, tensor::Dtype dtype,
                             uint64_t bytes_max) {
  std::vector<Shard> shards(1);
  const char* name = dtype == tensor::Dtype::bf16 ? "BF16" : "F32";
  for (const ParameterSpec& spec : layout.specs) {
    const uint64_t bytes = static_cast<uint64_t>(spec.count) * tensor::size_of(dtype);
    if (shards.back().bytes > 0 && shards.back().bytes + bytes > bytes_max) shards.emplace_back();
    shards.back().tensors.push_back({spec.name, name, spec.shape, {}});
    shards.back().specs.push_back(&spec);
    shards.back().bytes += bytes;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

/// The flat buffer that a hash is of, as it passes: gaps between tensors are zero.
class FlatHash {
 public:
  template <class Element>
  void pass(const ParameterSpec& spec, int64_t begin, std::span<const Element> values) {
    fill<Element>(spec.offset + begin);
    sum_.update(std::as_bytes(values));
    next_ += static_cast<int64_t>(values.size());
  }
  template <class Element>
  std::string finish(int64_t total) {
    fill<Element>(total);
    return fmt::format("{:016x}", sum_.digest());
  }

 private:
  template <class Element>
  void fill(int64_t until) {
    const std::vector<Element> zeros(static_cast<size_t>(until - next_));
    sum_.update(std::as_bytes(std::span(zeros)));
    next_ = until;
  }
  tensor::Checksum sum_;
  int64_t next_ = 0;
};

/// What passes on its way: the flat parameters, and as bf16 what an adapter was trained over.
struct PassedHashes {
  FlatHash whole, rounded;
  void pass(const Source& source, const ParameterSpec& spec, int64_t begin,
            std::span<const float> values, std::vector<uint16_t>& halves) {
    whole.pass(spec, begin, values);
    if (source.base_hash.empty()) return;
    halves.resize(values.size());
    std::ranges::transform(values, halves.begin(), to_bf16);
    rounded.pass(spec, begin, std::span<const uint16_t>(halves));
  }
};

Expected<void> write_tensor(const Source& source, const ParameterSpec& spec, tensor::Dtype dtype,
                            PassedHashes& hashes, SafetensorsWriter& writer) {
  std::vector<float> values;
  std::vector<uint16_t> halves;
  const bool is_merged = source.adapter && source.adapter->has(spec);
  const int64_t piece = is_merged ? spec.count : k_piece;
  for (int64_t begin = 0; begin < spec.count; begin += piece) {
    values.resize(static_cast<size_t>(std::min(piece, spec.count - begin)));
    source.weights.read(spec.name, begin, values);
    hashes.pass(source, spec, begin, values, halves);
    if (is_merged) source.adapter->add_to(spec, values);
    if (dtype == tensor::Dtype::f32) {
      COHORT_TRY(writer.append(std::as_bytes(std::span(values))));
      continue;
    }
    halves.resize(values.size());
    std::ranges::transform(values, halves.begin(), to_bf16);
    COHORT_TRY(writer.append(std::as_bytes(std::span(halves))));
  }
  return {};
}

Expected<void> write_index(const fs::path& folder, const std::vector<Shard>& shards,
                           const ExportReport& report) {
  Json map = Json::object();
  std::map<std::string, std::string> files;
  for (const Shard& shard : shards)
    for (const NamedTensor& tensor : shard.tensors) files[tensor.name] = shard.file;
  for (const auto& [tensor, file] : files) map[tensor] = file;
  const Json index = {
      {"metadata", {{"total_parameters", report.parameters}, {"total_size", report.bytes}}},
      {"weight_map", map}};
  const std::string text = index.dump(2) + "\n";
  return write_synced(folder / "model.safetensors.index.json", std::as_bytes(std::span(text)));
}

Expected<void> check_hashes(const Source& source, const ExportOptions& options,
                            PassedHashes& hashes) {
  const int64_t total = source.layout.total_elements;
  const std::string found = hashes.whole.finish<float>(total);
  if (!source.hash.empty() && source.hash != found)
    return Error{Errc::corrupt,
                 fmt::format("{}: the weights have the hash {}, train_state.json says {}: the "
                             "checkpoint is damaged, take another one",
                             source.folder.string(), found, source.hash)};
  // The model under an adapter is held in f32 or in bf16.
  if (source.base_hash.empty() || source.base_hash == found ||
      source.base_hash == hashes.rounded.finish<uint16_t>(total))
    return {};
  return Error{Errc::invalid_argument,
               fmt::format("{}: its adapter was trained over another model than {}: --base FOLDER "
                           "names the one that the run started from",
                           options.checkpoint.string(), source.folder.string())};
}

Expected<void> write_weights(const Source& source, const ExportOptions& options,
                             const fs::path& folder, ExportReport& report) {
  const std::vector<Shard> shards = shards_of(source.layout, report.dtype, options.shard_bytes_max);
  PassedHashes hashes;
  for (const Shard& shard : shards) {
    COHORT_ASSIGN(
        SafetensorsWriter writer,
        SafetensorsWriter::create(folder / shard.file, shard.tensors, {{"format", "pt"}}));
    for (const ParameterSpec* spec : shard.specs)
      COHORT_TRY(write_tensor(source, *spec, report.dtype, hashes, writer));
    COHORT_TRY(writer.finish());
    report.bytes += shard.bytes;
  }
  report.files = shards.size();
  report.parameters = static_cast<uint64_t>(parameter_count(source.layout));
  COHORT_TRY(check_hashes(source, options, hashes));
  if (shards.size() > 1) COHORT_TRY(write_index(folder, shards, report));
  return {};
}

/// The adapter that is merged, with the hashes of a checkpoint of ours checked and kept.
Expected<void> add_adapter(const fs::path& folder, Source& source) {
  use_single_threaded_math();  // as the engine that serves it
  COHORT_ASSIGN(source.adapter, LoraFolder::open(folder, source.layout));
  COHORT_ASSIGN(const std::string expected, recorded_hash(folder, "param_hash"));
  if (expected.empty()) return {};  // PEFT's
  COHORT_ASSIGN(source.base_hash, recorded_hash(folder, "base_hash"));
  COHORT_ASSIGN(const model::LoraShape lora,
                model::resolve_lora(source.config.shape, source.adapter->shape()));
  const ParameterLayout layout = lora_layout_of({source.config.shape}, lora).flat;
  FlatHash hash;
  std::vector<float> values;
  for (const ParameterSpec& spec : layout.specs) {
    const NamedTensor* tensor = source.adapter->file().find(spec.name);
    values.resize(static_cast<size_t>(spec.count));
    if (tensor == nullptr || tensor->shape != spec.shape)
      return Error{Errc::corrupt,
                   fmt::format("{}: has no tensor '{}' of shape [{}]", folder.string(), spec.name,
                               fmt::join(spec.shape, ", "))};
    COHORT_TRY(copy_to_f32(*tensor, values));
    hash.pass(spec, 0, std::span<const float>(values));
  }
  if (const std::string found = hash.finish<float>(layout.total_elements); found != expected)
    return Error{Errc::corrupt,
                 fmt::format("{}: the adapter has the hash {}, train_state.json says {}: the "
                             "checkpoint is damaged, take another one",
                             folder.string(), found, expected)};
  return {};
}

// ---- tokenizer and the like ------------------------------------------------------------------

/// Returns the folder that the files of text are in; empty: there is none.
Expected<fs::path> text_folder(const Source& source, const ExportOptions& options) {
  if (options.text == ExportOptions::Text::none) return fs::path();
  if (options.text == ExportOptions::Text::of_folder) {
    if (is_there(options.text_folder / "tokenizer.json")) return options.text_folder;
    return Error{Errc::not_found, options.text_folder.string() + ": has no tokenizer.json"};
  }
  const bool is_ours = !source.hash.empty();
  if (!is_ours || is_there(source.folder / "tokenizer.json")) return source.folder;
  const fs::path from = source.config.name_or_path;
  if (from.empty()) return fs::path();
  if (is_there(from)) return from;
  return Error{Errc::not_found,
               fmt::format("{}: the run started from {}, which is gone: name the folder that the "
                           "tokenizer files are in now (--tokenizer FOLDER), or do without them "
                           "(--no-tokenizer)",
                           source.folder.string(), from.string())};
}

Expected<void> copy_synced(const fs::path& from, const fs::path& to) {
  COHORT_ASSIGN(const std::string bytes, read_file(from, k_text_bytes_max));
  return write_synced(to, std::as_bytes(std::span(bytes)));
}

Expected<void> copy_text_files(const fs::path& from, const fs::path& to, ExportReport& report) {
  for (const char* name : k_text_files) {
    if (!is_there(from / name)) continue;
    COHORT_TRY(copy_synced(from / name, to / name));
    report.copied.emplace_back(name);
  }
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(from / k_template_folder, code)) {
    if (entry.path().extension() != ".jinja") continue;
    fs::create_directory(to / k_template_folder, code);
    const fs::path name = fs::path(k_template_folder) / entry.path().filename();
    COHORT_TRY(copy_synced(entry.path(), to / name));
    report.copied.push_back(name.string());
  }
  return {};
}

Expected<void> check_target(const ExportOptions& options) {
  std::error_code code;
  if (options.replaces || !fs::exists(fs::symlink_status(options.folder, code))) return {};
  if (fs::is_directory(options.folder, code) && fs::is_empty(options.folder, code)) return {};
  return Error{Errc::invalid_argument,
               options.folder.string() + ": exists and is not an empty folder; give a new one"};
}

}  // namespace

Expected<ExportReport> export_folder(const ExportOptions& options) {
  ExportReport report;
  COHORT_TRY(check_target(options));
  COHORT_ASSIGN(const fs::path weights, weights_folder(options));
  COHORT_ASSIGN(Source source, open_source(weights, report.notices));
  if (options.merges_adapter) COHORT_TRY(add_adapter(options.checkpoint, source));
  COHORT_ASSIGN(const fs::path text, text_folder(source, options));
  report.dtype = dtype_of(source, options);
  COHORT_ASSIGN(AtomicFolder output, AtomicFolder::create(options.folder));
  COHORT_TRY(write_weights(source, options, output.path(), report));
  source.config.dtype = report.dtype == tensor::Dtype::bf16 ? "bfloat16" : "float32";
  source.config.name_or_path.clear();  // a path of this machine means nothing on another
  const std::string config = model::write_hf_config(source.config);
  COHORT_TRY(write_synced(output.path() / "config.json", std::as_bytes(std::span(config))));
  if (!text.empty()) COHORT_TRY(copy_text_files(text, output.path(), report));
  if (std::ranges::find(report.copied, "tokenizer.json") == report.copied.end() &&
      options.text != ExportOptions::Text::none)
    report.notices.push_back(
        "no tokenizer.json is in the folder: the model did not start from one "
        "(--tokenizer FOLDER adds one)");
  failpoint::hit("export.written");
  COHORT_TRY(options.replaces ? output.commit() : output.commit_new());
  return report;
}

}  // namespace cohort::compute
