#pragma once
/// The groups of a step of training: which filter judges them, and how many trajectories one has.
/// Pure.
#include <string>

#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// Returns the filter of the groups with this tag: their domain's, else dynamic_sampling's.
const QueryFilter& group_filter_of(const RunConfig& config, const std::string& tag);

/// Returns whether a greedy answer to each prompt is played beside the others: their baseline.
bool has_greedy_answer(const RunConfig& config);
/// Returns how held-out answers are sampled: rlvr as validation.generating_args says, others as in
/// training.
const GeneratingArgs& held_out_sampling(const RunConfig& config);

/// Returns how many trajectories of a group are played: those that train, and the greedy answer,
/// which is the last.
int64_t played_group_size(const RunConfig& config);

/// Returns whether rollouts play: not in a pipeline of rows, nor with from_stream.
bool has_rollouts(const RunConfig& config);

/// Returns whether any group may be left out of a step.
bool has_group_filter(const RunConfig& config);

}  // namespace cohort::config
