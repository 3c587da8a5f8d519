#pragma once
/// How near a second training comes to a recorded one where bits are not promised. What a tensor is
/// off is measured against the way that training has moved it since a common start:
///   ‖computed − recorded‖₂ / ‖recorded − start‖₂   (0 / 0 is 0)
/// so that one number holds for every learning rate and every tensor. Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::traj {

struct NamedValues {
  std::string name;
  std::vector<float> values;
};

struct TensorDistance {
  std::string tensor;
  double share = 0;  // of the way; infinite if the recorded tensor has not moved, or not finite
};

struct Closeness {
  TensorDistance farthest;              // its tensor is empty if there is none
  std::optional<TensorDistance> first;  // the first in order that is beyond the tolerance
  uint64_t beyond = 0, of = 0;          // tensors
};

/// The three name the same tensors in the same order, else Errc::invalid_argument.
Expected<Closeness> closeness(std::span<const NamedValues> start,
                              std::span<const NamedValues> recorded,
                              std::span<const NamedValues> computed, double tolerance);

}  // namespace cohort::traj
