#pragma once
/// Reward: scores each trajectory as soon as it is finished and passes it on (to the reference or
/// the trainer), while others still generate. Owner: node, which restarts it (it holds no state
/// that its producer does not still hold). Thread: CAF's scheduler; one of its own when a reward
/// waits for another process, because taking a changed plugin between two steps blocks. Such
/// rewards are called by the threads of a RewardPool each. Bound: the credit of its input link.
/// Messages: RewardActor in role_handles.hpp. A trajectory's score is the weighted sum of its
/// reward parts; all parts stay in the trajectory, a scorer's further numbers with weight 0.
/// REWARD-3: a reward that fails costs only the trajectory it failed on: that one is masked, with
/// the reason, and goes on; the frame leaves when all of its trajectories have a score or a reason.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/roles/reward_pool.hpp"
#include "actors/roles/reward_set.hpp"
#include "actors/roles/role_parts.hpp"
#include "actors/run/prompt_set.hpp"

namespace cohort::actors {

/// Tells the run's console and stream: source, text.
using NoticeSink = std::function<void(std::string role, std::string text)>;

/// Returns what a scorer sees of a trajectory: of its row in `prompts`, or, when that is null, of
/// the game: its last answer, with all turns in `columns`; without what ends an answer in `chat`.
tasks::RewardRow reward_row(const proto::Trajectory& trajectory, const PromptSet* prompts,
                            const tasks::ChatFormat& chat);

/// Returns the places of the rewards that score a trajectory: those of its row in `prompts`, or,
/// when that is null, those of its tag.
std::vector<size_t> rewards_of(const proto::Trajectory& trajectory,
                               const std::vector<RewardFunction>& rewards,
                               const PromptSet* prompts);

/// Takes one reward's result into the trajectory: its part, its further numbers, or the mask.
void add_result(const RewardFunction& reward, const tasks::RewardResult& result,
                proto::Trajectory& trajectory);

/// Closes a trajectory all of whose parts are there: score, and for a row metric success: its part
/// "acc" where a scorer gives one, else its score cut to 0..1. A masked one has score 0.
void finish_score(proto::Trajectory& trajectory, bool is_row);

struct RewardOptions {
  HopOptions hop;
  std::vector<RewardFunction> rewards;
  std::shared_ptr<const PromptSet> prompts;  // pipeline rlvr, else null
  std::shared_ptr<const tasks::ChatFormat> chat;
  std::set<std::string> fenced;  // producers that were given up, see on_fence
  FailureSink fail;
  NoticeSink notice;
};

RewardActor spawn_reward(caf::actor_system& system, RewardOptions options);

}  // namespace cohort::actors
