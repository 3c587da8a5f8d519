#pragma once
/// The inside of TrainEngine, shared by its three source files (objects, step, checkpoint). Private
/// to the folder.
#include <vector>

#include "runtime/compute/ops.hpp"
#include "runtime/compute/optimizer.hpp"
#include "runtime/compute/policy_graph.hpp"
#include "runtime/compute/resident_object.hpp"
#include "runtime/compute/train_engine.hpp"

namespace cohort::compute {

struct TrainEngine::State {
  TrainEngineOptions options;
  ParameterLayout layout;
  std::vector<DecayRange> ranges;
  ops::RopeTable rope;
  ResidentObject master;   // flat f32 parameters: train_params
  ResidentObject compute;  // bf16 copy of them, on the card with them; unused in f32
  ResidentObject grads;    // flat f32
  ResidentObject moments;  // flat f32 m, then flat f32 v
  uint64_t steps = 0;

  bool is_bf16() const { return options.model.dtype == tensor::Dtype::bf16; }
  size_t elements() const { return static_cast<size_t>(layout.total_elements); }
  std::span<float> master_span() const;
  std::span<float> grads_span() const;
  std::span<float> m_span() const;
  std::span<float> v_span() const;
  /// Returns the flat parameter tensor that forward and backward read. Needs train_params on the
  /// card.
  at::Tensor compute_flat() const;
  /// Rounds the master parameters into the bf16 copy, if there is one on the card.
  void refresh_compute();
  /// Returns Errc::placement naming the first of `objects` that is not on the card (PLACE-4).
  Expected<void> require_on_card(std::initializer_list<TrainObject> objects,
                                 std::string_view what) const;
  ResidentObject& object(TrainObject which);
  const ResidentObject& object(TrainObject which) const;
};

}  // namespace cohort::compute
