#pragma once
/// Bytes as CAF's nodes send them to each other, and such as they never would.
#include <caf/all.hpp>
#include <caf/binary_serializer.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/control/wire_check.hpp"

namespace cohort::test {

/// The parts, each as CAF writes it.
template <class... Parts>
std::string basp_payload(caf::actor_system& system, const Parts&... parts) {
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  auto write = [&](const auto& part) {
    caf::error error;
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, caf::message>)
      error = part.save(sink);
    else
      error = sink(part);
    if (error) throw std::invalid_argument(caf::to_string(error));
  };
  (write(parts), ...);
  return std::string(bytes.begin(), bytes.end());
}

/// What a direct message without stages has behind its header.
inline std::string direct_payload(caf::actor_system& system, const caf::message& message) {
  return basp_payload(system, std::vector<caf::strong_actor_ptr>{}, message);
}

/// A node of nowhere, the same on each machine.
inline caf::node_id some_node() {
  return *caf::make_node_id(4711, "0123456789abcdef0123456789abcdef01234567");
}

struct BaspHeader {
  control::detail::BaspKind kind = control::detail::BaspKind::direct_message;
  uint8_t flags = 0;
  uint32_t payload_bytes = 0;
  uint64_t data = 0, from = 0, to = 0;
};

inline std::string basp_header(const BaspHeader& header) {
  std::string bytes{static_cast<char>(header.kind), 0, 0, static_cast<char>(header.flags)};
  auto append = [&](uint64_t x, int size) {
    for (int at = size - 1; at >= 0; --at) bytes += static_cast<char>(x >> (8 * at));
  };
  append(header.payload_bytes, 4);
  for (uint64_t x : {header.data, header.from, header.to}) append(x, 8);
  return bytes;
}

}  // namespace cohort::test
