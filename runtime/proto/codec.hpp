#pragma once
/// Trajectories <-> frame: a protobuf header and one buffer of raw little-endian columns, each at a
/// multiple of 64 bytes. Pure, thread-safe. A decoder trusts nothing: it checks every size, offset
/// and type against the bytes at hand before it allocates (docs/wire.md).
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::proto {

inline constexpr uint32_t k_batch_format = 1;

struct Encoded {
  std::string header;
  tensor::Buffer columns;
};

/// Same input, same bytes (padding is zero). A column whose length is neither 0 nor tokens.size()
/// is the caller's bug, which the decoder refuses: validate() trajectories from outside first.
Encoded encode_batch(std::span<const Trajectory> trajectories);

/// Returns Errc::corrupt naming the trajectory and the field if anything does not hold.
Expected<std::vector<Trajectory>> decode_batch(std::span<const std::byte> header,
                                               std::span<const std::byte> columns);

}  // namespace cohort::proto
