#pragma once
/// What of a step is shown beside its numbers: how they are spread, and an answer as text. For the
/// driver's TensorBoard; bounded, as control messages are. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "actors/roles/fill_advantages.hpp"
#include "runtime/base/histogram.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

inline constexpr std::string_view k_advantages = "critic/advantages";
inline constexpr size_t k_part_histograms_max = 16;
inline constexpr size_t k_shown_answer_bytes_max = 8192;

/// Of a collected step: rollout/score, rollout/response_length, rollout/prompt_length, and
/// rewards/<part> of the first k_part_histograms_max parts by name. Greedy answers and
/// demonstrations are left out; so are the scores of answers that a reward has failed on.
NamedHistograms batch_histograms(const std::vector<proto::Trajectory>& batch);

/// Returns the first answer that was played, with its prompt and its score, as Markdown of at most
/// k_shown_answer_bytes_max bytes; "" if there is none.
std::string shown_answer(const std::vector<proto::Trajectory>& batch);

/// Of an update, over its response tokens: critic/advantages, rollout/logp (recorded); where `old`
/// is recomputed old_log_probs/log_ratio, log of old policy over recorded one; with a reference
/// critic/ref_log_ratio, log of old policy over reference.
NamedHistograms update_histograms(config::OldLogProbs old,
                                  const std::vector<proto::Trajectory>& batch,
                                  const PackedBatch& packed);

}  // namespace cohort::actors
