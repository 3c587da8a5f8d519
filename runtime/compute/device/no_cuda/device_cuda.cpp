// Linked instead of cuda/ where libtorch has no CUDA: every call says so. COHORT_CUDA_ABSENT is
// what tools/cmake/find_torch.cmake found missing.
#include <fmt/format.h>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/device/device_backends.hpp"

namespace cohort::compute {
namespace {

/// What was asked for, what this build's torch lacks, how to build with it.
Error no_cuda_error(const std::string& what) {
  return {Errc::unsupported,
          fmt::format("{}: this build has no CUDA: {}; build against a torch that has: "
                      "cmake -DCMAKE_PREFIX_PATH=$(python3 -c "
                      "'import torch;print(torch.utils.cmake_prefix_path)')",
                      what, COHORT_CUDA_ABSENT)};
}

Expected<std::vector<DeviceInfo>> list() { return no_cuda_error("cuda"); }
Expected<std::shared_ptr<Device>> open(const DeviceInfo&) { return no_cuda_error("cuda"); }
std::string none_text() { return "this build has no CUDA"; }

}  // namespace

const DeviceBackend k_cuda_backend = {list, open, none_text};

Expected<std::unique_ptr<Collectives>> join_nccl(const GroupOptions& options) {
  return no_cuda_error(fmt::format("group {}: backend nccl", options.name));
}

}  // namespace cohort::compute
