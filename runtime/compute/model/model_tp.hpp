#pragma once
/// Tensor parallelism over a policy: the part of every tensor that one rank of a group holds. A
/// rank's part is a policy of the same family and depth with fewer heads, a narrower MLP and a
/// shorter vocabulary; its flat buffer, its memory and its checks are those of model_layout.hpp.
/// The cut is that of the reshard planner (plan::reshard_tensors_of). Pure functions, torch-free.
///
/// TP-1: q, k, v, gate, up, embedding and head are cut by rows, o and down by columns, in equal
/// parts in rank order; norms are whole on every rank. With fewer key-value heads than ranks each
/// of them is on size / heads neighbouring ranks. Every element is on at least one rank.
#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

struct TpRank {
  int rank = 0;
  int size = 1;
  bool operator==(const TpRank&) const = default;
};

/// Returns the config of one rank's part (the same for every rank); `whole` itself for size 1.
/// Returns Errc::invalid_argument naming the field that `size` does not divide.
Expected<ModelConfig> tp_config(const ModelConfig& whole, int size);

}  // namespace cohort::compute
