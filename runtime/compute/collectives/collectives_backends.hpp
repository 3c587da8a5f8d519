#pragma once
/// The makers behind Collectives::join, one per backend, each in its own source or, where it is not
/// built in, in a stub that says so. Private to the folder. Options are checked by the caller.
#include <memory>

#include "runtime/compute/collectives/collectives.hpp"

namespace cohort::compute {

Expected<std::unique_ptr<Collectives>> join_gloo(const GroupOptions& options);
Expected<std::unique_ptr<Collectives>> join_nccl(const GroupOptions& options);
Expected<std::unique_ptr<Collectives>> join_hccl(const GroupOptions& options);
Expected<std::unique_ptr<Collectives>> join_in_memory(const GroupOptions& options);

/// Lets callers mix host and device bytes in one group whose engine takes one of them only: what
/// is on the wrong side is copied to a block on the right one and back. `inner` sees host bytes
/// only, or, if `takes_device`, bytes of `device` only.
std::unique_ptr<Collectives> stage_collectives(std::unique_ptr<Collectives> inner,
                                               std::shared_ptr<Device> device, bool takes_device);

}  // namespace cohort::compute
