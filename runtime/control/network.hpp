#pragma once
/// How actors of other processes are published and found: through mutual TLS where the system has
/// credentials (SystemOptions), plainly on loopback where it has none. Nothing is published beyond
/// loopback without credentials unless the system was told to be insecure. Thread-safe; both calls
/// block, connect() for at most some ten seconds per address.
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/listen.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"

namespace cohort::control {

struct Address {
  std::string host;
  uint16_t port = 0;
};

/// Reads "host:port" or "[v6]:port"; port 0, any, only if `may_be_any`. Errc::invalid_argument.
Expected<Address> parse_address(const std::string& text, bool may_be_any = false);
std::string to_text(const Address& address);
/// Returns this host's address on the way to `peer`, by which peers there reach it. Sends nothing.
/// Errc::not_found if the name has no address or there is no way to it.
Expected<std::string> address_towards(const Address& peer);
/// Returns Errc::denied, with the remedy, if this system may not listen on `host`.
Expected<void> check_listen(const caf::actor_system& system, const std::string& host);

namespace detail {
using Signatures = std::set<std::string>;
Expected<uint16_t> publish(caf::actor_system& system, caf::strong_actor_ptr actor,
                           Signatures signatures, const Address& address);
Expected<caf::strong_actor_ptr> connect(caf::actor_system& system, const Signatures& wanted,
                                        const Address& address);
}  // namespace detail

/// Listens on `address` (port 0: any) and returns the port. Errc::denied, Errc::io.
template <class Handle>
Expected<uint16_t> publish(caf::actor_system& system, const Handle& actor, const Address& address) {
  return detail::publish(system, caf::actor_cast<caf::strong_actor_ptr>(actor),
                         system.message_types(actor), address);
}

/// Returns the actor that is published there. Errc::closed if no peer answers or one of the two
/// does not trust the other, Errc::protocol if it is an actor of another kind.
template <class Handle>
Expected<Handle> connect(caf::actor_system& system, const Address& address) {
  COHORT_ASSIGN(
      caf::strong_actor_ptr found,
      detail::connect(system, system.message_types(caf::detail::type_list<Handle>{}), address));
  return caf::actor_cast<Handle>(std::move(found));
}

}  // namespace cohort::control
