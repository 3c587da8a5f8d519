#include "runtime/transport/frame.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/tensor/checksum.hpp"
#include "runtime/transport/link.hpp"

namespace cohort::transport {

static_assert(std::endian::native == std::endian::little, "frames are little-endian in memory");

uint64_t chunk_count_of(uint64_t body_bytes, uint64_t chunk_bytes) {
  return body_bytes == 0 ? 1 : (body_bytes - 1) / chunk_bytes + 1;
}

uint64_t chunk_size_of(uint64_t body_bytes, uint64_t chunk_bytes, uint32_t chunk) {
  uint64_t begin = uint64_t{chunk} * chunk_bytes;
  if (begin >= body_bytes) return 0;
  return body_bytes - begin < chunk_bytes ? body_bytes - begin : chunk_bytes;
}

uint64_t cost_of(uint64_t header_bytes, uint64_t body_bytes) {
  return header_bytes + body_bytes + k_message_overhead_bytes;
}

void seal(FrameHeader header, std::span<std::byte> part) {
  std::memcpy(part.data(), &header, sizeof(header));
  uint64_t checksum = tensor::checksum64(part.subspan(sizeof(checksum)));
  std::memcpy(part.data(), &checksum, sizeof(checksum));
}

std::optional<FrameHeader> unseal(std::span<const std::byte> part) {
  if (part.size() < sizeof(FrameHeader)) return std::nullopt;
  FrameHeader header;
  std::memcpy(&header, part.data(), sizeof(header));
  if (header.magic != k_frame_magic ||
      header.header_checksum != tensor::checksum64(part.subspan(sizeof(uint64_t))))
    return std::nullopt;
  return header;
}

Expected<void> check_data(const FrameHeader& header, size_t part1_bytes, size_t part2_bytes,
                          uint64_t chunk_bytes, uint64_t credit_bytes) {
  auto refuse = [](std::string detail) { return Error{Errc::protocol, std::move(detail)}; };
  if (header.header_bytes > k_max_header_bytes)
    return refuse(fmt::format("message header of {} bytes", header.header_bytes));
  if (header.body_bytes > credit_bytes ||
      cost_of(header.header_bytes, header.body_bytes) > credit_bytes)
    return refuse(fmt::format("message body of {} bytes exceeds the credit of {}",
                              header.body_bytes, credit_bytes));
  uint64_t count = chunk_count_of(header.body_bytes, chunk_bytes);
  if (header.chunk_count != count || header.chunk >= count)
    return refuse(
        fmt::format("chunk {} of {}, expected {} chunks", header.chunk, header.chunk_count, count));
  size_t payload = header.chunk == 0 ? header.header_bytes : 0;
  if (part1_bytes != sizeof(FrameHeader) + payload)
    return refuse(fmt::format("first part of {} bytes, expected {}", part1_bytes,
                              sizeof(FrameHeader) + payload));
  uint64_t size = chunk_size_of(header.body_bytes, chunk_bytes, header.chunk);
  if (part2_bytes != size)
    return refuse(fmt::format("chunk of {} bytes, expected {}", part2_bytes, size));
  return {};
}

}  // namespace cohort::transport
