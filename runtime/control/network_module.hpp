#pragma once
/// CAF's network layer over our own sockets: every connection has passed a Gate, and no header of
/// the wire can make us hold more than k_max_message_bytes. An actor system that has a network has
/// this; publish() and connect() of network.hpp go through it. Internal to runtime/control.
/// Threads: a connection belongs to CAF's multiplexer thread, connecting to one actor of its own.
///   WIRE-1 a connection whose next message is longer than k_max_message_bytes is closed, before
///          anything was allocated for it: BASP's header has a 32-bit length.
///   WIRE-2 a connection whose peer leaves more than k_max_unsent_bytes unread is closed.
/// The content of messages: WIRE-3 (wire_check.hpp).
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <memory>

#include "runtime/control/tls.hpp"

namespace cohort::control::detail {

/// Control messages are below 64 KiB; a BASP message adds its envelope.
inline constexpr size_t k_max_message_bytes = size_t{1} << 20;
inline constexpr size_t k_max_unsent_bytes = size_t{64} << 20;
inline constexpr int k_dial_ms = 10000;  // name, connection and handshake together

/// Starts and stops with the actor system. Credentials that cannot be read end the process at its
/// start: they have just been checked by load_credentials().
class NetworkModule final : public caf::actor_system::module {
 public:
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);
  void start() override;
  void stop() override;
  void init(caf::actor_system_config& config) override;
  id_t id() const override { return network_manager; }
  void* subtype_ptr() override { return this; }

 private:
  explicit NetworkModule(caf::actor_system& system) : system_(system) {}
  caf::actor_system& system_;
  std::shared_ptr<TlsContext> tls_;
  caf::io::middleman_actor actor_;
};

/// Returns the actor that publishes and connects, or an invalid handle where the system has no
/// network.
caf::io::middleman_actor network_actor(caf::actor_system& system);

}  // namespace cohort::control::detail
