#pragma once
/// A device made of host tensors, for machines without an accelerator. What is computed on it is
/// computed by torch's cpu operators; everything else goes the way of a card that is a device
/// (FlatMath, staging, tensor_at). Its addresses are of pages that may not be touched: an engine
/// that follows one, as if the card were the host, ends the test with SIGSEGV. Header only.
#include <sys/mman.h>

#include "runtime/compute/device/torch_device.hpp"

namespace cohort::tests {

class TorchOnHost final : public compute::TorchDevice {
 public:
  static std::shared_ptr<compute::Device> make() {
    return std::shared_ptr<compute::Device>(new TorchOnHost);
  }
  std::string torch_device() const override { return "cpu"; }

  Expected<compute::DeviceMemory> memory() const override {
    compute::DeviceMemory out;
    out.in_use_bytes = block_bytes().in_use;
    out.peak_bytes = block_bytes().peak;
    return out;
  }

  Expected<compute::DeviceBlock> allocate(uint64_t size_bytes) override {
    if (size_bytes == 0) return compute::DeviceBlock();
    auto* address = static_cast<std::byte*>(
        ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const at::Tensor bytes = at::zeros({static_cast<int64_t>(size_bytes)}, at::dtype(at::kByte));
    std::shared_ptr<void> known = block_at(address, bytes).owner();
    auto unmap = [known, size_bytes](std::byte* at) mutable {
      known.reset();  // before the kernel may give the address to another block
      ::munmap(at, size_bytes);
    };
    return compute::DeviceBlock(address, size_bytes,
                                std::shared_ptr<std::byte>(address, std::move(unmap)));
  }

  Expected<void> copy(std::byte* to, const std::byte* from, uint64_t size_bytes) override {
    if (size_bytes > 0) bytes_at(to, size_bytes).copy_(bytes_at(from, size_bytes));
    return {};
  }
  Expected<void> finish() override { return {}; }

 protected:
  at::Tensor pinned_bytes(int64_t size_bytes) const override {
    return at::empty({size_bytes}, at::dtype(at::kByte));
  }

 private:
  // not cpu: engines take the way of an accelerator
  TorchOnHost()
      : TorchDevice({compute::DeviceKind::cuda, 0, "torch on the host", 0}, at::Device(at::kCPU)) {}
};

}  // namespace cohort::tests
