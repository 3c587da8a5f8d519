#pragma once
/// Finding a key of the schema by what a user types: what `plan --explain KEY` stands on. Pure.
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/roll/schema.hpp"

namespace cohort::config {

/// `path`: a whole path (names of the user's choice as they are in the file, or as <name>), or its
/// end, if only one key ends so: "learning_rate", "num_env_groups". Returns Errc::config with the
/// keys that end so when there are several, Errc::not_found with the nearest ones when there is
/// none. The pointer is into `keys`: all_keys() or verl_keys().
Expected<const KeyInfo*> find_key(const std::vector<KeyInfo>& keys, std::string_view path);

}  // namespace cohort::config
