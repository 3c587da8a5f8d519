#include <fmt/format.h>

#include "runtime/compute/collectives_backends.hpp"
#include "runtime/compute/no_cuda/no_cuda.hpp"

namespace cohort::compute {

Expected<std::unique_ptr<Collectives>> join_nccl(const GroupOptions& options) {
  return no_cuda_error(fmt::format("group {}: backend nccl", options.name));
}

}  // namespace cohort::compute
