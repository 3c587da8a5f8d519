#pragma once
/// `actor-node plan --explain KEY`: a key of the schema in words, and its value in a config. Pure.
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/config/run_config.hpp"
#include "tools/actor-node/plan_page.hpp"

namespace cohort {

/// `config` may be null: then the schema alone. Names that the user chooses are matched
/// ("rewards.math_rule.weight"). Returns Errc::not_found with the nearest keys.
Expected<std::string> explain_key(const std::string& key, config::Dialect dialect,
                                  const config::RunConfig* config, const PageStyle& style);

}  // namespace cohort
