#pragma once
/// Who plays the turns of an environment: ROLL's env_manager_cls, by the last part of its name.
#include <string_view>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

enum class EnvManager {
  trajectory,   // TrajEnvManager: a dialogue that grows by turns
  step,         // StepEnvManager: each turn is asked anew, with the last turns told in its prompt
  step_concat,  // StepConcatEnvManager: likewise; it tells the observations alone
  dialogue,     // AgentNativeStepEnvManager: the environment writes the dialogue of each turn; or
                // ProxyEnvManager: an agent of another program does, which asks a server
  other
};

inline EnvManager env_manager_of(const EnvTemplate& environment) {
  const std::string_view name = environment.env_manager_cls;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (last.empty() || last == "TrajEnvManager") return EnvManager::trajectory;
  if (last == "StepEnvManager") return EnvManager::step;
  if (last == "StepConcatEnvManager") return EnvManager::step_concat;
  if (last == "AgentNativeStepEnvManager") return EnvManager::dialogue;
  if (last != "ProxyEnvManager") return EnvManager::other;
  // ROLL's runner of local worlds holds the dialogue that a trajectory manager holds.
  const bool is_local = environment.agent_runner_cls.ends_with(".GEMRunner");
  return is_local ? EnvManager::trajectory : EnvManager::dialogue;
}

/// Whether each turn is asked anew, by a template's prompt or by a whole dialogue.
inline bool asks_anew(const EnvTemplate& environment) {
  const EnvManager manager = env_manager_of(environment);
  return manager != EnvManager::trajectory && manager != EnvManager::other;
}

/// Whether a step manager asks, whose template tells the turns before.
inline bool has_step_template(const EnvTemplate& environment) {
  return asks_anew(environment) && env_manager_of(environment) != EnvManager::dialogue;
}

/// Whether an agent of ROLL's (agent_runner_cls) acts in the environment's place.
inline bool has_agent_runner(const EnvTemplate& environment) {
  return env_manager_of(environment) == EnvManager::dialogue &&
         environment.env_manager_cls.ends_with("ProxyEnvManager") &&
         environment.env_type != EnvType::plugin;
}

}  // namespace cohort::config
