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

Expected<void> Device::copy(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  COHORT_ASSIGN(std::unique_ptr<DeviceStream> stream, current_stream());
  COHORT_TRY(stream->copy(to, from, size_bytes));
  return stream->synchronise();
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

std::string describe_devices(DeviceKind kind) {
  const DeviceBackend& backend = backend_of(kind);
  const auto devices = backend.list();
  if (!devices) return fmt::format("{}: {}", to_string(kind), devices.error().detail);
  if (devices->empty())
    return fmt::format("{}: no device; {}", to_string(kind), backend.none_text());
  return fmt::format("{}: {} device{} ({})", to_string(kind), devices->size(),
                     devices->size() == 1 ? "" : "s", devices->front().name);
}

}  // namespace cohort::compute
