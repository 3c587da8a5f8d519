#pragma once
/// A Device on torch's device-independent interface: c10's guard of the device type for devices and
/// events, tensors for memory and copies. What that interface does not tell (memory, pinned host
/// memory) the vendor's subclass does. Private to the folder.
///
/// Owner, threads and errors as device.hpp says. Exceptions of torch end here.
#include <map>
#include <mutex>

#include "runtime/compute/device/device.hpp"
#include "runtime/tensor/torch.hpp"
// torch.hpp first: ivalue.h before any other header of c10
#include <c10/core/impl/VirtualGuardImpl.h>

namespace cohort::compute {

/// The tensors under the live blocks of one device, by address.
class TensorBlocks {
 public:
  void add(const std::byte* address, at::Tensor bytes);
  void remove(const std::byte* address);
  /// Returns [size_bytes] u8 over the bytes, undefined if no block has them.
  at::Tensor find(const std::byte* address, uint64_t size_bytes) const;
  bool has(const std::byte* address) const;
  struct Bytes {
    uint64_t in_use = 0, peak = 0;
  };
  Bytes bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, at::Tensor> tensors_;
  Bytes bytes_;
};

class TorchDevice : public Device {
 public:
  std::string torch_device() const override;
  Expected<DeviceBlock> allocate(uint64_t size_bytes) override;
  Expected<DeviceBlock> allocate_pinned(uint64_t size_bytes) override;
  bool holds(const std::byte* address) const override { return blocks_->has(address); }
  Expected<void> copy(std::byte* to, const std::byte* from, uint64_t size_bytes) override;
  Expected<void> finish() override;

  at::Device torch() const { return torch_; }
  /// Returns [size_bytes] u8 over bytes of a block (device or pinned), else of the host.
  at::Tensor bytes_at(const std::byte* address, uint64_t size_bytes) const;
  /// The same for bytes that must be the device's; throws if they are not.
  at::Tensor device_bytes_at(const std::byte* address, uint64_t size_bytes) const;

 protected:
  TorchDevice(DeviceInfo info, at::Device torch)
      : Device(std::move(info)), torch_(torch), guard_(torch.type()) {}
  /// Host bytes [size_bytes] u8 that the device can copy by itself. Throws.
  virtual at::Tensor pinned_bytes(int64_t size_bytes) const = 0;
  /// A block of the device over `bytes` that is known by `address`, usually the tensor's own.
  DeviceBlock block_at(std::byte* address, const at::Tensor& bytes);
  /// For a backend whose allocator does not tell: of the blocks alone.
  TensorBlocks::Bytes block_bytes() const { return blocks_->bytes(); }

 private:
  /// Blocks until a recorded event is done, 10 minutes at most. Throws.
  void wait_for_event(void* event) const;
  at::Device torch_;
  c10::impl::VirtualGuardImpl guard_;
  std::shared_ptr<TensorBlocks> blocks_ = std::make_shared<TensorBlocks>();
  std::shared_ptr<TensorBlocks> pinned_ = std::make_shared<TensorBlocks>();
};

/// An exception of torch, and of what it was asked for, as an Error: Errc::capacity where memory
/// ran out, else Errc::compute.
Error device_error(const std::string& what, const std::exception& e);

// -- tensors over a device's blocks, for the engines' sources: addresses go in, tensors come out
//    (DEV-3). Errors are exceptions (c10::Error), which the engines turn into Errc::compute.

/// Null is the cpu.
at::Device torch_device_of(const Device* device);

/// Returns a tensor [count] of `type` over the bytes at `address`: in a block of `device`, or, if
/// `device` is null or a cpu, anywhere on the host. It keeps a block's memory, not its booking.
at::Tensor tensor_at(const Device* device, const std::byte* address, int64_t count,
                     at::ScalarType type);

}  // namespace cohort::compute
