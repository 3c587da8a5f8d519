#pragma once
/// The config.json of a folder from Hugging Face.
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/model/hf_config.hpp"

namespace cohort::model {

/// Reads folder/config.json for an engine: a key that may change the computation in a way that
/// nobody here knows is refused by name, and so is a shape that no engine computes. Errors as
/// read_file() and read_hf_config().
Expected<HfConfig> read_hf_folder(const std::filesystem::path& folder);
/// The same of one file, whatever its name is.
Expected<HfConfig> read_hf_file(const std::filesystem::path& path);

/// In front of a name or a path: the shape alone; its weights are drawn.
inline constexpr std::string_view k_random = "random:";

/// What `pretrain` names: a folder with weights, or with random: in front a shape without them, by
/// a config.json, its folder, or a name of find_model().
struct ModelSource {
  bool is_random = false;
  std::string name;                   // without random:
  std::filesystem::path config = {};  // the config.json that is there; empty: none
};
/// Looks whether the files are there.
ModelSource source_of(std::string_view pretrain);

}  // namespace cohort::model
