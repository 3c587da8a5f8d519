#pragma once
/// What a search asks first: a trajectory without turns and columns, out of the same header as
/// decode_batch (codec.hpp) reads, at a fraction of its cost. Pure, thread-safe; trusts nothing.
#include <cstddef>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::proto {

/// Of a batch of one. Returns Errc::corrupt if the header does not parse as far as it is read;
/// decode_batch may find more that does not hold.
Expected<Trajectory> decode_head(std::span<const std::byte> header);

}  // namespace cohort::proto
