#pragma once
/// verl's tools: rollout.multi_turn and the file that tool_config_path names, as this config's
/// `tools` and `multi_turn`. Reads that file; no state.
#include "runtime/config/bind/binder.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

/// Fills r.tools and r.multi_turn. Cohort's own keys of these names, which r has already, stay
/// where verl gives none. Adds a problem for a file that cannot be read, and for a class of verl's
/// package that is not the sandboxed interpreter.
void set_verl_tools(RunConfig& r, const VerlMultiTurn& verl, Findings& f);

}  // namespace cohort::config
