#pragma once
/// Trajectory: one sampled interaction, the unit that moves through rollout, reward, reference and
/// trainer, and the unit that the stream records. Plain values, no protobuf type in sight.
/// Token-in, token-out: `tokens` are those that the policy saw and sampled, never re-tokenised.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/trajectory_kind.hpp"

namespace cohort::proto {

using cohort::to_string;
using cohort::TrajectoryKey;
using cohort::TrajectoryKind;

/// One question and answer of the interaction.
struct Turn {
  uint32_t response_begin = 0, response_end = 0;  // token range of the sampled answer
  float env_reward = 0;                           // the environment's pay for this turn
  bool is_valid = false;                          // an action was parsed
  bool is_effective = false;                      // the action changed the world
  std::string observation;                        // text shown before the answer
  std::string response;                           // decoded answer text
  /// Token from which on the policy read for this answer: 0, or where the turn's own prompt begins
  /// if it was asked anew (a step manager), without what came before.
  uint32_t context_begin = 0;
  bool operator==(const Turn&) const = default;
};

struct RewardPart {
  std::string name;
  double value = 0;
  double weight = 1;   // 0: a further number, not in the score
  std::string detail;  // the verdict in words, e.g. "pred 18"; may be empty
  bool operator==(const RewardPart&) const = default;
};

struct Trajectory {
  std::string run_id;
  TrajectoryKey key;
  uint32_t attempt = 0;  // +1 for each re-run after a failure or a resume
  std::string tag;       // e.g. "FrozenLake"
  uint64_t seed = 0;     // of the environment
  std::string prompt_id;
  uint64_t weight_version_min = 0, weight_version_max = 0;  // over all sampled tokens
  std::string stop_reason;  // "goal" | "hole" | "max_turns" | "length" | …
  double generate_seconds = 0, env_seconds = 0;
  double score = 0;          // weighted sum of the reward parts, set by the reward actor
  std::string mask_reason;   // not empty: nobody trains on it, and why; see is_left_out
  std::string data_source;   // of the prompt's row; empty for environments
  std::string ground_truth;  // likewise
  bool is_greedy = false;    // of training: its score is a baseline, nobody trains on it
  std::vector<RewardPart> reward_parts;
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<Turn> turns;
  // Columns: tokens.size() entries or none.
  std::vector<int32_t> tokens;
  std::vector<uint8_t> response_mask;  // 1 = sampled by the policy (or a scripted action)
  std::vector<float> behavior_logp, ref_logp, teacher_logp, values, token_rewards;
  std::vector<uint32_t> token_versions;  // weight version that sampled the token
  bool operator==(const Trajectory&) const = default;
};

/// Name of the trajectory's metric that says whether it did what it was asked to, 0 to 1.
inline constexpr std::string_view k_success = "success";
/// Name of the trajectory's metric that is above 0 where nobody sampled it: a worked answer that
/// stands in the group of a prompt (policy loss luffy).
inline constexpr std::string_view k_demonstration = "demonstration";
/// Returns whether the trajectory is one: its recorded log-probabilities say nothing.
bool is_demonstration(const Trajectory& trajectory);
/// Name of a scorer's part that says whether the answer is right; in a trajectory "<reward>/acc".
inline constexpr std::string_view k_accuracy = "acc";
/// Returns the accuracy that a scorer gave the trajectory, the last of several.
std::optional<double> accuracy_of(const Trajectory& trajectory);

/// mask_reason begins so if the trajectory's group is left out of its step (dynamic sampling). Its
/// score stands; that of others that are masked, because a reward failed, is 0.
inline constexpr std::string_view k_left_out = "filtered: ";
inline bool is_left_out(const Trajectory& trajectory) {
  return trajectory.mask_reason.starts_with(k_left_out);
}

/// A range of a trajectory's tokens.
struct TokenRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};
/// Returns the contexts that the policy read and answered in, in order: each is a sequence of its
/// own for a model. One of all tokens, but where turns were asked anew.
std::vector<TokenRange> contexts_of(const Trajectory& trajectory);

/// Checks one trajectory before it is sent and after it is received: column lengths, mask values,
/// finite behaviour log-probs where the mask is 1, finite score, turn ranges in order and inside,
/// contexts that begin behind an answer, version range. Returns Errc::corrupt with the key and the
/// field.
Expected<void> validate(const Trajectory& trajectory);

}  // namespace cohort::proto
