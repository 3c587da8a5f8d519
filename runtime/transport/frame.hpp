#pragma once
/// The 64 bytes that begin every frame of a link, little-endian, and their checks. Pure.
/// A frame is one ZeroMQ message: part 1 = FrameHeader + payload (message header, or the protobuf
/// of a handshake), part 2 (data frames with a body) = one chunk of the body. Byte table:
/// docs/wire.md.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/error.hpp"

namespace cohort::transport {

inline constexpr uint32_t k_frame_magic = 0x31464843;  // "CHF1"

/// Data: the producer has another granted frame right behind, so the consumer may gather its acks.
inline constexpr uint16_t k_more_follows = 1;

enum class FrameKind : uint8_t {
  hello = 1,            // producer -> consumer, payload LinkHello
  welcome = 2,          // consumer -> producer, payload LinkWelcome
  reject = 3,           // either way, payload LinkReject; the link is over
  data = 4,             // one chunk
  ack = 5,              // seq = all up to it are acknowledged, body_bytes = granted position
  resend = 6,           // seq, chunk = first frame that is missing
  ping = 7,             // seq, chunk = next frame the producer would send; answered by ack
  unknown_session = 8,  // consumer has no state for this session: say hello again
  bye = 9,              // orderly end of a link end
};

struct FrameHeader {
  uint64_t header_checksum = 0;  // xxh3-64 of part 1 from byte 8 to its end
  uint32_t magic = k_frame_magic;
  uint8_t version = 1;
  FrameKind kind = FrameKind::data;
  uint16_t flags = 0;  // k_more_follows; a reader ignores the others
  uint64_t session = 0;
  uint64_t seq = 0;
  uint32_t chunk = 0;
  uint32_t chunk_count = 0;
  uint64_t body_bytes = 0;    // of the whole message
  uint32_t header_bytes = 0;  // of the message header, which travels with chunk 0
  uint32_t type = 0;
  uint64_t body_checksum = 0;  // xxh3-64 of part 2
};
static_assert(sizeof(FrameHeader) == 64);

/// Returns max(1, ceil(body_bytes / chunk_bytes)).
uint64_t chunk_count_of(uint64_t body_bytes, uint64_t chunk_bytes);

/// Returns the bytes of chunk `chunk`, 0 for the only chunk of an empty body.
uint64_t chunk_size_of(uint64_t body_bytes, uint64_t chunk_bytes, uint32_t chunk);

/// Returns a message's cost in queue and credit.
uint64_t cost_of(uint64_t header_bytes, uint64_t body_bytes);

/// Writes `header` and its checksum to the first 64 bytes of `part`; the payload is there already.
void seal(FrameHeader header, std::span<std::byte> part);

/// Returns the header of a part 1 that is whole: size, magic and checksum hold. nullopt = corrupt.
std::optional<FrameHeader> unseal(std::span<const std::byte> part);

/// Checks a data frame's sizes against each other and against the link's limits; nothing has been
/// allocated for it yet. Returns Errc::protocol naming the field.
Expected<void> check_data(const FrameHeader& header, size_t part1_bytes, size_t part2_bytes,
                          uint64_t chunk_bytes, uint64_t credit_bytes);

}  // namespace cohort::transport
