#include "runtime/compute/device/device.hpp"

#include <fmt/format.h>

#include "runtime/compute/device/device_backends.hpp"

namespace cohort::compute {
namespace {

const DeviceBackend& backend_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda:
      return cuda_backend();
    case DeviceKind::npu:
      return npu_backend();
    case DeviceKind::cpu:
      break;
  }
  return cpu_backend();
}

}  // namespace

std::string_view to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::npu:
      return "npu";
  }
  return "unknown";
}

CollectiveBackend Device::collectives() const {
  switch (info_.kind) {
    case DeviceKind::cuda:
      return CollectiveBackend::nccl;
    case DeviceKind::npu:
      return CollectiveBackend::hccl;
    case DeviceKind::cpu:
      break;
  }
  return CollectiveBackend::gloo;
}

Expected<std::vector<DeviceInfo>> list_devices(DeviceKind kind) { return backend_of(kind).list(); }

Expected<std::shared_ptr<Device>> open_device(DeviceKind kind, int index) {
  const DeviceBackend& backend = backend_of(kind);
  COHORT_ASSIGN(const std::vector<DeviceInfo> devices, backend.list());
  if (index < 0 || static_cast<size_t>(index) >= devices.size())
    return Error{Errc::unsupported,
                 fmt::format("{}:{}: there is no such device; {}", to_string(kind), index,
                             devices.empty() ? backend.none_text()
                                             : fmt::format("this process may see {}:0 to {}:{}",
                                                           to_string(kind), to_string(kind),
                                                           devices.size() - 1))};
  return backend.open(devices[static_cast<size_t>(index)]);
}

}  // namespace cohort::compute
