#pragma once
/// The devices that the cards of a run are, on the platforms cuda and npu
/// (compute/device/device.hpp). Pure but for opening them; called before anything is started.
#include <map>
#include <memory>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/compute/device/device.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::actors {

/// Of these cards: the first is the first device that this process sees, and so on; empty on the
/// cpu platform, where the host plays them. Returns Errc::config naming the key, what the backend
/// lacks and what to do.
Expected<std::map<CardId, std::shared_ptr<compute::Device>>> open_card_devices(
    const config::RunConfig& config, const std::vector<CardId>& cards);

}  // namespace cohort::actors
