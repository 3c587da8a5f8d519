#include "runtime/compute/device/torch_device.hpp"

#include <c10/core/StreamGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/compute/device/device_tensors.hpp"

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

class TorchEvent final : public DeviceEvent {
 public:
  explicit TorchEvent(std::shared_ptr<const TorchDevice> device) : device_(std::move(device)) {}
  TorchEvent(const TorchEvent&) = delete;
  TorchEvent& operator=(const TorchEvent&) = delete;
  ~TorchEvent() override {
    if (native != nullptr) device_->guard().destroyEvent(native, device_->torch().index());
  }
  Expected<bool> is_done() const override {
    return guarded_call(
        "event", [this] { return native == nullptr || device_->guard().queryEvent(native); });
  }
  Expected<void> wait() override {
    return guarded_call("event", [this] {
      if (native != nullptr) device_->wait_for_event(native);
    });
  }
  void* native = nullptr;  // made by the backend at the first record

 private:
  std::shared_ptr<const TorchDevice> device_;
};

class TorchStream final : public DeviceStream {
 public:
  TorchStream(std::shared_ptr<const TorchDevice> device, c10::Stream stream)
      : device_(std::move(device)), stream_(stream) {}

  Expected<void> copy(std::byte* to, const std::byte* from, uint64_t size_bytes) override {
    if (size_bytes == 0) return {};
    return guarded_call(fmt::format("{}: copy of {} bytes", device_->torch_device(), size_bytes),
                        [&] {
                          at::NoGradGuard no_grad;
                          const c10::StreamGuard on(stream_);
                          Tensor target = device_->bytes_at(to, size_bytes);
                          const Tensor source = device_->bytes_at(from, size_bytes);
                          target.copy_(source, /*non_blocking=*/true);
                          keep(target);
                          keep(source);
                        });
  }
  Expected<void> fill_zero(std::byte* to, uint64_t size_bytes) override {
    if (size_bytes == 0) return {};
    return guarded_call(fmt::format("{}: zeros", device_->torch_device()), [&] {
      at::NoGradGuard no_grad;
      const c10::StreamGuard on(stream_);
      Tensor target = device_->device_bytes_at(to, size_bytes);
      target.zero_();
      keep(target);
    });
  }
  Expected<void> record(DeviceEvent& event) override {
    return guarded_call("event", [&] {
      device_->guard().record(&dynamic_cast<TorchEvent&>(event).native, stream_,
                              device_->torch().index(), c10::EventFlag::BACKEND_DEFAULT);
    });
  }
  Expected<void> wait_for(const DeviceEvent& event) override {
    return guarded_call("event", [&] {
      void* native = dynamic_cast<const TorchEvent&>(event).native;
      if (native != nullptr) device_->guard().block(native, stream_);
    });
  }
  /// By an event: not every backend's guard can wait for a stream.
  Expected<void> synchronise() override {
    TorchEvent event(device_);
    COHORT_TRY(record(event));
    return event.wait();
  }

 private:
  /// The caching allocator must not give the bytes away while this stream works on them.
  void keep(const Tensor& bytes) const {
    if (bytes.device() == device_->torch())
      device_->guard().recordDataPtrOnStream(bytes.storage().data_ptr(), stream_);
  }
  std::shared_ptr<const TorchDevice> device_;
  c10::Stream stream_;
};

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
  const std::string text = e.what();  // c10 appends a backtrace
  const bool is_full = dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
                       text.find("out of memory") != std::string::npos;
  return {is_full ? Errc::capacity : Errc::compute,
          fmt::format("{}: {}", what, text.substr(0, text.find('\n')))};
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

void TensorBlocks::reset_peak() {
  std::lock_guard lock(mutex_);
  bytes_.peak = bytes_.in_use;
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
  COHORT_ASSIGN(std::unique_ptr<DeviceStream> stream, current_stream());
  COHORT_TRY(stream->synchronise());  // the zeros, before another stream writes there
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

Expected<std::unique_ptr<DeviceStream>> TorchDevice::make_stream() {
  return guarded_call("stream", [&] {
    auto self = std::static_pointer_cast<const TorchDevice>(shared_from_this());
    return std::unique_ptr<DeviceStream>(
        std::make_unique<TorchStream>(self, guard_.getStreamFromGlobalPool(torch_)));
  });
}

Expected<std::unique_ptr<DeviceStream>> TorchDevice::current_stream() {
  return guarded_call("stream", [&] {
    auto self = std::static_pointer_cast<const TorchDevice>(shared_from_this());
    return std::unique_ptr<DeviceStream>(
        std::make_unique<TorchStream>(self, guard_.getStream(torch_)));
  });
}

Expected<std::unique_ptr<DeviceEvent>> TorchDevice::make_event() {
  auto self = std::static_pointer_cast<const TorchDevice>(shared_from_this());
  return std::unique_ptr<DeviceEvent>(std::make_unique<TorchEvent>(self));
}

Expected<double> TorchDevice::elapsed_seconds(const DeviceEvent& begin, const DeviceEvent& end) {
  void* from = dynamic_cast<const TorchEvent&>(begin).native;
  void* to = dynamic_cast<const TorchEvent&>(end).native;
  if (from == nullptr || to == nullptr)
    return Error{Errc::invalid_argument,
                 fmt::format("{}: time between events that were not recorded", torch_device())};
  return seconds_between(from, to);
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
