#pragma once
/// Compressed pages. Bound: memory grows with the bytes that come out, not with what a header says,
/// and never over `size_bytes`. Pure; any thread.
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/columnar/footer.hpp"

namespace cohort::columnar {

/// Returns exactly `size_bytes` bytes. Returns Errc::corrupt where the bytes give another number or
/// are damaged, Errc::unsupported naming a codec that is not read.
Expected<std::string> decompress(Codec codec, std::string_view bytes, size_t size_bytes);

}  // namespace cohort::columnar
