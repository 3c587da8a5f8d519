#pragma once
/// The ranks of the roles that learn, as the trainer sees them: what all of them are asked, and
/// what their answers together say. Ranks of one role must have the same parameters. Owner: the
/// trainer, on whose thread everything runs; not thread-safe. Bound: the batch of one update.
///
/// With a critic an update has stages. First its ranks compute the values of the batch, which come
/// back over the trainer's input link, and the stream gets the trajectories again, now with them;
/// then everybody updates: at once where critic and policy have cards of their own, else the critic
/// first, since their activations would share the card.
#include <functional>
#include <memory>
#include <vector>

#include "actors/roles/role_parts.hpp"

namespace cohort::actors {

/// One rank of a role that learns: a worker in this process, or one in another, which gets its
/// batches over a link.
struct TrainRank {
  Role role = Role::actor_train;
  CardId card;
  TrainWorkerActor worker;
  TrainRankActor remote;           // if not worker
  transport::LinkOptions batches;  // likewise
};

struct TrainRanksOptions {
  transport::Context* context = nullptr;
  std::vector<TrainRank> ranks;  // role by role, actor_train's first; in the order of their cards
  int compute_timeout_ms = 3600000;
  /// Writes trajectories to the stream, then calls back on the owner's thread.
  std::function<void(const TrajectoryBatch& batch, std::function<void()> then)> record;
  FailureSink fail;
};

using CheckpointPromise = caf::typed_response_promise<control::CheckpointReport>;

class TrainRanks {
 public:
  /// Returns the error of a link to a rank in another process.
  static Expected<std::unique_ptr<TrainRanks>> open(TrainerActor::pointer self,
                                                    TrainRanksOptions options);
  virtual ~TrainRanks() = default;

  /// One update at a time. Answers with the policy's report, to which a critic's numbers and hash
  /// are added, or the first error: a rank's, or Errc::internal for parameters that differ.
  virtual caf::result<control::UpdateReport> update(const control::UpdateRequest& request,
                                                    TrajectoryBatch batch) = 0;
  /// A frame of the critic: keys, tokens, values.
  virtual void on_values(std::vector<proto::Trajectory> valued) = 0;
  /// The critic's part of the folder is there before the policy's ranks give it its name.
  virtual void save(const control::CheckpointRequest& request, CheckpointPromise promise) = 0;
  virtual void load(const control::CheckpointRequest& request, CheckpointPromise promise) = 0;
};

}  // namespace cohort::actors
