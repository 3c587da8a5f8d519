#pragma once
/// What a config asks for and this version plans but does not run. load() warns of each,
/// actors::preflight refuses the first: one list for both. Pure.
#include <string_view>
#include <vector>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// How load()'s warnings of this list begin. load_verl() alone sees all of verl's keys: of its
/// dialect the list is what it warned of with these words.
inline constexpr std::string_view k_not_run = "not run by this version: ";

/// Returns whether `freeze_module_prefix` names only parts that a text model does not have.
bool freezes_no_text(const ModelArgs& model);

/// One note per feature: the key, where it is set, and the remedy. Empty: the config can run.
std::vector<Note> not_built(const RunConfig& config);

}  // namespace cohort::config
