#pragma once
/// Tensor parallelism over a policy: the part of every tensor that one rank of a group holds. A
/// rank's part is a policy of the same family and depth with fewer heads, a narrower MLP and a
/// shorter vocabulary; its flat buffer, its memory and its checks are those of model_layout.hpp.
/// The cut is that of the reshard planner (plan::reshard_tensors_of). Pure functions, torch-free.
///
/// TP-1: q, k, v, gate, up, embedding and head are cut by rows, o and down by columns, in equal
/// parts in rank order; norms are whole on every rank. With fewer key-value heads than ranks each
/// of them is on size / heads neighbouring ranks. Every element is on at least one rank.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// One tensor's part as a box of the whole model's flat buffer; it lies tight in the rank's.
struct TpSlice {
  int64_t source = 0;         // [elements] first element in the whole buffer
  int64_t source_stride = 0;  // [elements] from row to row there
  int64_t target = 0;         // [elements] first element in the rank's buffer
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Returns the parts in the order of layout_of(config).specs. REQUIRES: tp_config(whole, at.size)
/// succeeds and 0 <= at.rank < at.size.
std::vector<TpSlice> tp_slices(const ModelConfig& whole, const TpRank& at);

/// Copies the rank's part out of a whole flat buffer; what lies between tensors becomes zero
/// (LAYOUT-3). REQUIRES: both spans have the sizes of their layouts in `element_bytes`.
void cut_flat(const ModelConfig& whole, const TpRank& at, size_t element_bytes,
              std::span<const std::byte> flat, std::span<std::byte> part);

}  // namespace cohort::compute
