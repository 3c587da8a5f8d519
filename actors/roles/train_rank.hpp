#pragma once
/// Train rank: stands before a train worker that is in another process than the collector. The
/// step's trajectories come over a link; when all are here the worker gets them as one batch.
/// Owner: the card process. Thread: CAF's scheduler. Bound: the trajectories of one step (the
/// collector sends a step's when it asks for its update). A frame is acknowledged when it is
/// decoded: the collector keeps the step until the update has answered.
/// Messages: TrainRankActor in role_handles.hpp.
#include <map>
#include <memory>
#include <utility>

#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"

namespace cohort::actors {

struct TrainRankOptions {
  transport::Context* context = nullptr;
  std::shared_ptr<const void> keeps;  // card and context: an actor may end after its process node
  transport::LinkOptions input;
  TrainWorkerActor worker;
  int compute_timeout_ms = 3600000;
  FailureSink fail;
};

class TrainRankState {
 public:
  static inline const char* name = "train_rank";
  explicit TrainRankState(TrainRankActor::pointer self) : self_(self) {}
  ~TrainRankState() { input_.reset(); }
  Expected<void> open(TrainRankOptions options);
  void on_delivery(const DeliveryHandle& delivery);
  caf::result<control::UpdateReport> on_update(const control::UpdateRequest& request);
  const TrainWorkerActor& worker() const { return options_.worker; }

 private:
  void maybe_update();

  TrainRankActor::pointer self_;
  TrainRankOptions options_;
  TrajectoryBatch batch_;
  bool is_asked_ = false;
  control::UpdateRequest request_;
  caf::typed_response_promise<control::UpdateReport> promise_;
  std::unique_ptr<transport::Receiver> input_;
};

TrainRankActor::behavior_type train_rank(TrainRankActor::stateful_pointer<TrainRankState> self,
                                         TrainRankOptions options);

}  // namespace cohort::actors
