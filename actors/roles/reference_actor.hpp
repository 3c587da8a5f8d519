#pragma once
/// Reference: log-probabilities of the frozen policy for each trajectory, while others still
/// generate. Owner: node. Thread: its own (detached): a batch computes for milliseconds to seconds.
/// Bound: the credit of its input link. Where it takes turns on its card, what is to be trained on
/// waits here, unacknowledged, until phase reference begins: the links up to here then carry a
/// whole step. Its weights arrive with the first publish, or from the checkpoint of step 0 where it
/// has the place of one that died, and never change afterwards. PLACE-4: what is to be trained on
/// waits until ref_params are on the card.
#include <memory>

#include "actors/roles/hop.hpp"
#include "actors/roles/role_handles.hpp"
#include "actors/roles/rollout_actor.hpp"
#include "actors/roles/weight_exchange.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::actors {

struct ReferenceOptions {
  HopOptions hop;
  std::shared_ptr<WeightExchange> exchange;
  compute::TrainEngineOptions engine;  // is_frozen
  bool takes_turns = false;            // it has the card in phase reference only
  std::string weights_from;            // checkpoint folder to start from, or empty
  std::shared_ptr<const void> keeps;   // card and context: an actor may end after its node
  FailureSink fail;
};

class ReferenceState {
 public:
  static inline const char* name = "reference";
  explicit ReferenceState(ReferenceActor::pointer self) : self_(self) {}
  ~ReferenceState();
  Expected<void> open(ReferenceOptions options);
  caf::result<control::CardReply> on_card(const control::CardCommand& command);
  void on_delivery(const DeliveryHandle& delivery);
  void on_flush();

 private:
  void take_turn(plan::Command::Verb verb, plan::PhaseKind phase);
  bool may_compute() const;
  void release();
  Expected<control::CardReply> take_arrival(const control::CardCommand& command);
  Expected<control::CardReply> serve(const control::CardCommand& command);

  ReferenceActor::pointer self_;
  ReferenceOptions options_;
  std::unique_ptr<compute::TrainEngine> engine_;
  std::unique_ptr<Hop> hop_;
  bool has_turn_ = true;
  std::vector<DeliveryHandle> held_;
  std::shared_ptr<std::byte> arrival_;  // weights that are not loaded yet
};

ReferenceActor::behavior_type reference(ReferenceActor::stateful_pointer<ReferenceState> self,
                                        ReferenceOptions options);

}  // namespace cohort::actors
