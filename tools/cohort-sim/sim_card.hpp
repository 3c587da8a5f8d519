#pragma once
/// What a simulated process of a slot holds: a card of the rollout or of the reference, which does
/// what placement commands after a while. It dies with its process. One thread.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/plan/place/card_messages.hpp"
#include "tools/cohort-sim/sim_hop.hpp"
#include "tools/cohort-sim/sim_publish.hpp"
#include "tools/cohort-sim/sim_rollout.hpp"

namespace cohort::sim {

inline constexpr const char* k_train_role = "actor_train";
inline constexpr const char* k_rollout_role = "actor_infer";
inline constexpr const char* k_reference_role = "reference";

/// Publishes go to the rollouts and to the reference, over wires of their own.
struct PublishWires {
  explicit PublishWires(Stage& stage) : rollouts(stage), reference(stage) {}
  PublishWire& to(const std::string& receiver) {
    return receiver == k_rollout_role ? rollouts : reference;
  }
  void forget(const Process& process) {
    rollouts.forget(process);
    reference.forget(process);
  }
  PublishWire rollouts, reference;
};

inline plan::CardReply reply_to(const plan::CardCommand& command) {
  plan::CardReply reply;
  reply.id = command.id;
  reply.version = command.version;
  return reply;
}
using Verb = plan::Command::Verb;

/// Returns the cards of the group of seats, without `absent`: the one that trains, and the
/// receiver's.
inline std::vector<uint32_t> seats_of(const Job& job, const std::string& receiver,
                                      const std::vector<uint32_t>& absent) {
  std::vector<uint32_t> cards = {0};
  for (uint32_t slot = 0; slot < job.slots(); ++slot)
    if (job.is_reference(slot) == (receiver == k_reference_role) &&
        std::ranges::find(absent, slot + 1) == absent.end())
      cards.push_back(slot + 1);
  return cards;
}

/// Opens the seat that a command asks for.
inline Expected<void> sit(PublishWires& wires, const Job& job, uint32_t card, Process& process,
                          const plan::CardCommand& command) {
  return wires.to(command.receiver)
      .sit(card, process, command.epoch, seats_of(job, command.receiver, command.absent));
}

using CardAnswer = std::function<void(Expected<plan::CardReply>)>;

class SimCard {
 public:
  SimCard(Stage& stage, const Job& job, PublishWires& wires, Process& self, uint32_t slot,
          uint32_t attempt, std::function<void()> end_process, SimReceiver::OnPeerLost on_peer_lost)
      : stage_(stage), job_(job), wires_(wires), self_(self), card_(slot + 1) {
    const std::string label = fmt::format("{}/{}->", slot, attempt);
    const std::string role = job.is_reference(slot) ? k_reference_role : k_rollout_role;
    if (attempt == 0)  // the first processes sit before the run begins
      wires_.to(role).sit(card_, self_, 0, seats_of(job_, role, {})).value();
    if (job.is_reference(slot))
      reference_ = std::make_unique<SimHop>(stage_, job_, self_, label, "reference", "collector",
                                            std::move(on_peer_lost));
    else if (slot % job.tensor_parallel == 0)
      rollout_ = std::make_unique<SimRollout>(stage_, job_, self_, label,
                                              slot / job.tensor_parallel, std::move(end_process));
  }
  void on_command(const plan::CardCommand& command, CardAnswer answer) {
    const bool is_move = command.command.verb != Verb::begin_phase;
    if (rollout_ && is_move) rollout_->on_card_moves(command.command);
    if (rollout_ && !is_move) rollout_->on_phase(command.command.phase);
    plan::CardReply reply = reply_to(command);
    if (command.command.verb == Verb::reshard) {
      if (command.stage == plan::PublishStage::exchange) return arrive(command, std::move(answer));
      if (command.stage == plan::PublishStage::commit) commit(command);
      if (command.stage == plan::PublishStage::seat)
        if (auto seated = sit(wires_, job_, card_, self_, command); !seated)
          return answer(seated.error());
    }
    const bool is_there = is_move && command.command.to == plan::Place::card;
    reply.bytes_on_card = is_there ? command.command.bytes : 0;
    // To open a seat means sockets, and to find the others.
    const bool is_seat =
        command.command.verb == Verb::reshard && command.stage == plan::PublishStage::seat;
    stage_.world.post(self_, stage_.world.pick(0, is_seat ? 100 : 4),
                      [answer = std::move(answer), reply] { answer(reply); });
  }
  SimRollout* rollout() { return rollout_.get(); }

 private:
  void arrive(const plan::CardCommand& command, CardAnswer answer) {
    PublishWire& wire = wires_.to(command.receiver);
    if (!wire.is_seated(card_, command.epoch))
      stage_.world.violate("SEAT-1",
                           fmt::format("version {} is to go to card {}, whose process does "
                                       "not sit in epoch {}",
                                       command.version, card_, command.epoch));
    arrived_.reset();
    wire.enter(card_, command.version, 0,
               [this, command, answer = std::move(answer)](const Expected<uint64_t>& parameters) {
                 if (!parameters) return answer(parameters.error());
                 arrived_ = Arrived{command.version, *parameters};
                 plan::CardReply reply = reply_to(command);
                 reply.checksum = *parameters;
                 answer(reply);
               });
  }
  void commit(const plan::CardCommand& command) {
    if (!arrived_ || arrived_->version != command.version)
      return stage_.world.violate(
          "PLACE-5", fmt::format("version {} is to be served on card {}, which has not "
                                 "got all of it",
                                 command.version, card_));
    if (rollout_) rollout_->serve(arrived_->version, arrived_->parameters);
  }

  Stage& stage_;
  const Job& job_;
  PublishWires& wires_;
  Process& self_;
  const uint32_t card_;
  struct Arrived {
    uint64_t version = 0, parameters = 0;
  };
  std::optional<Arrived> arrived_;  // all of it, not served yet
  std::unique_ptr<SimRollout> rollout_;
  std::unique_ptr<SimHop> reference_;
};

}  // namespace cohort::sim
