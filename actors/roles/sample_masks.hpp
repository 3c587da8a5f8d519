#pragma once
/// ROLL's masks of pipeline rlvr: answers that count in the scores of their group and do not train.
/// Pure. Source: roll/pipeline/rlvr (max_len_mask, difficulty_mask, error_max_len_clip); TRL calls
/// the first mask_truncated_completions, the DAPO paper overlong filtering.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// Returns 1 for each trajectory that trains. `scores`, `group_of`: one of each trajectory.
/// max_len_mask: those that were cut by their token budget do not; difficulty_mask: those of a
/// group whose mean score is not between the thresholds; error_max_len_clip: those without a score
/// and with more sampled tokens than error_max_len_threshold.
std::vector<uint8_t> trained_samples(const config::RlvrSection& asked,
                                     std::span<const proto::Trajectory> batch,
                                     std::span<const double> scores,
                                     std::span<const uint32_t> group_of);

/// Returns a factor for each answer's policy loss, of mean 1 (ROLL's length_loss_weight, Cohort
/// over the optimizer batch, ROLL over the micro-batch): 1.5 - (tokens - least)/(most - least).
std::vector<double> length_weights(std::span<const uint32_t> tokens);

/// Returns whether any mask is asked for.
bool has_sample_masks(const config::RunConfig& config);

}  // namespace cohort::actors
