#pragma once
/// Reference: what a frozen model makes of each trajectory, while others still generate: the log-
/// probabilities of a reference or a teacher, or the score of a reward model (score_model.hpp).
/// Owner: node. Thread: its own (detached): a batch computes for milliseconds to seconds. Bound:
/// the credit of its input link. Where it takes turns on its card, what is to be trained on waits
/// here, unacknowledged, until phase reference begins: the links up to here then carry a whole
/// step. Its weights arrive with the first publish, or from a folder (a model of its own; the
/// checkpoint of step 0 where it has the place of one that died), and never change afterwards.
/// PLACE-4: what is to be trained on waits until ref_params are on the card.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/roles/role_parts.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

/// What a frozen model does with a frame of trajectories.
struct FrozenWork {
  /// Whether a trajectory is read; the others pass through.
  std::function<bool(const proto::Trajectory&)> wants;
  /// Fills those that are wanted, at least one.
  std::function<Expected<void>(compute::TrainEngine&, const std::vector<proto::Trajectory*>&)> read;
};

/// Fills `column` (ref_logp, or a teacher's) of what is trained on, and of held-out rows if
/// `reads_held_out` (pairs, whose held-out loss compares with them); generated held-out answers
/// and scripted ones pass through.
FrozenWork frozen_log_probs(std::vector<float> proto::Trajectory::*column, bool reads_held_out);

struct ReferenceOptions {
  HopOptions hop;
  FrozenWork work;
  std::string role = "reference";
  std::shared_ptr<WeightExchange> exchange;  // null: it has weights of its own
  compute::TrainEngineOptions engine;        // is_frozen
  bool takes_turns = false;                  // it has the card in phase reference only
  std::string weights_from;                  // folder to start from, or empty
  std::shared_ptr<const void> keeps;         // card and context: an actor may end after its node
  FailureSink fail;
};

ReferenceActor spawn_reference(caf::actor_system& system, ReferenceOptions options);

}  // namespace cohort::actors
