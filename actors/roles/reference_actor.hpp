#pragma once
/// Reference: log-probabilities of the frozen policy for each trajectory, while others still
/// generate. Owner: node. Thread: its own (detached): a batch computes for milliseconds to seconds.
/// Bound: the credit of its input link. Where it takes turns on its card, what is to be trained on
/// waits here, unacknowledged, until phase reference begins: the links up to here then carry a
/// whole step. Its weights arrive with the first publish, or from a folder (a model of its own; the
/// checkpoint of step 0 where it has the place of one that died), and never change afterwards.
/// PLACE-4: what is to be trained on waits until ref_params are on the card.
#include <memory>

#include "actors/roles/role_parts.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

struct ReferenceOptions {
  HopOptions hop;
  std::shared_ptr<WeightExchange> exchange;  // null: it has weights of its own
  compute::TrainEngineOptions engine;        // is_frozen
  bool takes_turns = false;                  // it has the card in phase reference only
  bool reads_held_out = false;               // of pairs, whose held-out loss compares with it
  std::string weights_from;                  // folder to start from, or empty
  std::shared_ptr<const void> keeps;         // card and context: an actor may end after its node
  FailureSink fail;
};

ReferenceActor spawn_reference(caf::actor_system& system, ReferenceOptions options);

}  // namespace cohort::actors
