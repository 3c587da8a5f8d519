// Linked instead of collectives_c10d.cpp where Gloo's headers are missing.
#include <fmt/format.h>

#include "runtime/compute/collectives/collectives_backends.hpp"

namespace cohort::compute {

Expected<std::unique_ptr<Collectives>> join_gloo(const GroupOptions& options) {
  return Error{Errc::unsupported,
               fmt::format("group {}: backend gloo: this build found no Gloo headers "
                           "(gloo/algorithm.h); install libgloo-dev and build again",
                           options.name)};
}

}  // namespace cohort::compute
