#pragma once
/// Packing and unpacking by addressed runs, a stretch of the packed bytes at a time, with the cast
/// from f32 to bf16 on the way. Internal to runtime/publish. Pure but for the bytes it is given.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/reshard/reshard_apply.hpp"
#include "runtime/publish/weights.hpp"

namespace cohort::publish {

/// `count` blocks of `bytes`: packed + i * packed_stride <-> address + i * stride. Packed bytes are
/// of the plan's elements; address and stride are in memory, where an element may be wider.
struct AddressedRun {
  uint64_t packed = 0, bytes = 0, count = 1, packed_stride = 0, stride = 0;
  std::byte* address = nullptr;
  uint64_t packed_end() const { return packed + (count - 1) * packed_stride + bytes; }
};

/// The runs of a transfer in packed order, with a mark that moves forward with the stretches.
struct RunList {
  std::vector<AddressedRun> runs;
  size_t mark = 0;  // runs before it lie before the last stretch
};

/// `widen`: bytes of an element in memory over those of a packed one.
RunList address(const std::vector<plan::ReshardCopies::Unit>& units, uint32_t family,
                const PartTable& parts, uint64_t widen);

/// Fills `packed`, bytes [begin, begin + size) of the transfer, from memory. With widen 2, f32 in
/// memory is rounded to bf16.
void gather(RunList& list, uint64_t begin, std::span<std::byte> packed, uint64_t widen);
/// Writes the runs' part of `packed` to memory; stores bypass the cache where runs are long.
void scatter(RunList& list, uint64_t begin, std::span<const std::byte> packed);

/// Rounds to nearest, ties to even; NaN stays NaN: as TrainEngine's bf16 copy does.
void round_to_bf16(const std::byte* f32, std::byte* bf16, size_t count);

}  // namespace cohort::publish
