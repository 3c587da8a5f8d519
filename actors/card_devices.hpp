#pragma once
/// The devices that the cards of a run are, on the platforms cuda and npu (compute/device.hpp).
/// Pure but for opening them; called before anything is started.
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/compute/device.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::actors {

/// Of a node's cards 0..count-1, by local index; empty on the cpu platform, where the host plays
/// them. Returns Errc::config naming the key, what the backend lacks and what to do.
Expected<std::vector<std::shared_ptr<compute::Device>>> open_card_devices(
    const config::RunConfig& config, size_t count);

}  // namespace cohort::actors
