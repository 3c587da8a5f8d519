#include <fmt/format.h>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/device/no_cuda/no_cuda.hpp"

namespace cohort::compute {

Expected<std::unique_ptr<Collectives>> join_nccl(const GroupOptions& options) {
  return no_cuda_error(fmt::format("group {}: backend nccl", options.name));
}

}  // namespace cohort::compute
