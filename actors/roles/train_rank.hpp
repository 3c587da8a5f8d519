#pragma once
/// Train rank: stands before a train worker that is in another process than the collector. The
/// step's trajectories come over a link; when all are here the worker gets them as one batch.
/// Owner: the card process. Thread: CAF's scheduler. Bound: the trajectories of one step (the
/// collector sends a step's when it asks for its update). A frame is acknowledged when it is
/// decoded: the collector keeps the step until the update has answered.
/// Messages: TrainRankActor in role_handles.hpp.
#include <memory>

#include "actors/roles/role_parts.hpp"

namespace cohort::actors {

struct TrainRankOptions {
  transport::Context* context = nullptr;
  std::shared_ptr<const void> keeps;  // card and context: an actor may end after its process node
  transport::LinkOptions input;
  std::string role = "actor_train";  // or critic
  TrainWorkerActor worker;
  int compute_timeout_ms = 3600000;
  FailureSink fail;
};

TrainRankActor spawn_train_rank(caf::actor_system& system, TrainRankOptions options);

}  // namespace cohort::actors
