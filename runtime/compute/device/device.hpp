#pragma once
/// Where tensors live and work is done: the seam between the engines and the accelerators. Three
/// backends: cpu (always there), cuda (built when libtorch has CUDA, else a library of the same
/// names that says what to install), npu (loads torch_npu when it is first asked for; docs/npu.md).
/// Callers name a kind and get a Device; nobody asks what was built. Torch-free
/// header; engines that hold tensors use torch_device.hpp beside it.
///
/// Owner: its opener holds a shared_ptr; blocks keep their device alive. Thread-safe.
///   DEV-1 device memory comes from torch's caching allocator, so that blocks of this header and
///         torch's own tensors are one account (memory()).
///   DEV-2 copy() comes after the work that its thread has given torch, and is done on return.
///   DEV-3 an address inside a live block is known to its device (holds()): engines keep addresses,
///         the device finds the block again.
/// Errors: Errc::unsupported (not built, not
/// installed, no such device: what to do is in the text), Errc::capacity (the device has no memory
/// left), Errc::compute (the backend's own words).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {

enum class DeviceKind : uint8_t { cpu = 0, cuda = 1, npu = 2 };
std::string_view to_string(DeviceKind kind);

struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;             // among those this process may see
  std::string name;          // e.g. "NVIDIA H200", "Ascend910B3", the processor's name
  uint64_t total_bytes = 0;  // 0: the backend cannot tell without starting the device
};

/// Of one device: everybody's use (total, free), and what this process's allocator has handed out.
struct DeviceMemory {
  uint64_t total_bytes = 0, free_bytes = 0;
  uint64_t in_use_bytes = 0;    // by blocks and tensors
  uint64_t peak_bytes = 0;      // most in use at once so far
  uint64_t reserved_bytes = 0;  // taken from the device, in use or kept for reuse
  bool has_allocator = true;    // false: the backend does not tell in use, peak and reserved
};

class Device;

/// Bytes of a device, or pinned bytes of the host. Move-only; freed with its last owner.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(std::byte* data, uint64_t size_bytes, std::shared_ptr<void> owner)
      : data_(data), size_bytes_(size_bytes), owner_(std::move(owner)) {}
  DeviceBlock(DeviceBlock&&) = default;
  DeviceBlock& operator=(DeviceBlock&&) = default;
  /// On an accelerator an address that the host must not follow.
  std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  bool empty() const { return owner_ == nullptr; }
  /// Returns an owner to be held by whatever refers to data().
  std::shared_ptr<void> owner() const { return owner_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_bytes_ = 0;
  std::shared_ptr<void> owner_;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  const DeviceInfo& info() const { return info_; }
  bool is_cpu() const { return info_.kind == DeviceKind::cpu; }
  /// What torch calls it: "cpu", "cuda:1", "npu:0". The string that engines' options take.
  virtual std::string torch_device() const = 0;
  /// The c10d backend that joins devices of this kind.
  CollectiveBackend collectives() const;

  virtual Expected<DeviceMemory> memory() const = 0;
  /// Returns zero-filled bytes, aligned to 64, ready on every stream. Errc::capacity names device,
  /// bytes asked, bytes in use and free.
  virtual Expected<DeviceBlock> allocate(uint64_t size_bytes) = 0;
  /// Returns host bytes that the device copies from and to on its own (on cpu: plain memory).
  virtual Expected<DeviceBlock> allocate_pinned(uint64_t size_bytes) = 0;
  /// DEV-3. On cpu: of blocks of this object; all host memory can be used there.
  virtual bool holds(const std::byte* address) const = 0;

  /// Copies between two addresses, each in a block of this device or on the host, without overlap
  /// (DEV-2).
  virtual Expected<void> copy(std::byte* to, const std::byte* from, uint64_t size_bytes) = 0;
  /// Blocks this thread until the work that it has given torch is done (DEV-2).
  virtual Expected<void> finish() = 0;

 protected:
  explicit Device(DeviceInfo info) : info_(std::move(info)) {}
  DeviceInfo info_;
};

/// Returns the devices this process may see (CUDA_VISIBLE_DEVICES, ASCEND_RT_VISIBLE_DEVICES
/// hide the others), one on cpu. Empty: the backend is there, a device is not. Errc::unsupported:
/// the backend is not there.
Expected<std::vector<DeviceInfo>> list_devices(DeviceKind kind);
/// Errc::unsupported also if there is no such device.
Expected<std::shared_ptr<Device>> open_device(DeviceKind kind, int index);

}  // namespace cohort::compute
