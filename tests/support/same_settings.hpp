#pragma once
/// Whether two configs have equal settings; notes, warnings, origins and texts are not compared.
#include "runtime/config/run_config.hpp"

namespace cohort::test {

inline bool same_settings(const config::RunConfig& a, const config::RunConfig& b) {
  config::RunConfig x = a;
  config::RunConfig y = b;
  for (config::RunConfig* config : {&x, &y}) {
    config->notes.clear();
    config->warnings.clear();
    config->origins.clear();
    config->resolved_yaml.clear();
  }
  return x == y;
}

}  // namespace cohort::test
