#pragma once
/// Element types of columns, parameters and files. Value type, no state.
/// Numbers are part of wire and file formats: append-only.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::tensor {

enum class Dtype : uint8_t { f32 = 1, bf16 = 2, i32 = 3, u8 = 4, u32 = 5, f64 = 6 };

/// Returns bytes per element; 0 if `dtype` is no enumerator (a number read from a file or a peer).
size_t size_of(Dtype dtype);

/// Returns the stable lower-case name, e.g. "bf16"; "unknown" if `dtype` is no enumerator.
std::string_view to_string(Dtype dtype);

}  // namespace cohort::tensor
