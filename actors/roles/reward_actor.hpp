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

#include "actors/roles/hop.hpp"
#include "actors/roles/reward_pool.hpp"
#include "actors/roles/reward_set.hpp"
#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"
#include "actors/run/prompt_set.hpp"

namespace cohort::actors {

/// Tells the run's console and stream: source, text.
using NoticeSink = std::function<void(std::string role, std::string text)>;

/// Returns what a scorer sees of a trajectory: of its row in `prompts`, or, when that is null, of
/// the game: its last answer, with all turns in `columns`.
tasks::RewardRow reward_row(const proto::Trajectory& trajectory, const PromptSet* prompts);

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
  uint64_t step_trajectories = 0;            // of a training step
  std::set<std::string> fenced;              // producers that were given up, see on_fence
  FailureSink fail;
  NoticeSink notice;
};

class RewardState {
 public:
  static inline const char* name = "reward";
  explicit RewardState(RewardActor::pointer self) : self_(self) {}
  Expected<void> open(RewardOptions options);
  void on_delivery(const DeliveryHandle& delivery);
  void on_scored(const ScoredBatch& scored);
  void on_flush();
  /// What comes from this producer from here on is dropped: it was given up, and its groups are
  /// with others.
  void on_fence(const std::string& producer);

 private:
  struct Frame {
    DeliveryHandle delivery;
    std::vector<proto::Trajectory> trajectories;
    std::vector<std::map<size_t, tasks::RewardResult>> results;  // [trajectory][reward]
    size_t missing = 0;
  };
  /// What a reward gave in the first training step, for the contract's checks.
  struct Contract {
    uint64_t results = 0;
    uint64_t errors = 0;
    double low = 0, high = 0;
    std::string first_error;
  };
  std::vector<size_t> rewards_of(const proto::Trajectory& trajectory) const;
  void reload_between_steps(const proto::TrajectoryKey& key);
  void start(uint64_t id, Frame& frame);
  void take(Frame& frame, const ScorePlace& place, tasks::RewardResult result);
  void finish(uint64_t id);
  void watch_contract(size_t reward, const proto::TrajectoryKey& key,
                      const tasks::RewardResult& result);
  void check_contract();

  RewardActor::pointer self_;
  RewardOptions options_;
  std::unique_ptr<Hop> hop_;
  std::map<uint64_t, Frame> frames_;
  uint64_t next_frame_ = 0;
  std::pair<TrajectoryKind, uint64_t> batch_{TrajectoryKind::train,
                                             ~uint64_t{0}};  // kind and step of the last frame
  std::vector<Contract> contracts_;                          // by reward
  uint64_t watched_ = 0;  // trajectories of the first training step
  bool is_contract_checked_ = false;
  std::set<std::string> noticed_;  // a failure is told once a reason and step
  std::map<size_t, std::unique_ptr<RewardPool>>
      pools_;  // of the rewards that wait; last: ends first
};

RewardActor::behavior_type reward(RewardActor::stateful_pointer<RewardState> self,
                                  RewardOptions options);

}  // namespace cohort::actors
