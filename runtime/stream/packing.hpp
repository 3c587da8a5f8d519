#pragma once
/// A record's header and columns as one zstd frame. Thread-safe: each thread that packs keeps a
/// context, and two buffers as large as the largest record that it has packed.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::stream {

/// Returns the frame, or nothing if the record takes no fewer bytes with it. The bytes are this
/// thread's, until it packs the next record.
std::span<const std::byte> pack(std::span<const std::byte> header,
                                std::span<const std::byte> columns);

struct Unpacked {
  tensor::Buffer body;  // header, zeros to 64, columns, zeros to 64: as a record that is not packed
  uint64_t columns_bytes = 0;
};
/// Returns Errc::corrupt, saying why, if `frame` is not what pack() made of a header of so many
/// bytes.
Expected<Unpacked> unpack(std::span<const std::byte> frame, uint64_t header_bytes);

}  // namespace cohort::stream
