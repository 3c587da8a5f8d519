#pragma once
/// Driver: executes the commands of plan::run::Run. One thread; the head's.
#include <cstdint>
#include <map>
#include <string>

#include "tools/cohort-sim/head.hpp"

namespace cohort::sim {

class SimDriver {
 public:
  SimDriver(HeadParts& parts, SimTrainer& trainer, SimPlacement& placement, Head& head,
            uint32_t attempt, std::map<uint32_t, SlotHandle> players);
  void tell(const plan::run::Event& event);
  void on_lost(const plan::member::TellLost& lost, const std::vector<uint32_t>& cards);
  void on_back(const std::vector<SlotHandle>& processes);

 private:
  void obey(const plan::run::BeginPhase& phase);
  void obey(const plan::run::AskTasks& ask);
  void obey(const plan::run::OpenRound& open);
  void obey(const plan::run::Lease& lease);
  void obey(const plan::run::Cancel& cancel);
  void obey(const plan::run::Ping& ping);
  void obey(const plan::run::Collect& collect);
  void obey(const plan::run::AskRecorded& ask);
  void obey(const plan::run::Mask& mask);
  void obey(const plan::run::Update& update);
  void obey(const plan::run::Flush&);
  void obey(const plan::run::Save& save);
  void obey(const plan::run::Load& load);
  void obey(const plan::run::Judge& judge);
  void obey(const plan::run::Quarantine& quarantine);
  void obey(const plan::run::Note&) {}
  void obey(const plan::run::Prune&) {}
  void obey(const plan::run::Published& published);
  void obey(const plan::run::BeginRow&) {}
  void obey(const plan::run::RoundOver&) {}
  void obey(const plan::run::EndRow&) {}
  void obey(const plan::run::WakeAt& wake);
  void obey(const plan::run::AnswerLeave& answer);
  void obey(const plan::run::End& end);
  /// Runs `what` at the trainer, which calls back here through tell_later().
  void to_trainer(std::function<void()> what);
  void tell_later(plan::run::Event event);
  void failed(const char* role, const Error& error);
  uint32_t card_of(uint32_t replica) const { return 1 + replica * parts_.job.tensor_parallel; }

  HeadParts& parts_;
  SimTrainer& trainer_;
  SimPlacement& placement_;
  Head& head_;
  plan::run::Run run_;
  std::map<uint32_t, SlotHandle> players_;  // by card
};

}  // namespace cohort::sim
