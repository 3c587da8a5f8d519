#pragma once
/// The rule of reach: beyond loopback nothing listens, and no link connects, without the cluster's
/// credentials, unless the user said --insecure. Control messages (runtime/control) and links
/// (runtime/transport) both ask here. Pure, thread-safe.
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort {

/// Returns true for 127.0.0.0/8, ::1 (also in brackets) and "localhost". Names are not resolved.
bool is_loopback(std::string_view host);

struct Exposure {
  bool has_credentials = false;
  bool is_insecure = false;  // because the user said so
};

/// Returns Errc::denied, with the remedy, if `host` may not be used that way.
Expected<void> check_exposure(std::string_view host, Exposure exposure);

}  // namespace cohort
