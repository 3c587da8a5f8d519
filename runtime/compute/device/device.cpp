#include "runtime/compute/device/device.hpp"

#include <fmt/format.h>

#include "runtime/base/text.hpp"
#include "runtime/compute/device/device_backends.hpp"

namespace cohort::compute {
namespace {

const DeviceBackend& backend_of(DeviceKind kind) {
  constexpr const DeviceBackend* k_backends[] = {&k_cpu_backend, &k_cuda_backend, &k_npu_backend};
  return *k_backends[static_cast<size_t>(kind)];
}

}  // namespace

std::string_view to_string(DeviceKind kind) {
  constexpr std::string_view k_names[] = {"cpu", "cuda", "npu"};
  return name_in(k_names, kind);
}

CollectiveBackend Device::collectives() const {
  constexpr CollectiveBackend k_backends[] = {CollectiveBackend::gloo, CollectiveBackend::nccl,
                                              CollectiveBackend::hccl};
  return k_backends[static_cast<size_t>(info_.kind)];
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
