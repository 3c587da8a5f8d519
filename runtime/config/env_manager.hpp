#pragma once
/// Who plays the turns of an environment: ROLL's env_manager_cls, by the last part of its name.
#include <string_view>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

enum class EnvManager {
  trajectory,   // TrajEnvManager: a dialogue that grows by turns
  step,         // StepEnvManager: each turn is asked anew, with the last turns told in its prompt
  step_concat,  // StepConcatEnvManager: likewise; it tells the observations alone
  other
};

inline EnvManager env_manager_of(const EnvTemplate& environment) {
  const std::string_view name = environment.env_manager_cls;
  if (name.empty() || name.ends_with(".TrajEnvManager")) return EnvManager::trajectory;
  if (name.ends_with(".StepEnvManager")) return EnvManager::step;
  return name.ends_with(".StepConcatEnvManager") ? EnvManager::step_concat : EnvManager::other;
}

/// Whether each turn is asked anew, and so a sequence of its own.
inline bool asks_anew(const EnvTemplate& environment) {
  const EnvManager manager = env_manager_of(environment);
  return manager == EnvManager::step || manager == EnvManager::step_concat;
}

}  // namespace cohort::config
