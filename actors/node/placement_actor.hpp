#pragma once
/// Placement: the actor around plan::PhaseMachine (runtime/plan/place/phase_machine.hpp), which
/// plans the moves of a phase and repairs it after a loss. It sends the machine's commands to the
/// actors that own cards, hands it their answers and the node's words of losses and returns, and
/// records each phase before it is granted. Owner: node. Thread: CAF's scheduler.
#include <map>
#include <string>
#include <utility>

#include "actors/roles/role_handles.hpp"
#include "runtime/plan/place/phase_machine.hpp"

namespace cohort::actors {

struct PlacementOptions {
  plan::PhaseMachineOptions machine;
  /// Who executes commands for (role, card).
  std::map<std::pair<std::string, CardId>, CardActor> owners;
  RecorderActor recorder;
  int command_timeout_ms = 3600000;
};

class PlacementState {
 public:
  static inline const char* name = "placement";
  explicit PlacementState(PlacementActor::pointer self) : self_(self) {}
  void open(PlacementOptions options);
  caf::result<control::PhaseReport> on_phase(const control::PhaseRequest& request);
  void on_lost(const control::CardsLost& lost);
  void on_back(const control::CardsBack& back);
  void on_watch(uint64_t time);  // the bits of a double: when it was to come

 private:
  double now() const;
  void carry(const plan::phase::Orders& orders);
  void execute(const plan::phase::Send& send);
  void execute(const plan::phase::Grant& grant);
  void execute(const plan::phase::Deny& denial);
  void execute(const plan::phase::Note& note);
  void execute(const plan::phase::WakeAt& wake);
  std::string record_of(const plan::phase::Grant& grant) const;

  PlacementActor::pointer self_;
  PlacementOptions options_;
  plan::PhaseMachine machine_;
  control::PublishStage last_stage_ = control::PublishStage::commit;  // of the last command sent
  uint64_t asks_ = 0;
  std::map<uint64_t, caf::typed_response_promise<control::PhaseReport>> waiting_;  // by number
};

PlacementActor::behavior_type placement(PlacementActor::stateful_pointer<PlacementState> self,
                                        PlacementOptions options);

}  // namespace cohort::actors
