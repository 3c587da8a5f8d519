// TrainEngine: save. model.safetensors is a whole Hugging Face file in f32 at every checkpoint: the
// parameter hash has each unit gathered anyhow, and rank 0 writes it as it passes. Moments are not
// gathered: alone they are whole tensors (exp_avg.<name>, exp_avg_sq.<name>) in
// optimizer.safetensors, else each rank writes its slices. train_state.json ties them together.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/compute/train/atomic_folder.hpp"
#include "runtime/compute/train/checkpoint_slices.hpp"
#include "runtime/compute/train/train_state.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using State = TrainEngine::State;

constexpr int k_format_whole = 1, k_format_slices = 2;  // of train_state.json
constexpr size_t k_path_max = 4096;

std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

Expected<void> write_text(const fs::path& path, const std::string& text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return write_synced(path, std::span(&part, 1));
}

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
  COHORT_ASSIGN(auto all,
                s.gather_bytes(std::as_bytes(std::span(&hash, 1)),
                               std::vector<size_t>(static_cast<size_t>(s.ranks()), sizeof hash)));
  for (int rank = 0; rank < s.ranks(); ++rank) {
    uint64_t of_rank = 0;
    std::memcpy(&of_rank, all[static_cast<size_t>(rank)].data(), sizeof of_rank);
    const TensorPart first = s.zero.part(0, rank);
    state["slices"].push_back({{"file", slice_file(rank, s.ranks())},
                               {"first", slice_name("exp_avg." + s.layout.specs[0].name, first)},
                               {"hash", hex(of_rank)}});
  }
  return {};
}

/// Gathers the model unit by unit; rank 0 writes it on the way. Returns its hash.
Expected<uint64_t> save_model(const State& s, const fs::path& folder) {
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec& spec : s.layout.specs)
    tensors.push_back({spec.name, "F32", spec.shape, {}});
  Expected<void> written;  // of rank 0: the others go on gathering
  std::optional<SafetensorsWriter> writer;
  if (s.rank() == 0) {
    auto created =
        SafetensorsWriter::create(folder / "model.safetensors", tensors, {{"format", "pt"}});
    if (created)
      writer.emplace(std::move(*created));
    else
      written = created.error();
  }
  auto visit = [&](const ZeroUnit& unit, std::span<const float> values) -> Expected<void> {
    for (size_t spec = unit.first_spec; writer && written && spec < unit.end_spec; ++spec) {
      const ParameterSpec& of = s.layout.specs[spec];
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
  if (!s.options.is_frozen) COHORT_TRY(save_moments(s, path, state));
  Expected<void> done;  // the folder gets its name when every rank's part is on disk
  if (s.rank() == 0) {
    const char* dtype = s.is_bf16() ? "bfloat16" : "float32";
    done = write_text(path / "config.json", model::write_hf_config({.shape = s.options.model, .dtype = dtype}));
    if (done) done = write_text(path / "train_state.json", state.dump(2) + "\n");
    if (done) done = output->commit();
  }
  return s.agree(done, 0, "save");
} catch (const std::exception& e) {
  return failed("save", e);
}

}  // namespace cohort::compute
