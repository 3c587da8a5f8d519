#include "tools/cohort-sim/sim_card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::sim {

using Verb = plan::Command::Verb;

std::vector<uint32_t> seats_of(const Job& job, const std::string& receiver,
                               const std::vector<uint32_t>& absent) {
  std::vector<uint32_t> cards = {0};
  for (uint32_t slot = 0; slot < job.slots(); ++slot)
    if (job.is_reference(slot) == (receiver == k_reference_role) &&
        std::ranges::find(absent, slot + 1) == absent.end())
      cards.push_back(slot + 1);
  return cards;
}

Expected<void> sit(PublishWires& wires, const Job& job, uint32_t card, Process& process,
                   const plan::CardCommand& command) {
  return wires.to(command.receiver)
      .sit(card, process, command.epoch, seats_of(job, command.receiver, command.absent));
}

SimCard::SimCard(Stage& stage, const Job& job, PublishWires& wires, Process& self, uint32_t slot,
                 uint32_t attempt, std::function<void()> end_process,
                 SimReceiver::OnPeerLost on_peer_lost)
    : stage_(stage), job_(job), wires_(wires), self_(self), card_(slot + 1) {
  const std::string label = fmt::format("{}/{}->", slot, attempt);
  const std::string role = job.is_reference(slot) ? k_reference_role : k_rollout_role;
  if (attempt == 0)  // the first processes sit before the run begins
    wires_.to(role).sit(card_, self_, 0, seats_of(job_, role, {})).value();
  if (job.is_reference(slot))
    reference_ = std::make_unique<SimHop>(stage_, job_, self_, label, "reference", "collector",
                                          std::move(on_peer_lost));
  else if (slot % job.tensor_parallel == 0)
    rollout_ = std::make_unique<SimRollout>(stage_, job_, self_, label, slot / job.tensor_parallel,
                                            std::move(end_process));
}

void SimCard::on_command(const plan::CardCommand& command, CardAnswer answer) {
  const bool is_move = command.command.verb != Verb::begin_phase;
  if (rollout_ && is_move) rollout_->on_card_moves();
  plan::CardReply reply;
  reply.id = command.id;
  reply.version = command.version;
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

void SimCard::arrive(const plan::CardCommand& command, CardAnswer answer) {
  PublishWire& wire = wires_.to(command.receiver);
  if (!wire.is_seated(card_, command.epoch))
    stage_.world.violate("SEAT-1", fmt::format("version {} is to go to card {}, whose process does "
                                               "not sit in epoch {}",
                                               command.version, card_, command.epoch));
  arrived_.reset();
  wire.enter(card_, command.version, 0,
             [this, command, answer = std::move(answer)](const Expected<uint64_t>& parameters) {
               if (!parameters) return answer(parameters.error());
               arrived_ = Arrived{command.version, *parameters};
               plan::CardReply reply;
               reply.id = command.id;
               reply.version = command.version;
               reply.checksum = *parameters;
               answer(reply);
             });
}

void SimCard::commit(const plan::CardCommand& command) {
  if (!arrived_ || arrived_->version != command.version)
    return stage_.world.violate("PLACE-5",
                                fmt::format("version {} is to be served on card {}, which has not "
                                            "got all of it",
                                            command.version, card_));
  if (rollout_) rollout_->serve(arrived_->version, arrived_->parameters);
}

}  // namespace cohort::sim
