// The cuda backend: what torch's device-independent interface does not tell, from CUDA itself and
// torch's caching allocator.
#include "runtime/compute/device/torch_device.hpp"
// torch first: ivalue.h before any other header of c10
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "runtime/compute/device/device_backends.hpp"

namespace cohort::compute {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

Error cuda_error(const std::string& what, cudaError_t code) {
  static_cast<void>(cudaGetLastError());  // else the next call reports it again
  return {code == cudaErrorMemoryAllocation ? Errc::capacity : Errc::compute,
          fmt::format("{}: {}", what, cudaGetErrorString(code))};
}

class CudaDevice final : public TorchDevice {
 public:
  explicit CudaDevice(const DeviceInfo& info)
      : TorchDevice(info, at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(info.index))) {}

  Expected<DeviceMemory> memory() const override {
    try {
      const c10::DeviceGuard on(torch());
      size_t free_bytes = 0, total_bytes = 0;
      if (const cudaError_t code = cudaMemGetInfo(&free_bytes, &total_bytes); code != cudaSuccess)
        return cuda_error(torch_device() + ": memory", code);
      const auto stats = allocator::getDeviceStats(torch().index());
      constexpr size_t k_all = 0;  // of small and large pools together
      DeviceMemory out;
      out.total_bytes = total_bytes;
      out.free_bytes = free_bytes;
      out.in_use_bytes = static_cast<uint64_t>(stats.allocated_bytes[k_all].current);
      out.peak_bytes = static_cast<uint64_t>(stats.allocated_bytes[k_all].peak);
      out.reserved_bytes = static_cast<uint64_t>(stats.reserved_bytes[k_all].current);
      return out;
    } catch (const std::exception& e) {
      return device_error(torch_device() + ": memory", e);
    }
  }

 protected:
  at::Tensor pinned_bytes(int64_t size_bytes) const override {
    return at::empty({size_bytes}, at::dtype(at::kByte).pinned_memory(true));
  }
};

Expected<std::vector<DeviceInfo>> list() {
  std::vector<DeviceInfo> devices;
  int count = 0;
  // asked here and not through torch, which only warns: no driver is an answer, a broken one is not
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaGetLastError());
    return devices;
  }
  if (code != cudaSuccess) return cuda_error("cuda: devices", code);
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties = {};
    if (const cudaError_t told = cudaGetDeviceProperties(&properties, index); told != cudaSuccess)
      return cuda_error(fmt::format("cuda:{}", index), told);
    devices.push_back({DeviceKind::cuda, index, properties.name, properties.totalGlobalMem});
  }
  return devices;
}

Expected<std::shared_ptr<Device>> open(const DeviceInfo& info) {
  try {
    auto device = std::make_shared<CudaDevice>(info);
    // starts the device and torch's allocator on it
    static_cast<void>(at::empty({1}, at::dtype(at::kByte).device(device->torch())));
    return std::shared_ptr<Device>(std::move(device));
  } catch (const std::exception& e) {
    return device_error(fmt::format("cuda:{}", info.index), e);
  }
}

std::string none_text() {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  static_cast<void>(cudaGetLastError());
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return fmt::format("CUDA_VISIBLE_DEVICES is {}; driver: {}; this build needs one for CUDA {}.{}",
                     visible == nullptr ? "not set" : fmt::format("'{}'", visible),
                     driver == 0 ? "none (is nvidia-smi there?)"
                                 : fmt::format("for CUDA {}.{}", driver / 1000, driver % 1000 / 10),
                     runtime / 1000, runtime % 1000 / 10);
}

}  // namespace

const DeviceBackend k_cuda_backend = {list, open, none_text};

}  // namespace cohort::compute
