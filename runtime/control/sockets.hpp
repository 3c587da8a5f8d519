#pragma once
/// Addresses and time, as dial() and Gate need them. Internal to runtime/control. Thread-safe.
#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/control/pem.hpp"

namespace cohort::control::detail {

using AddressList = std::unique_ptr<addrinfo, Freed<freeaddrinfo>>;

/// Errc::not_found. An empty host means every interface of this one.
Expected<AddressList> resolve(const std::string& host, uint16_t port, bool is_to_listen);

/// Returns "10.0.0.7:41234", or "?" when it has gone.
std::string peer_of(int socket);

/// Monotonic milliseconds.
int64_t now_ms();

}  // namespace cohort::control::detail
