#include "runtime/model/hf_folder.hpp"

#include <fmt/format.h>

#include "runtime/base/read_file.hpp"

namespace cohort::model {

Expected<HfConfig> read_hf_folder(const std::filesystem::path& folder) {
  constexpr uintmax_t k_bytes_max = uintmax_t{1} << 20;
  const std::filesystem::path path = folder / "config.json";
  COHORT_ASSIGN(const std::string text, read_file(path, k_bytes_max));
  COHORT_ASSIGN(HfConfig config, read_hf_config(text, folder.string()));
  if (!config.unknown_keys.empty())
    return Error{Errc::config,
                 fmt::format("{}: nobody here knows what '{}' changes; remove the key if the "
                             "model computes the same without it",
                             path.string(), config.unknown_keys.front())};
  return config;
}

}  // namespace cohort::model
