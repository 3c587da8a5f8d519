#pragma once
/// Arithmetic on flat pieces of parameters, gradients and moments wherever they lie: addresses of
/// the host, or of blocks of a card's device (DEV-3). On the host it is exactly the kernels of
/// cpu/ and memcpy, the same calls as without a device; on a device it is tensor operations that
/// compute the same function (rounding of fused products may differ). Private to the folder: it
/// includes torch.
///
/// Pure but for what it writes; thread-safe. On a device every call is on the current stream, and
/// what reads to the host waits for it. Errors on a device are exceptions, which the engine turns
/// into Errc::compute; on the host there are none.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/compute/device/device.hpp"
#include "runtime/compute/train/gradient_norm.hpp"
#include "runtime/compute/train/optimizer.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {

/// A piece of a tensor taken flat, from `begin` on. `data` is its address, on the host or not.
struct FlatSource {
  const std::byte* data = nullptr;  // null: zeros
  at::Tensor owner;                 // contiguous; undefined: `data` is all there is
  int64_t begin = 0;                // [elements] of data in owner
  explicit operator bool() const { return data != nullptr; }
  /// Returns the piece from `elements` further on.
  FlatSource from(int64_t elements) const;
};

class FlatMath {
 public:
  FlatMath() = default;
  /// Null or a cpu: every address is the host's.
  explicit FlatMath(Device* device);

  bool has_device() const { return device_ != nullptr; }
  bool is_on_device(const void* address) const {
    return device_ != nullptr && device_->holds(static_cast<const std::byte*>(address));
  }

  /// Between any two places.
  void copy(void* to, const void* from, size_t size_bytes) const;
  void copy(void* to, const FlatSource& from, size_t size_bytes) const;
  void zero(void* to, size_t size_bytes) const;
  /// to[i] += from[i], of bf16 if `is_half`, else f32. Both on one side.
  void add(float* to, const FlatSource& from, int64_t count, bool is_half) const;
  /// Where the moments are. Parameters that rest on the host go up and come back; the other arrays
  /// are on one side.
  void adamw(const AdamwPiece& piece, const AdamwScale& scale) const;
  /// to[i] = from[i] rounded to bf16; between any two places.
  void round(uint16_t* to, const float* from, int64_t count) const;
  /// gradient_norm.hpp's; the same integers on a device.
  uint32_t largest_magnitude(std::span<const float> values) const;
  SquareSum sum_of_squares(std::span<const float> values, uint32_t largest) const;

  /// Returns the bytes themselves if they are the host's, else a copy of them in `copied`.
  std::span<const std::byte> on_host(std::span<const std::byte> bytes,
                                     std::vector<std::byte>& copied) const;

 private:
  Device* device_ = nullptr;
};

}  // namespace cohort::compute
