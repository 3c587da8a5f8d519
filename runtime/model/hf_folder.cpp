#include "runtime/model/hf_folder.hpp"

#include <fmt/format.h>

#include "runtime/base/read_file.hpp"

namespace cohort::model {

Expected<HfConfig> read_hf_folder(const std::filesystem::path& folder) {
  return read_hf_file(folder / "config.json");
}

Expected<HfConfig> read_hf_file(const std::filesystem::path& path) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  COHORT_ASSIGN(const std::string text, read_file(path, k_bytes_max));
  COHORT_ASSIGN(HfConfig config, read_hf_config(text, path.parent_path().string()));
  if (const std::string gap = engine_gap(config.shape); !gap.empty())
    return Error{Errc::config, fmt::format("{}: {}", path.string(), gap)};
  if (!config.unknown_keys.empty())
    return Error{Errc::config,
                 fmt::format("{}: nobody here knows what '{}' changes; remove the key if the "
                             "model computes the same without it",
                             path.string(), config.unknown_keys.front())};
  return config;
}

ModelSource source_of(std::string_view pretrain) {
  ModelSource source{pretrain.starts_with(k_random), std::string(pretrain)};
  if (source.is_random) source.name.erase(0, k_random.size());
  std::error_code ignored;
  const std::filesystem::path path = source.name, inside = path / "config.json";
  if (source.name.empty()) return source;
  if (source.is_random && std::filesystem::is_regular_file(path, ignored))
    source.config = path;
  else if (std::filesystem::is_regular_file(inside, ignored))
    source.config = inside;
  return source;
}

}  // namespace cohort::model
