#pragma once
/// Tensors over a device's blocks, for the engines' sources: addresses go in, tensors come out
/// (DEV-3). Private to the folder: it includes torch. Thread-safe; errors are exceptions
/// (c10::Error, std::exception), which the engines turn into Errc::compute.
#include "runtime/compute/device/device.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {

/// Null is the cpu.
at::Device torch_device_of(const Device* device);

/// Returns a tensor [count] of `type` over the bytes at `address`: in a block of `device`, or, if
/// `device` is null or a cpu, anywhere on the host. It keeps a block's memory, not its booking.
at::Tensor tensor_at(const Device* device, const std::byte* address, int64_t count,
                     at::ScalarType type);

}  // namespace cohort::compute
