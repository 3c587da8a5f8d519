#pragma once
/// What a kind of device has to offer to device.hpp: one constant table per backend, each in its
/// own folder (cpu/, cuda/ or no_cuda/, npu/), chosen when the library is linked. Private to the
/// folder. Constants; the functions are thread-safe.
#include <string>
#include <vector>

#include "runtime/compute/device/device.hpp"

namespace cohort::compute {

struct DeviceBackend {
  /// Errc::unsupported: the backend is not there, and why. Empty: it is, without a device.
  Expected<std::vector<DeviceInfo>> (*list)();
  /// `info` is one that list() returned.
  Expected<std::shared_ptr<Device>> (*open)(const DeviceInfo& info);
  /// What to look at when list() is empty.
  std::string (*none_text)();
};

extern const DeviceBackend k_cpu_backend, k_cuda_backend, k_npu_backend;

}  // namespace cohort::compute
