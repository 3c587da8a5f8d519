#pragma once
/// VerlConfig -> RunConfig, with verl's meaning of each number (docs/config.md, Batch algebra).
/// Pure.
#include "runtime/config/run_config.hpp"
#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

/// `n`: what check_verl() found, without a problem. `f`: tells which keys the user gave.
RunConfig translate_verl(const VerlConfig& c, const VerlNumbers& n, Findings& f);

}  // namespace cohort::config
