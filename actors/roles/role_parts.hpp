#pragma once
/// What the actors of roles share: how they start, how they fail, how frames come to them, and what
/// an owner of card objects measures.
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "actors/roles/hop.hpp"
#include "actors/roles/role_handles.hpp"
#include "runtime/compute/device/card_memory.hpp"
#include "runtime/platform/process.hpp"

namespace cohort::actors {

using FailureSink = std::function<void(control::Failure)>;

/// Opens an actor's state. A failure is told to `fail` of the options, and ends the actor.
template <class Self, class Options>
void open_or_quit(Self* self, const std::string& role, Options options) {
  self->set_exception_handler([](std::exception_ptr& leaked) { return control::to_error(leaked); });
  FailureSink fail = options.fail;
  if (auto opened = self->state.open(std::move(options)); !opened) {
    fail({role, "start", opened.error().to_string()});
    self->quit(control::to_caf(opened.error()));
  }
}

/// Opens a link whose frames become (deliver) messages to `to`, an actor of `role`.
template <class Handle>
Expected<std::unique_ptr<transport::Receiver>> open_input(transport::Context& context,
                                                          const transport::LinkOptions& link,
                                                          const std::string& role, Handle to,
                                                          FailureSink fail) {
  return transport::Receiver::open(
      context, link,
      [to](transport::Delivery delivery) {
        caf::anon_send(to, control::deliver_atom_v,
                       std::make_shared<transport::Delivery>(std::move(delivery)));
      },
      [fail, role](const std::string& peer, const Error& error) {
        fail(control::failure_of_link(role, peer, error));
      });
}

/// The same of a hop, whose room becomes (flush).
template <class Handle>
Expected<std::unique_ptr<Hop>> open_hop(const HopOptions& options, const std::string& role,
                                        Handle to, FailureSink fail) {
  return Hop::open(
      options,
      [to](DeliveryHandle delivery) { caf::anon_send(to, control::deliver_atom_v, delivery); },
      [to] { caf::anon_send(to, control::flush_atom_v); },
      [fail, role](const std::string& link, const Error& error) {
        fail(control::failure_of_link(role, link, error));
      });
}

/// Adds what is really taken, for placement to compare with the ledger (LEAK-1, LEAK-2):
/// card_bytes, card_peak_bytes, process and process_bytes.
inline void read_memory(const compute::CardMemory& card, control::CardReply& reply) {
  reply.card_bytes = card.bytes_in_use();
  reply.card_peak_bytes = card.peak_bytes();
  reply.process = fmt::format("process {}", ::getpid());
  reply.process_bytes = platform::anonymous_bytes();
}
/// The same, and what a command has done to the owner's objects.
template <class Residency>
control::CardReply reply_with(const compute::CardMemory& card, control::CardReply reply,
                              const Residency& done) {
  reply.bytes_on_card = done.bytes_on_card;
  reply.bytes_moved = done.bytes_moved;
  reply.seconds = done.seconds;
  read_memory(card, reply);
  return reply;
}

}  // namespace cohort::actors
