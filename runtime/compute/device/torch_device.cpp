#include "runtime/compute/device/torch_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/base/text.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

/// Runs `f`; what torch throws becomes an Error.
template <class F>
auto guarded_call(const std::string& what, F f) -> Expected<decltype(f())> {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return {};
    } else {
      return f();
    }
  } catch (const std::exception& e) {
    return device_error(what, e);
  }
}

std::byte* address_of(const Tensor& bytes) { return static_cast<std::byte*>(bytes.data_ptr()); }

/// A block over `bytes`, known to `blocks` as long as somebody owns it.
DeviceBlock block_over(std::byte* address, const Tensor& bytes,
                       const std::shared_ptr<TensorBlocks>& blocks,
                       std::shared_ptr<const Device> device) {
  blocks->add(address, bytes);
  auto forget = [blocks, device = std::move(device)](std::byte* at) { blocks->remove(at); };
  return DeviceBlock(address, static_cast<uint64_t>(bytes.numel()),
                     std::shared_ptr<std::byte>(address, forget));
}

}  // namespace

Error device_error(const std::string& what, const std::exception& e) {
  const std::string text = e.what();
  const bool is_full = dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
                       text.find("out of memory") != std::string::npos;
  return {is_full ? Errc::capacity : Errc::compute, fmt::format("{}: {}", what, first_line(text))};
}

void TensorBlocks::add(const std::byte* address, Tensor bytes) {
  std::lock_guard lock(mutex_);
  bytes_.in_use += static_cast<uint64_t>(bytes.numel());
  bytes_.peak = std::max(bytes_.peak, bytes_.in_use);
  tensors_[address] = std::move(bytes);
}

void TensorBlocks::remove(const std::byte* address) {
  std::lock_guard lock(mutex_);
  auto at = tensors_.find(address);
  bytes_.in_use -= static_cast<uint64_t>(at->second.numel());
  tensors_.erase(at);
}

TensorBlocks::Bytes TensorBlocks::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

Tensor TensorBlocks::find(const std::byte* address, uint64_t size_bytes) const {
  std::lock_guard lock(mutex_);
  auto at = tensors_.upper_bound(address);
  if (at == tensors_.begin()) return {};
  --at;
  const auto offset = static_cast<int64_t>(address - at->first);
  const auto size = static_cast<int64_t>(size_bytes);
  if (offset + size > at->second.numel()) return {};
  return at->second.narrow(0, offset, size);
}

bool TensorBlocks::has(const std::byte* address) const { return find(address, 1).defined(); }

std::string TorchDevice::torch_device() const {
  return fmt::format("{}:{}", to_string(info().kind), info().index);
}

void TorchDevice::wait_for_event(void* event) const {
  constexpr std::chrono::microseconds k_poll(20);
  constexpr std::chrono::minutes k_limit(10);  // no work of ours takes a device so long
  const auto end = std::chrono::steady_clock::now() + k_limit;
  while (!guard_.queryEvent(event)) {
    TORCH_CHECK(std::chrono::steady_clock::now() < end, torch_device(),
                ": its work has not ended within 10 minutes; look at the device");
    std::this_thread::sleep_for(k_poll);
  }
}

Expected<DeviceBlock> TorchDevice::allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return DeviceBlock();
  auto block = guarded_call(fmt::format("{}: {} bytes", torch_device(), size_bytes), [&] {
    at::NoGradGuard no_grad;
    const Tensor bytes =
        at::zeros({static_cast<int64_t>(size_bytes)}, at::dtype(at::kByte).device(torch_));
    return block_at(address_of(bytes), bytes);
  });
  if (!block) {
    if (block.error().code != Errc::capacity) return block.error();
    const auto now = memory();
    return Error{Errc::capacity,
                 now ? fmt::format("{} ({} bytes in use by this process, {} of {} free)",
                                   block.error().detail, now->in_use_bytes, now->free_bytes,
                                   now->total_bytes)
                     : block.error().detail};
  }
  COHORT_TRY(finish());  // the zeros, before another stream writes there
  return block;
}

Expected<DeviceBlock> TorchDevice::allocate_pinned(uint64_t size_bytes) {
  if (size_bytes == 0) return DeviceBlock();
  return guarded_call(fmt::format("{}: {} pinned bytes", torch_device(), size_bytes), [&] {
    at::NoGradGuard no_grad;
    Tensor bytes = pinned_bytes(static_cast<int64_t>(size_bytes));
    bytes.zero_();
    return block_over(address_of(bytes), bytes, pinned_, shared_from_this());
  });
}

DeviceBlock TorchDevice::block_at(std::byte* address, const Tensor& bytes) {
  return block_over(address, bytes, blocks_, shared_from_this());
}

Tensor TorchDevice::bytes_at(const std::byte* address, uint64_t size_bytes) const {
  Tensor found = blocks_->find(address, size_bytes);
  if (!found.defined()) found = pinned_->find(address, size_bytes);
  if (found.defined()) return found;
  return at::from_blob(const_cast<std::byte*>(address), {static_cast<int64_t>(size_bytes)},
                       at::dtype(at::kByte));
}

Tensor TorchDevice::device_bytes_at(const std::byte* address, uint64_t size_bytes) const {
  Tensor found = blocks_->find(address, size_bytes);
  TORCH_CHECK(found.defined(), torch_device(), ": ", size_bytes,
              " bytes at an address that no block of the device has (DEV-3)");
  return found;
}

Expected<void> TorchDevice::copy(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  COHORT_TRY(guarded_call(fmt::format("{}: copy of {} bytes", torch_device(), size_bytes), [&] {
    at::NoGradGuard no_grad;
    bytes_at(to, size_bytes).copy_(bytes_at(from, size_bytes), /*non_blocking=*/true);
  }));
  return finish();
}

/// By an event: not every backend's guard can wait for a stream.
Expected<void> TorchDevice::finish() {
  return guarded_call(fmt::format("{}: event", torch_device()), [&] {
    void* native = nullptr;  // made by the backend
    guard_.record(&native, guard_.getStream(torch_), torch_.index(),
                  c10::EventFlag::BACKEND_DEFAULT);
    const std::shared_ptr<void> event(native,
                                      [this](void* x) { guard_.destroyEvent(x, torch_.index()); });
    wait_for_event(native);
  });
}

at::Device torch_device_of(const Device* device) {
  const auto* torch = dynamic_cast<const TorchDevice*>(device);
  return torch == nullptr ? at::Device(at::kCPU) : torch->torch();
}

Tensor tensor_at(const Device* device, const std::byte* address, int64_t count,
                 at::ScalarType type) {
  const auto* torch = dynamic_cast<const TorchDevice*>(device);
  if (torch == nullptr)
    return at::from_blob(const_cast<std::byte*>(address), {count}, at::dtype(type));
  const uint64_t size_bytes = static_cast<uint64_t>(count) * c10::elementSize(type);
  return torch->device_bytes_at(address, size_bytes).view(type);
}

}  // namespace cohort::compute
