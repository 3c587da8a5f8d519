// The npu backend: torch_npu's registrations behind torch's device-independent interface, and
// CANN's C calls for what that does not tell. Never run on a card: docs/npu.md.
#include "runtime/compute/device/torch_device.hpp"
// torch first: ivalue.h before any other header of c10
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <cstdlib>

#include "runtime/compute/device/device_backends.hpp"
#include "runtime/compute/device/npu/npu_library.hpp"

namespace cohort::compute {
namespace {

constexpr int k_hbm_memory = 1;  // ACL_HBM_MEM

class NpuDevice final : public TorchDevice {
 public:
  NpuDevice(const DeviceInfo& info, NpuCalls calls)
      : TorchDevice(info, at::Device(c10::DeviceType::PrivateUse1,
                                     static_cast<c10::DeviceIndex>(info.index))),
        calls_(calls) {}

  /// torch_npu's allocator has no interface without its headers: in use and peak are of blocks.
  Expected<DeviceMemory> memory() const override {
    DeviceMemory out;
    out.has_allocator = false;
    out.in_use_bytes = out.reserved_bytes = block_bytes().in_use;
    out.peak_bytes = block_bytes().peak;
    out.total_bytes = info().total_bytes;
    if (calls_.get_mem_info == nullptr) return out;
    size_t free_bytes = 0, total_bytes = 0;
    try {
      const c10::DeviceGuard on(torch());
      const int code = calls_.get_mem_info(k_hbm_memory, &free_bytes, &total_bytes);
      if (code != 0)
        return Error{Errc::compute, fmt::format("{}: aclrtGetMemInfo(ACL_HBM_MEM): error {}",
                                                torch_device(), code)};
    } catch (const std::exception& e) {
      return device_error(torch_device() + ": memory", e);
    }
    out.total_bytes = total_bytes;
    out.free_bytes = free_bytes;
    return out;
  }

 protected:
  at::Tensor pinned_bytes(int64_t size_bytes) const override {
    return at::empty({size_bytes}, at::dtype(at::kByte)).pin_memory(torch());
  }

 private:
  NpuCalls calls_;
};

Expected<NpuLibrary> registered_library() {
  COHORT_ASSIGN(NpuLibrary library, load_torch_npu());
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1))
    return Error{Errc::unsupported,
                 fmt::format("npu: {} was loaded, but registers no device (PrivateUse1) with "
                             "torch: it is not torch_npu",
                             library.path)};
  return library;
}

Expected<std::vector<DeviceInfo>> list() {
  COHORT_ASSIGN(const NpuLibrary library, registered_library());
  const int count = c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1).deviceCount();
  const char* soc = library.calls.get_soc_name == nullptr ? nullptr : library.calls.get_soc_name();
  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index)
    devices.push_back({DeviceKind::npu, index, soc == nullptr ? "npu" : soc, 0});
  return devices;
}

Expected<std::shared_ptr<Device>> open(const DeviceInfo& info) {
  COHORT_ASSIGN(const NpuLibrary library, registered_library());
  try {
    if (library.calls.init_npu != nullptr)
      library.calls.init_npu(static_cast<signed char>(info.index));
    auto device = std::make_shared<NpuDevice>(info, library.calls);
    // starts the device where init_npu is not exported, and shows that tensors can be made
    static_cast<void>(at::empty({1}, at::dtype(at::kByte).device(device->torch())));
    return std::shared_ptr<Device>(std::move(device));
  } catch (const std::exception& e) {
    return device_error(fmt::format("npu:{}", info.index), e);
  }
}

std::string none_text() {
  const char* visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  return fmt::format(
      "torch_npu is loaded, but CANN shows no device: ASCEND_RT_VISIBLE_DEVICES is "
      "{}; look at npu-smi info, /dev/davinci* (in a container: docker run "
      "--device /dev/davinci<k> --device /dev/davinci_manager …) and the driver's "
      "version",
      visible == nullptr ? "not set" : fmt::format("'{}'", visible));
}

}  // namespace

const DeviceBackend k_npu_backend = {list, open, none_text};

}  // namespace cohort::compute
