#pragma once
/// Placement: executes the orders of plan::PhaseMachine. One thread; the head's.
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "runtime/plan/membership/membership.hpp"
#include "runtime/plan/place/phase_machine.hpp"
#include "tools/cohort-sim/head_parts.hpp"

namespace cohort::sim {

class SimPlacement {
 public:
  using Answer = std::function<void(Expected<plan::PhaseReport>)>;
  /// `owners`: of the cards of slots.
  SimPlacement(HeadParts& parts, SimTrainer& trainer, plan::PlacementPlan plan,
               plan::OffloadPolicy policy, std::map<uint32_t, SlotHandle> owners)
      : parts_(parts),
        trainer_(trainer),
        machine_(options_of(parts, std::move(plan), policy)),
        owners_(std::move(owners)) {}
  void ask(const plan::PhaseRequest& request, Answer answer) {
    parts_.stage.world.note("phase", static_cast<uint64_t>(request.kind), request.step,
                            request.version);
    asks_[++last_ask_] = std::move(answer);
    obey(machine_.ask(last_ask_, request, parts_.now()));
  }
  void on_lost(const plan::member::TellLost& lost, const std::vector<uint32_t>& cards) {
    for (uint32_t card : cards) owners_.erase(card);
    obey(machine_.lost(cards, lost.is_away, parts_.now()));
  }
  void on_back(const std::vector<SlotHandle>& processes) {
    std::vector<plan::PhaseMachine::RoleOnCard> roles;
    for (const SlotHandle& process : processes) {
      const uint32_t card = process.slot + 1;
      owners_[card] = process;
      roles.emplace_back(parts_.job.is_reference(process.slot) ? k_reference_role : k_rollout_role,
                         CardId{card});
    }
    obey(machine_.back(roles, parts_.now()));
  }

 private:
  static plan::PhaseMachineOptions options_of(const HeadParts& parts, plan::PlacementPlan plan,
                                              plan::OffloadPolicy policy) {
    plan::PhaseMachineOptions options;
    options.plan = std::move(plan);
    options.policy = policy;
    options.run_start = parts.now();
    options.loss_wait_s = parts.job.limits.loss_wait_s;
    options.grace_s = parts.job.limits.grace_s;
    options.plant = machine_plant(parts.stage.plant);
    return options;
  }
  void obey(const plan::phase::Orders& orders) {
    for (const plan::phase::Order& order : orders)
      std::visit([this](const auto& each) { obey(each); }, order);
  }
  void obey(const plan::phase::Send& send) {
    const plan::CardCommand& command = send.command;
    parts_.stage.world.note(
        "card command", command.command.card.value,
        static_cast<uint64_t>(command.command.verb) * 10 + static_cast<uint64_t>(command.stage),
        command.epoch);
    if (command.command.role == k_train_role) return to_trainer(command);
    auto owner = owners_.find(command.command.card.value);
    if (owner == owners_.end())
      return parts_.mail(Actor::placement, [this, id = command.id] {
        answered(id, Error{Errc::not_found, "no actor owns this card"});
      });
    parts_.ask(
        owner->second,
        [this, command](SimCard& card, const HeadParts::Tell& back) {
          card.on_command(command, [=, this](const Expected<plan::CardReply>& reply) {
            back([=, this] { answered(command.id, reply); });
          });
        },
        [this, id = command.id] {
          answered(id, Error{Errc::closed, "its process is gone"});
        });
  }
  void obey(const plan::phase::Grant& grant) { asks_.extract(grant.ask).mapped()(grant.report); }
  void obey(const plan::phase::Deny& deny) {
    parts_.stage.world.note("phase denied");
    asks_.extract(deny.ask).mapped()(deny.error);
  }
  void obey(const plan::phase::Note&) { parts_.stage.world.note("placement notes"); }
  void obey(const plan::phase::WakeAt& wake) {
    parts_.wake(wake.time, [this] { obey(machine_.pass(parts_.now())); });
  }
  // The engine does one thing after the other: an offer waits for an update.
  void to_trainer(const plan::CardCommand& command) {
    auto answer = [this, id = command.id](const Expected<plan::CardReply>& reply) {
      parts_.mail(Actor::placement, [this, id, reply] { answered(id, reply); });
    };
    parts_.mail(Actor::trainer, [this, command, answer] {
      if (command.command.verb == Verb::reshard && command.stage == plan::PublishStage::exchange)
        return offer(command, answer);
      trainer_.in_worker([this, command, answer](uint64_t, const std::function<void()>& is_over) {
        is_over();
        if (command.command.verb == Verb::reshard)
          if (auto seated = sit(parts_.wires, parts_.job, 0, parts_.self, command); !seated)
            return answer(seated.error());
        plan::CardReply reply;
        reply.id = command.id;
        reply.bytes_on_card =
            command.command.to == plan::Place::card && command.command.verb != Verb::begin_phase
                ? command.command.bytes
                : 0;
        answer(reply);
      });
    });
  }
  void offer(const plan::CardCommand& command, const CardAnswer& answer) {
    trainer_.in_worker(
        [this, command, answer](uint64_t parameters, const std::function<void()>& is_over) {
          trainer_.on_offered(command.version);
          PublishWire& wire = parts_.wires.to(command.receiver);
          auto ended = [this, command, answer, is_over](const Expected<uint64_t>& sent) {
            is_over();
            if (!sent) return answer(sent.error());
            plan::CardReply reply = reply_to(command);
            for (uint32_t card : parts_.wires.to(command.receiver).cards_of(0))
              if (card != 0) reply.sent.emplace_back(card, *sent);
            answer(reply);
          };
          wire.enter(0, command.version, parameters, ended);
        });
  }
  void answered(uint64_t id, const Expected<plan::CardReply>& reply) {
    obey(reply ? machine_.reply(id, *reply, parts_.now())
               : machine_.error(id, reply.error(), parts_.now()));
  }

  HeadParts& parts_;
  SimTrainer& trainer_;
  plan::PhaseMachine machine_;
  std::map<uint32_t, SlotHandle> owners_;  // by card
  std::map<uint64_t, Answer> asks_;
  uint64_t last_ask_ = 0;
};

}  // namespace cohort::sim
