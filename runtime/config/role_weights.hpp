#pragma once
/// Where the weights of a role come from. Pure.
#include <string>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// Returns the folder of a reference that is another model than the policy's start, as the config
/// names it; empty: it is the policy of step 0, or none is built.
std::string own_reference(const RunConfig& config);

/// Returns what the critic starts from: its own model_name_or_path, else `reward_pretrain`, else
/// `pretrain`; empty: the `model` section, drawn.
std::string critic_start(const RunConfig& config);

/// Returns the folder of the teacher: its own model_name_or_path, else `teacher_pretrain`; empty:
/// none is named, or no teacher is built.
std::string teacher_folder(const RunConfig& config);

/// Returns whether a teacher is built.
bool has_teacher(const RunConfig& config);

/// Returns whether a reward is a model on cards of the run: a classifier, or a judge that answers.
bool is_on_cards(const RewardConfig& reward);

/// Returns whether a reward is a judge on cards of the run.
bool is_judge_on_cards(const RewardConfig& reward);

/// Returns whether an adapter is trained, and not the model under it.
bool has_adapter(const ModelArgs& model);

/// Returns the section of the role that trains on rows or episodes: sft_train or actor_train.
std::string train_section(const RunConfig& config);

}  // namespace cohort::config
