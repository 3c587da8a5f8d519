#pragma once
/// The arrival of one weight version: bytes on the host until every one of them is there and has
/// matched its checksum (first phase of PLACE-5). Not thread-safe: the engine's control lock owns
/// it. Bound: total_bytes of host memory between begin() and take() or drop().
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "runtime/base/error.hpp"

namespace cohort::compute {

class WeightInbox {
 public:
  /// Drops what was arriving. Returns Errc::compute if the host has no memory.
  Expected<void> begin(uint64_t version, uint64_t total_bytes);
  /// Returns Errc::corrupt if the checksum does not hold (the bytes do not count),
  /// Errc::invalid_argument if they do not lie in the version or none was begun.
  Expected<void> write(uint64_t offset, std::span<const std::byte> bytes, uint64_t checksum);
  /// Hands the complete bytes over and is empty again. Returns Errc::invalid_argument for another
  /// version than was begun, Errc::corrupt naming the first missing byte; then nothing changes.
  Expected<std::shared_ptr<std::byte>> take(uint64_t version);
  void drop();

 private:
  bool is_open_ = false;
  uint64_t version_ = 0;
  uint64_t total_bytes_ = 0;
  std::shared_ptr<std::byte> bytes_;
  std::map<uint64_t, uint64_t> arrived_;  // begin -> end of disjoint, not touching ranges
};

}  // namespace cohort::compute
