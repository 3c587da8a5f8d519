#pragma once
/// xxh3-64 with seed 0 over bytes: frames, stream records, weight buckets, parameter hashes.
/// Detects accidents, not attackers. checksum64 is thread-safe; a Checksum belongs to one thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace cohort::tensor {

/// Returns xxh3-64 of `bytes`; the empty span has a defined value too.
uint64_t checksum64(std::span<const std::byte> bytes);

/// Streaming form: the digest equals checksum64 of the concatenation, however it was cut.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::tensor
