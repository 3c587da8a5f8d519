#pragma once
/// The head's process: node, placement and driver execute the commands of plan::Membership,
/// plan::PhaseMachine and plan::run::Run, and tell each the outcome; they decide nothing. The
/// trainer is theirs. Each reads its messages in the order in which they were sent, a moment later.
/// One thread. Bound: what the machines have asked for.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/membership/membership.hpp"
#include "tools/cohort-sim/sim_driver.hpp"
#include "tools/cohort-sim/sim_placement.hpp"

namespace cohort::sim {

inline constexpr uint64_t k_card_bytes = 1000;

inline plan::PlacementPlan plan_of(const Job& job) {
  std::vector<plan::CardSpec> cards;
  for (uint32_t card = 0; card <= job.slots(); ++card) cards.push_back({CardId{card}, 1000, 0});
  plan::RoleSpec train{k_train_role, {CardId{0}}, {}};
  train.bytes_per_card = {{plan::Object::train_params, k_card_bytes / 5},
                          {plan::Object::grads, k_card_bytes / 5},
                          {plan::Object::optimizer, k_card_bytes / 5}};
  plan::RoleSpec infer{k_rollout_role, {}, {}};
  infer.bytes_per_card = {{plan::Object::infer_params, k_card_bytes / 5},
                          {plan::Object::kv_cache, k_card_bytes / 2}};
  std::vector<plan::RoleSpec> roles = {train};
  for (uint32_t card = 1; card <= job.rollout_cards(); ++card) infer.cards.push_back(CardId{card});
  roles.push_back(infer);
  if (job.has_reference)
    roles.push_back(
        {k_reference_role, {CardId{job.slots()}}, {{plan::Object::ref_params, k_card_bytes / 5}}});
  return plan::plan_placement(plan::PlacementMode::separate, cards, roles).value();
}

inline plan::Membership membership_of(const Job& job, const plan::PlacementPlan& plan) {
  std::vector<CardId> replicas;
  std::vector<std::vector<CardId>> processes;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (!job.is_reference(slot)) replicas.push_back(CardId{slot + 1});
    processes.push_back({CardId{slot + 1}});
  }
  plan::MembershipOptions options;
  options.limits = job.limits;
  options.can_start = true;
  return plan::Membership(options, plan::slots_of(plan, replicas, job.tensor_parallel, processes));
}

