#pragma once
/// Sockets, addresses and time, as dial(), Gate and HttpServer need them. Internal to
/// runtime/control. Functions are thread-safe; a Descriptor has one owner.
#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/error.hpp"
#include "runtime/control/pem.hpp"

namespace cohort::control::detail {

using AddressList = std::unique_ptr<addrinfo, Freed<freeaddrinfo>>;

/// Errc::not_found. An empty host means every interface of this one.
Expected<AddressList> resolve(const std::string& host, uint16_t port, bool is_to_listen);

/// Listens there, without blocking accept4(). Errc::not_found, Errc::io.
Expected<Descriptor> listen_on(const std::string& host, uint16_t port);

/// Returns the port that a listening socket has.
uint16_t port_of(int socket);

/// Adds one to an eventfd: wakes the thread that polls it.
void wake_up(int event);

/// Returns "10.0.0.7:41234", or "?" when it has gone.
std::string peer_of(int socket);

/// Monotonic milliseconds.
int64_t now_ms();

}  // namespace cohort::control::detail
