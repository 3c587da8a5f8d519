#pragma once
/// Placement: executes the orders of plan::PhaseMachine. One thread; the head's.
#include <cstdint>
#include <functional>
#include <map>

#include "tools/cohort-sim/head.hpp"

namespace cohort::sim {

class SimPlacement {
 public:
  using Answer = std::function<void(Expected<plan::PhaseReport>)>;
  /// `owners`: of the cards of slots.
  SimPlacement(HeadParts& parts, SimTrainer& trainer, plan::PlacementPlan plan,
               plan::OffloadPolicy policy, std::map<uint32_t, SlotHandle> owners);
  void ask(const plan::PhaseRequest& request, Answer answer);
  void on_lost(const plan::member::TellLost& lost, const std::vector<uint32_t>& cards);
  void on_back(const std::vector<SlotHandle>& processes);

 private:
  void obey(const plan::phase::Orders& orders);
  void obey(const plan::phase::Send& send);
  void obey(const plan::phase::Grant& grant);
  void obey(const plan::phase::Deny& deny);
  void obey(const plan::phase::Note& note);
  void obey(const plan::phase::WakeAt& wake);
  void to_trainer(const plan::CardCommand& command);
  void offer(const plan::CardCommand& command, const CardAnswer& answer);
  void answered(uint64_t id, const Expected<plan::CardReply>& reply);

  HeadParts& parts_;
  SimTrainer& trainer_;
  plan::PhaseMachine machine_;
  std::map<uint32_t, SlotHandle> owners_;  // by card
  std::map<uint64_t, Answer> asks_;
  uint64_t last_ask_ = 0;
};

}  // namespace cohort::sim
