#pragma once
/// Reads another process's BASP once, with a source that trusts no length, before CAF reads it: CAF
/// 0.17 resizes to any length that it is told, follows nested messages as deep as they go, throws
/// on a wrong tag, takes a header without its payload for one with, and an actor of ours for a
/// proxy. Internal to runtime/control. Threads: one object per connection, used by the thread that
/// reads it.
///   WIRE-3 CAF gets only bytes that were read here without an error: a header of a known kind with
///          its payload, of whole objects of types that we send, nested at most k_max_nested deep,
///          each sequence no longer than the bytes behind it.
#include <caf/all.hpp>
#include <cstdint>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::control::detail {

/// An error carries a message as its context; that of a relayed one another. Ours end at 2.
inline constexpr int k_max_nested = 8;

/// Operations of BASP, as the first byte of a header names them (caf/io/basp/message_type.hpp).
enum class BaspKind : uint8_t {
  server_handshake = 0,
  client_handshake = 1,
  direct_message = 2,
  routed_message = 3,
  monitor_message = 4,
  down_message = 5,
  heartbeat = 6
};

/// Errc::protocol if CAF must not see these bytes as the payload of a header of `kind`. Makes no
/// proxy and keeps nothing.
Expected<void> check_payload(caf::actor_system& system, BaspKind kind, std::string_view payload);

/// One connection: headers and payloads in turn, as CAF asks for them.
class WireCheck {
 public:
  /// Errc::protocol if the connection must end here; nothing may be taken after that.
  Expected<void> take(caf::actor_system& system, std::string_view bytes);

 private:
  Expected<void> take_header(std::string_view bytes);

  BaspKind kind_ = BaspKind::heartbeat;
  bool has_payload_next_ = false;
};

}  // namespace cohort::control::detail