class Head {
 public:
  Head(const HeadParts& parts, uint32_t attempt)
      : parts_(parts),
        attempt_(attempt),
        plan_(plan_of(parts.job)),
        membership_(membership_of(parts.job, plan_)),
        ready_(parts.job.slots()),
        joining_(parts.job.slots()),
        asked_(parts.job.slots()) {
    for (uint32_t slot = 0; slot < parts.job.slots(); ++slot) parts.cluster.start_process(slot, 0);
    on_member(plan::member::Open{});
    if (parts.disk.first()) on_member(plan::member::FirstPolicySaved{});
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// What the node hears.
  void on_member(const plan::member::Event& event) {
    for (const plan::member::Command& command : membership_.on(event, parts_.now()))
      std::visit([this](const auto& each) { say(each); }, command);
    membership_.assert_invariants();
  }
  void on_hello(const SlotHandle& process, uint32_t attempt) {
    asked_[process.slot] = process;
    on_member(plan::member::Hello{process.slot, attempt});
  }
  void on_ready(const SlotHandle& process, uint32_t attempt) {
    joining_[process.slot] = process;
    on_member(plan::member::Ready{process.slot, attempt});
  }
  // "slot/attempt->service": a link's name says whose it is.
  void on_peer_lost(const std::string& role, const std::string& peer, const Error& error) {
    plan::member::LinkFailed failed{role, error.to_string(), {}, {}};
    uint32_t slot = 0, attempt = 0;
    if (std::sscanf(peer.c_str(), "%u/%u->", &slot, &attempt) != 2) return;  // the reward's
    failed.slot = slot;
    failed.attempt = attempt;
    on_member(failed);
  }
  void ask_stop() {
    if (driver_) parts_.mail(Actor::driver, [this] { driver_->tell(plan::run::StopAsked{}); });
  }
  void ask_leave(std::vector<uint32_t> slots, uint32_t wait_ms) {
    on_member(plan::member::LeaveAsked{++questions_, std::move(slots), wait_ms});
  }

 private:
  void say(const plan::member::Welcome& welcome) {
    parts_.cluster.welcome(asked_[welcome.slot], welcome.attempt);
  }
  void say(const plan::member::Refuse& refuse) { parts_.cluster.stop_process(asked_[refuse.slot]); }
  void say(const plan::member::Admit& admit) { ready_[admit.slot] = joining_[admit.slot]; }
  void say(const plan::member::BeginRun&) {
    std::map<uint32_t, SlotHandle> processes;  // by card
    for (uint32_t slot = 0; slot < parts_.job.slots(); ++slot)
      if (membership_.standing(slot) == plan::Standing::joined ||
          membership_.standing(slot) == plan::Standing::here)
        processes[slot + 1] = ready_[slot];
    parts_.wires.rollouts.sit(0, parts_.self, 0, seats_of(parts_.job, k_rollout_role, {})).value();
    parts_.wires.reference.sit(0, parts_.self, 0, seats_of(parts_.job, k_reference_role, {}))
        .value();
    trainer_ = std::make_unique<SimTrainer>(
        parts_.stage, parts_.job, parts_.self, parts_.disk,
        [this] {
          parts_.cluster.run_over({plan::run::End::How::failed, 0, "the disk is full", true}, 0);
        },
        [this](const std::string& peer, const Error& error) {
          on_peer_lost(k_train_role, peer, error);
        });
    placement_ = std::make_unique<SimPlacement>(
        parts_, *trainer_, plan_,
        parts_.job.steps_ahead > 0 ? plan::OffloadPolicy::never : plan::OffloadPolicy::step,
        processes);
    driver_ = std::make_unique<SimDriver>(
        parts_, *trainer_, *placement_,
        [this](const plan::member::Event& event) { on_member(event); }, attempt_, processes);
  }
  void say(const plan::member::Start& start) {
    parts_.stage.world.note("starts again", start.slot, start.attempt);
    parts_.cluster.start_process(start.slot, start.attempt);
  }
  void say(const plan::member::Kill& kill) {
    parts_.stage.world.note("kills", kill.slot, kill.attempt);
    parts_.cluster.kill_process(kill.slot, kill.attempt);
  }
  void say(const plan::member::Stop& stop) { parts_.cluster.stop_process(ready_[stop.slot]); }
  void say(const plan::member::Ping& ping) {
    parts_.ask(ready_[ping.slot], [this, ping](SimCard&, const HeadParts::Tell& back) {
      back([this, ping] { on_member(plan::member::Beat{ping.slot, ping.attempt}); });
    });
  }
  void say(const plan::member::Forget& forget) {
    parts_.stage.world.note("forgets", forget.slot, forget.attempt, forget.is_fenced ? 1 : 0);
  }
  void say(const plan::member::TellLost& lost) {
    parts_.stage.world.note("lost", lost.slots.front(), lost.slots.size(), lost.is_away ? 1 : 0);
    if (!driver_) return;
    parts_.mail(Actor::placement,
                [this, lost] { placement_->on_lost(lost, cards_of(lost.slots)); });
    parts_.mail(Actor::driver, [this, lost] { driver_->on_lost(lost, cards_of(lost.slots)); });
  }
  void say(const plan::member::TellBack& back) {
    parts_.stage.world.note("back", back.slots.front(), back.slots.size());
    std::vector<SlotHandle> processes;
    for (uint32_t slot : back.slots) processes.push_back(ready_[slot]);
    parts_.mail(Actor::placement, [this, processes] { placement_->on_back(processes); });
    parts_.mail(Actor::driver, [this, processes] { driver_->on_back(processes); });
  }
  void say(const plan::member::StartRun&) {
    parts_.mail(Actor::driver, [this] { driver_->tell(plan::run::Started{}); });
  }
  void say(const plan::member::AskLeave& leave) {
    parts_.mail(Actor::driver, [this, leave] {
      driver_->tell(plan::run::LeaveAsked{leave.id, cards_of(leave.slots), leave.text,
                                          static_cast<double>(leave.wait_ms) * 1e-3});
    });
  }
  void say(const plan::member::AnswerLeave& answer) {
    parts_.stage.world.note("leave is answered", answer.id, answer.refusal ? 1 : 0);
  }
  void say(const plan::member::Notice&) {}
  void say(const plan::member::EndRun& end) {
    const plan::run::Failure failure{end.role, end.phase, end.text, false, end.is_loss};
    if (driver_)
      return parts_.mail(Actor::driver,
                         [this, failure] { driver_->tell(plan::run::FailureTold{failure}); });
    parts_.cluster.run_over(
        {plan::run::End::How::failed, 0, end.role + ": " + end.text, end.is_loss}, 0);
  }
  void say(const plan::member::WakeAt& wake) {
    parts_.wake(wake.time, [this] { on_member(plan::member::TimePassed{}); });
  }
  std::vector<uint32_t> cards_of(const std::vector<uint32_t>& slots) const {
    std::vector<uint32_t> cards;
    for (uint32_t slot : slots) cards.push_back(slot + 1);
    return cards;
  }

  HeadParts parts_;
  const uint32_t attempt_;
  plan::PlacementPlan plan_;
  plan::Membership membership_;
  std::vector<SlotHandle> ready_;    // by slot: whose roles count
  std::vector<SlotHandle> joining_;  // by slot: who said last that it is ready
  std::vector<SlotHandle> asked_;    // by slot: who said hello last
  uint64_t questions_ = 0;
  std::unique_ptr<SimTrainer> trainer_;
  std::unique_ptr<SimPlacement> placement_;
  std::unique_ptr<SimDriver> driver_;
};

}  // namespace cohort::sim
