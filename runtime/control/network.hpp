#pragma once
/// How actors of other processes are published and found: through TLS where the system has
/// credentials (SystemOptions), plainly on loopback where it has none. Nothing is published beyond
/// loopback without credentials unless the system was told to be insecure. Thread-safe.
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <string>
#include <vector>

#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"

namespace cohort::control {

struct Address {
  std::string host;
  uint16_t port = 0;
};

/// Reads "host:port" or "[v6]:port". Returns Errc::invalid_argument.
Expected<Address> parse_address(const std::string& text);
std::string to_text(const Address& address);
/// Returns true for 127.0.0.0/8, ::1 and "localhost".
bool is_loopback(const std::string& host);
/// Returns this host's address on the way to `peer`: what peers there can reach it by. Nothing is
/// sent. Errc::not_found if the name has no address or there is no way to it.
Expected<std::string> address_towards(const Address& peer);
/// Returns Errc::denied, with the remedy, if this system may not listen on `host`.
Expected<void> check_listen(const caf::actor_system& system, const std::string& host);

/// Listens on `address` (port 0: any) and returns the port. Errc::denied, Errc::io.
template <class Handle>
Expected<uint16_t> publish(caf::actor_system& system, const Handle& actor, const Address& address) {
  COHORT_TRY(check_listen(system, address.host));
  auto port = system.has_openssl_manager()
                  ? caf::openssl::publish(actor, address.port, address.host.c_str(), true)
                  : system.middleman().publish(actor, address.port, address.host.c_str(), true);
  if (!port)
    return Error{Errc::io, "cannot listen on " + to_text(address) + ": " +
                               from_caf(port.error()).to_string()};
  return *port;
}

/// Returns the actor that is published there. Errc::closed if nobody answers or one of the two does
/// not trust the other.
template <class Handle>
Expected<Handle> connect(caf::actor_system& system, const Address& address) {
  auto found = system.has_openssl_manager()
                   ? caf::openssl::remote_actor<Handle>(system, address.host, address.port)
                   : system.middleman().remote_actor<Handle>(address.host, address.port);
  if (!found)
    return Error{Errc::closed,
                 "no actor at " + to_text(address) + ": " + from_caf(found.error()).to_string()};
  return *found;
}

}  // namespace cohort::control
