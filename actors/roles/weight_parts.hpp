#pragma once
/// Where the weights of an engine lie, as runtime/publish asks for them: families of the reshard
/// plan's model (plan::reshard_tensors_of) against the tensors of a ParameterLayout. Pure functions
/// over addresses; what they return refers to the engine's buffers and to `model`, which outlive
/// it.
#include <cstddef>
#include <span>

#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/plan/reshard/reshard_layout.hpp"
#include "runtime/publish/weights.hpp"

namespace cohort::actors {

/// The tensors of a layout that one family is in one layer: gate and up are one family.
struct FamilyTensors {
  size_t first = 0, count = 1;  // of ParameterLayout::specs
};
/// REQUIRES: the layout is of that model, whole or one rank's part. Aborts for a part outside it.
FamilyTensors tensors_of(const plan::ModelTensors& model, const compute::ParameterLayout& layout,
                         const publish::PartName& part);

/// The parts that a train rank holds now: good until its engine moves, steps or loads.
publish::Source source_of(const plan::ModelTensors& model, const compute::TrainEngine& engine);
/// The parts of a flat buffer of `layout` (whole, or a rank's: compute::tp_config).
publish::Target target_of(const plan::ModelTensors& model, compute::ParameterLayout layout,
                          size_t element_bytes, std::span<std::byte> flat);

}  // namespace cohort::actors
