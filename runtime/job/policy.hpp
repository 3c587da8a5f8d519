#pragma once
/// What the policy of a run is before its first step, and how it reads and writes: the folder
/// `pretrain`, a shape without weights (random:…), or the `model` section. Reads the folder's small
/// files, no weights.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/role.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::job {

struct Policy {
  model::ModelShape shape;  // with the rows of its embedding
  /// What a config.json of it says: ids, the length of positions, and as name_or_path the folder of
  /// its tokenizer, if there is one.
  model::HfConfig file;
  std::shared_ptr<const tasks::Tokenizer> tokenizer;
  std::shared_ptr<const tasks::ChatFormat> chat;
  std::vector<std::string> notices;  // one sentence each, for the user
};

/// The shape is config.json's where `pretrain` is a folder or names one. Tokenizer and chat
/// template are those of the tokenizer.json beside it, else of the folder `model.tokenizer`, else
/// the words of `model.tokenizer` in ChatML.
/// `tools`: the JSON list of schemas that prompts show; empty: none. Errors name the key or the
/// file: Errc::config, Errc::not_found, Errc::unsupported, Errc::io.
Expected<Policy> policy_of(const config::RunConfig& config, const std::string& tools = {});

/// The keys that name the folders of the policy and of other roles, as the config's dialect spells
/// them.
const char* pretrain_key(const config::RunConfig& config);
/// `role`: reference or teacher.
const char* frozen_key(const config::RunConfig& config, Role role);
std::string critic_key(const config::RunConfig& config);

/// A reference that is another model than the policy's start, or a teacher.
struct FrozenModel {
  std::string folder;
  model::ModelShape shape;
};

/// Returns what the key of a frozen role names: of a reference only a folder that is not `pretrain`
/// (none: it is the policy of step 0), of a teacher none without distillation. Its ids must be the
/// policy's: the tokenizer.json beside its config.json, else of the folder that this one names
/// (_name_or_path), has the same token for each id, and its embedding has a row for each id that
/// the policy can sample. Errors name key and file: Errc::config, and those of policy_of.
Expected<std::optional<FrozenModel>> frozen_model_of(const config::RunConfig& config,
                                                     const Policy& policy, Role role);

/// What the critic is before its first step.
struct CriticStart {
  std::string folder;  // of its weights; empty: they are drawn
  model::ModelShape shape;
  model::HfConfig file;  // as Policy::file
};

/// Returns what config::critic_start() names: the policy's start with a value head, the folder of a
/// classifier with one label or of a language model, or random:…, drawn. Of a folder ids and rows
/// must fit as a reference's. Errors name key and file, as frozen_model_of.
Expected<CriticStart> critic_start_of(const config::RunConfig& config, const Policy& policy);

}  // namespace cohort::job
