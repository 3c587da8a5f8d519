#pragma once
/// verl's supervised trainer (verl.trainer.sft_trainer, and the older fsdp_sft_trainer): its keys
/// become a config of pipeline sft in ROLL's keys, each with the place where the user wrote verl's.
/// Cohort's own keys, and any of ROLL's, stand beside them and win. Pure.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/bind/schema.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// Whether keys are those of a supervised trainer: of the sections that it alone has (model, optim,
/// engine), one is there.
bool is_verl_sft(const Node& user);

/// A pipeline in ROLL's keys, what verl's keys do not change, each with the reason, and where the
/// user wrote verl's.
struct SftTree {
  Node root;
  std::vector<Note> notes;
  std::map<std::string, std::string> origins;  // verl's key -> file:line, or the override
};

/// `user`: overrides applied, not interpolated. `is_engine`: the newer trainer, whose rows are
/// columns of messages; model.path and data.messages_key say so too. Returns Errc::config with a
/// line for each problem.
Expected<SftTree> translate_verl_sft(const Node& user, bool is_engine);

/// All keys of the supervised trainers in the order of the schema, defaults as verl has them.
const std::vector<KeyInfo>& verl_sft_keys();

}  // namespace cohort::config
