#pragma once
/// Where the weights of an engine lie, as runtime/publish asks for them: families of the reshard
/// plan's model (plan::reshard_tensors_of), which ParameterSpec::family counts, against the tensors
/// of a ParameterLayout. Pure functions over addresses; what they return refers to the engine's
/// buffers, which outlive it.
#include <cstddef>
#include <span>

#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/publish/weights.hpp"

namespace cohort::actors {

/// The parts that a train rank holds now: good until its engine moves, steps or loads. It, and what
/// target_of returns, aborts for a part that the layout does not have.
publish::Source source_of(const compute::TrainEngine& engine);
/// The parts of a flat buffer of `layout` (whole, or a rank's: compute::tp_config).
publish::Target target_of(compute::ParameterLayout layout, size_t element_bytes,
                          std::span<std::byte> flat);

}  // namespace cohort::actors
