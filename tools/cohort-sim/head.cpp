#include "tools/cohort-sim/head.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tools/cohort-sim/sim_driver.hpp"
#include "tools/cohort-sim/sim_placement.hpp"

namespace cohort::sim {

namespace {

constexpr uint64_t k_card_bytes = 1000;

plan::PlacementPlan plan_of(const Job& job) {
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

plan::Membership membership_of(const Job& job, const plan::PlacementPlan& plan) {
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

}  // namespace

// A message is in its receiver's mailbox when the call returns: what one sends because of another
// comes after it.
void HeadParts::mail(Actor to, std::function<void()> what) {
  int64_t& arrives = last.at(static_cast<size_t>(to));
  arrives = std::max(arrives, stage.world.now() + stage.world.pick(0, 1));
  stage.world.deliver(self, arrives, std::move(what));
}

void HeadParts::wake(double at, std::function<void()> what) {
  const int64_t time = static_cast<int64_t>(std::floor(at * 1e3)) + 1;
  stage.world.deliver(self, std::max(time, stage.world.now() + 1), std::move(what));
}

Head::Head(Stage& stage, Surroundings& cluster, const Job& job, Process& self, Disk& disk,
           PublishWires& wires, uint32_t attempt)
    : parts_{stage, cluster, job, self, disk, wires},
      attempt_(attempt),
      plan_(plan_of(job)),
      membership_(membership_of(job, plan_)),
      ready_(job.slots()),
      joining_(job.slots()),
      asked_(job.slots()) {
  for (uint32_t slot = 0; slot < job.slots(); ++slot) cluster.start_process(slot, 0);
  on_member(plan::member::Open{});
  if (disk.first()) on_member(plan::member::FirstPolicySaved{});
}

Head::~Head() = default;

void Head::on_member(const plan::member::Event& event) {
  for (const plan::member::Command& command : membership_.on(event, parts_.now()))
    std::visit([this](const auto& each) { say(each); }, command);
  membership_.assert_invariants();
}

void Head::on_hello(const SlotHandle& process, uint32_t attempt) {
  asked_[process.slot] = process;
  on_member(plan::member::Hello{process.slot, attempt});
}

void Head::on_ready(const SlotHandle& process, uint32_t attempt) {
  joining_[process.slot] = process;
  on_member(plan::member::Ready{process.slot, attempt});
}

// "slot/attempt->service": a link's name says whose it is.
void Head::on_peer_lost(const std::string& role, const std::string& peer, const Error& error) {
  plan::member::LinkFailed failed{role, error.to_string(), {}, {}};
  uint32_t slot = 0, attempt = 0;
  if (std::sscanf(peer.c_str(), "%u/%u->", &slot, &attempt) != 2) return;  // the reward's
  failed.slot = slot;
  failed.attempt = attempt;
  on_member(failed);
}

void Head::ask_stop() {
  if (driver_) parts_.mail(Actor::driver, [this] { driver_->tell(plan::run::StopAsked{}); });
}

void Head::ask_leave(std::vector<uint32_t> slots, uint32_t wait_ms) {
  on_member(plan::member::LeaveAsked{++questions_, std::move(slots), wait_ms});
}

std::vector<uint32_t> Head::cards_of(const std::vector<uint32_t>& slots) const {
  std::vector<uint32_t> cards;
  for (uint32_t slot : slots) cards.push_back(slot + 1);
  return cards;
}

void Head::say(const plan::member::Welcome& welcome) {
  parts_.cluster.welcome(asked_[welcome.slot], welcome.attempt);
}

void Head::say(const plan::member::Refuse& refuse) {
  parts_.cluster.stop_process(asked_[refuse.slot]);
}

void Head::say(const plan::member::Admit& admit) { ready_[admit.slot] = joining_[admit.slot]; }

void Head::say(const plan::member::BeginRun&) {
  std::map<uint32_t, SlotHandle> processes;  // by card
  for (uint32_t slot = 0; slot < parts_.job.slots(); ++slot)
    if (membership_.standing(slot) == plan::Standing::joined ||
        membership_.standing(slot) == plan::Standing::here)
      processes[slot + 1] = ready_[slot];
  parts_.wires.rollouts.sit(0, parts_.self, 0, seats_of(parts_.job, k_rollout_role, {})).value();
  parts_.wires.reference.sit(0, parts_.self, 0, seats_of(parts_.job, k_reference_role, {})).value();
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
  driver_ = std::make_unique<SimDriver>(parts_, *trainer_, *placement_, *this, attempt_, processes);
}

void Head::say(const plan::member::Start& start) {
  parts_.stage.world.note("starts again", start.slot, start.attempt);
  parts_.cluster.start_process(start.slot, start.attempt);
}

void Head::say(const plan::member::Kill& kill) {
  parts_.stage.world.note("kills", kill.slot, kill.attempt);
  parts_.cluster.kill_process(kill.slot, kill.attempt);
}

void Head::say(const plan::member::Stop& stop) { parts_.cluster.stop_process(ready_[stop.slot]); }

void Head::say(const plan::member::Ping& ping) {
  const uint64_t life = parts_.self.life;
  parts_.cluster.to_card(
      ready_[ping.slot],
      [this, &cluster = parts_.cluster, ping, life](SimCard&) {
        cluster.to_head(ping.slot, life, [this, ping] {
          on_member(plan::member::Beat{ping.slot, ping.attempt});
        });
      },
      [] {});
}

void Head::say(const plan::member::Forget& forget) {
  parts_.stage.world.note("forgets", forget.slot, forget.attempt, forget.is_fenced ? 1 : 0);
}

void Head::say(const plan::member::TellLost& lost) {
  parts_.stage.world.note("lost", lost.slots.front(), lost.slots.size(), lost.is_away ? 1 : 0);
  if (!driver_) return;
  parts_.mail(Actor::placement, [this, lost] { placement_->on_lost(lost, cards_of(lost.slots)); });
  parts_.mail(Actor::driver, [this, lost] { driver_->on_lost(lost, cards_of(lost.slots)); });
}

void Head::say(const plan::member::TellBack& back) {
  parts_.stage.world.note("back", back.slots.front(), back.slots.size());
  std::vector<SlotHandle> processes;
  for (uint32_t slot : back.slots) processes.push_back(ready_[slot]);
  parts_.mail(Actor::placement, [this, processes] { placement_->on_back(processes); });
  parts_.mail(Actor::driver, [this, processes] { driver_->on_back(processes); });
}

void Head::say(const plan::member::StartRun&) {
  parts_.mail(Actor::driver, [this] { driver_->tell(plan::run::Started{}); });
}

void Head::say(const plan::member::AskLeave& leave) {
  parts_.mail(Actor::driver, [this, leave] {
    driver_->tell(plan::run::LeaveAsked{leave.id, cards_of(leave.slots), leave.text,
                                        static_cast<double>(leave.wait_ms) * 1e-3});
  });
}

void Head::say(const plan::member::AnswerLeave& answer) {
  parts_.stage.world.note("leave is answered", answer.id, answer.refusal ? 1 : 0);
}

void Head::say(const plan::member::EndRun& end) {
  const plan::run::Failure failure{end.role, end.phase, end.text, false, end.is_loss};
  if (driver_)
    return parts_.mail(Actor::driver,
                       [this, failure] { driver_->tell(plan::run::FailureTold{failure}); });
  parts_.cluster.run_over({plan::run::End::How::failed, 0, end.role + ": " + end.text, end.is_loss},
                          0);
}

void Head::say(const plan::member::WakeAt& wake) {
  parts_.wake(wake.time, [this] { on_member(plan::member::TimePassed{}); });
}

}  // namespace cohort::sim
