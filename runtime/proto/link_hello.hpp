#pragma once
/// Payloads of a link's handshake (docs/wire.md): hello, welcome, reject. Pure, thread-safe.
/// They live here, since only this folder may see protobuf; runtime/transport gives them meaning.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::proto {

struct LinkHello {
  uint32_t protocol_min = 0, protocol_max = 0;
  std::string run_id;
  std::string name;             // of the producer's link end
  uint64_t first_seq = 0;       // first message that is not acknowledged
  uint64_t first_position = 0;  // [bytes] cost of all messages before it
  uint64_t chunk_bytes = 0;
  uint32_t heartbeat_ms = 0;
  std::string service = {};  // the consumer that is meant; empty: any that listens there
};

struct LinkWelcome {
  uint32_t protocol = 0;
  uint64_t next_seq = 0;
  uint32_t next_chunk = 0;
  uint64_t acked_seq = 0;
  uint64_t granted = 0;  // [bytes] absolute position
  uint64_t credit_bytes = 0;
  std::string name;  // of the consumer's link end
};

std::string encode_hello(const LinkHello& hello);
std::string encode_welcome(const LinkWelcome& welcome);
std::string encode_reject(const Error& error);

/// Each returns Errc::corrupt if the bytes do not parse.
Expected<LinkHello> decode_hello(std::span<const std::byte> bytes);
Expected<LinkWelcome> decode_welcome(std::span<const std::byte> bytes);
/// Returns the Error that the peer sent, or Errc::corrupt.
Error decode_reject(std::span<const std::byte> bytes);

}  // namespace cohort::proto
