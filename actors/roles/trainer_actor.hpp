#pragma once
/// Trainer: the collector in front of the training engine. A delivered trajectory is checked
/// against what the step expects, written to the stream, and only then acknowledged and counted.
/// Every rank of actor_train (one per card), and of a critic, gets the whole step and computes its
/// share (train_ranks.hpp). Owner: node. Thread: CAF's scheduler; the engines are on the train
/// workers' threads, here or in other processes. Bound: the trajectories of the steps it was told
/// to expect; an unexpected one is refused, recorded as an event, and acknowledged. A group that is
/// not played (mask) has its places filled with masked trajectories, so that the step is whole; one
/// of it that came before is recorded again, masked, and the later record counts. A group that the
/// sieve leaves out is recorded again likewise, and what trains is the others. FLOW-1: a trajectory
/// (kind, step, group, index) is handed to the engine at most once. What is recorded of later steps
/// is in the folder `ahead` of a checkpoint, and is there again when its step is expected after a
/// load. FLOW-2: recorded before ack. FLOW-3: see check_staleness. Messages: TrainerActor in
/// role_handles.hpp.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/roles/group_sieve.hpp"
#include "actors/roles/role_parts.hpp"
#include "actors/roles/train_ranks.hpp"

namespace cohort::actors {

struct TrainerOptions {
  transport::Context* context = nullptr;
  transport::LinkOptions input;
  RecorderActor recorder;
  std::vector<TrainRank> ranks;  // role by role, actor_train's first; in the order of their cards
  int record_timeout_ms = 60000;
  int compute_timeout_ms = 3600000;  // ROLL's rpc_timeout
  std::optional<GroupSieve> sieve;   // which groups of training carry a signal; none: all train
  uint64_t staleness_bound = 0;      // [versions] FLOW-3; also the steps that are open behind one
  bool is_record_only = false;       // a step is over when it is recorded: no update
  bool takes_any_age = false;        // of recorded trajectories: FLOW-3 is their run's
  bool is_supervised = false;        // rows of files: held-out ones go to the ranks, for their loss
  bool is_checked = false;           // the first step's report has the facts of self-checks
  std::vector<int32_t> answer_ends;  // ids, for these facts
  FailureSink fail;
};

/// FLOW-3. Returns Errc::protocol, naming the trajectory, if a token is more than `bound` versions
/// older than the policy that it is to train.
Expected<void> check_staleness(const std::vector<proto::Trajectory>& batch, uint64_t policy_version,
                               uint64_t bound);

/// Metrics of a finished batch: rollout/score/*, rollout/response_length/*, reward/mean,
/// env/<tag>/*, success.
std::vector<std::pair<std::string, double>> rollout_metrics(
    const std::vector<proto::Trajectory>& batch);

/// Metrics of the age of a batch's sampled tokens against the policy that they are to train, in
/// versions: staleness/mean, /max, /min, and staleness/spans, versions per trajectory.
std::vector<std::pair<std::string, double>> staleness_metrics(
    const std::vector<proto::Trajectory>& batch, uint64_t policy_version);

/// Metrics of a batch of rows of files: how many lost tokens or their end, or have nothing
/// that counts.
std::vector<std::pair<std::string, double>> row_metrics(
    const std::vector<proto::Trajectory>& batch);

/// Returns the share of successes of each tag that has them, by tag.
std::vector<std::pair<std::string, double>> success_by_tag(
    const std::vector<proto::Trajectory>& batch);

TrainerActor spawn_trainer(caf::actor_system& system, TrainerOptions options);

}  // namespace cohort::actors
