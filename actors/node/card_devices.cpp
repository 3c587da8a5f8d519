#include "actors/node/card_devices.hpp"

#include <fmt/format.h>

namespace cohort::actors {

Expected<std::map<CardId, std::shared_ptr<compute::Device>>> open_card_devices(
    const config::RunConfig& config, const std::vector<CardId>& cards) {
  std::map<CardId, std::shared_ptr<compute::Device>> devices;
  if (config.platform == config::Platform::cpu) return devices;
  const auto kind = config.platform == config::Platform::cuda ? compute::DeviceKind::cuda
                                                              : compute::DeviceKind::npu;
  const auto origin = config.origins.find("platform");
  for (size_t index = 0; index < cards.size(); ++index) {
    auto device = compute::open_device(kind, static_cast<int>(index));
    if (!device)
      return Error{Errc::config,
                   fmt::format("{}platform: {}; platform=cpu runs on this host",
                               origin == config.origins.end() ? "" : origin->second + ": ",
                               device.error().detail)};
    devices[cards[index]] = std::move(*device);
  }
  return devices;
}

}  // namespace cohort::actors
