#pragma once
/// The second dialect: the words that follow `python3 -m verl.trainer.main_ppo`, to a RunConfig.
/// Those of verl's supervised trainers (verl_sft.hpp) become a config of pipeline sft.
/// Stages: read (an optional YAML file) -> override -> lay on verl's defaults -> interpolate ->
/// bind to verl's schema -> check -> translate. Pure but for reading files (the YAML, the row
/// counts of data files) and the environment. No global state. CONF-1 and CONF-2 of load.hpp hold
/// here too.
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// `args`: overrides as Hydra takes them ("a.b=c", "+a.b=c", "++a.b=c", "~a.b", in order), before
/// them at most one YAML file, or --config-path and --config-name (-cp, -cn). Returns Errc::config
/// with up to ten lines "override 'a.b=c': what", one for each problem.
Expected<RunConfig> load_verl(const std::vector<std::string>& args,
                              const LoadOptions& options = {});

/// As load_verl(), of keys that are read already: a run's resolved_yaml, and overrides of it.
Expected<RunConfig> load_verl_tree(Node user, const std::vector<std::string>& overrides = {});

/// All keys of the dialect in the order of the schema, defaults as verl has them.
const std::vector<KeyInfo>& verl_keys();

}  // namespace cohort::config
