#include "runtime/compute/collectives/collectives.hpp"

#include <fmt/format.h>

#include "runtime/compute/collectives/collectives_backends.hpp"
#include "runtime/compute/device/device.hpp"

namespace cohort::compute {
namespace {

Expected<void> check(const GroupOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size ||
      options.timeout_ms < 1 || options.name.empty() || options.rendezvous == nullptr ||
      (!options.labels.empty() && options.labels.size() != static_cast<size_t>(options.size)))
    return Error{Errc::invalid_argument,
                 fmt::format("group '{}': rank {} of {}, {} labels, timeout {} ms: needs a name, a "
                             "rendezvous, a rank below the size, no label or one per rank, and a "
                             "timeout",
                             options.name, options.rank, options.size, options.labels.size(),
                             options.timeout_ms)};
  const bool is_on_device =
      options.backend == CollectiveBackend::nccl || options.backend == CollectiveBackend::hccl;
  if (is_on_device && options.device == nullptr)
    return Error{Errc::invalid_argument,
                 fmt::format("group {}: {} joins devices: give the rank's device, or choose gloo",
                             options.name, to_string(options.backend))};
  if (options.backend == CollectiveBackend::links && !options.open)
    return Error{Errc::invalid_argument,
                 fmt::format("group {}: links need GroupOptions::open", options.name)};
  return {};
}

Expected<std::unique_ptr<Collectives>> join_engine(const GroupOptions& options) {
  switch (options.backend) {
    case CollectiveBackend::memory:
      return join_in_memory(options);
    case CollectiveBackend::nccl:
      return join_nccl(options);
    case CollectiveBackend::hccl:
      return join_hccl(options);
    case CollectiveBackend::links:
      return options.open(options);
    case CollectiveBackend::gloo:
      break;
  }
  return join_gloo(options);
}

}  // namespace

std::string_view to_string(CollectiveBackend backend) {
  switch (backend) {
    case CollectiveBackend::gloo:
      return "gloo";
    case CollectiveBackend::nccl:
      return "nccl";
    case CollectiveBackend::hccl:
      return "hccl";
    case CollectiveBackend::memory:
      return "memory";
    case CollectiveBackend::links:
      return "links";
  }
  return "unknown";
}

Expected<std::unique_ptr<Collectives>> Collectives::join(const GroupOptions& options) {
  COHORT_TRY(check(options));
  COHORT_ASSIGN(std::unique_ptr<Collectives> group, join_engine(options));
  if (options.device == nullptr) return group;
  const bool takes_device =
      options.backend == CollectiveBackend::nccl || options.backend == CollectiveBackend::hccl;
  return stage_collectives(std::move(group), options.device, takes_device);
}

}  // namespace cohort::compute
