#pragma once
/// The config.json of a folder from Hugging Face.
#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/model/hf_config.hpp"

namespace cohort::model {

/// Reads folder/config.json for an engine: a key that may change the computation in a way that
/// nobody here knows is refused by name. Errors as read_file() and read_hf_config().
Expected<HfConfig> read_hf_folder(const std::filesystem::path& folder);

}  // namespace cohort::model
