#pragma once
/// A model as families of tensors, and a layout as the cut of them over cards. Pure value types.
///
/// A family is one tensor per layer (and per routed expert) of one shape: DeepSeek-V3's 44,544
/// expert tensors are two families. A tensor is seen as row-major [outer, split, inner]; tensor
/// parallelism cuts `split` into equal slices, pipeline parallelism gives layers to stages, expert
/// parallelism gives whole experts to slots, ZeRO stage 3 cuts what is left of each tensor, taken
/// flat, into equal consecutive parts over the replicas (the last ones short or empty).
///
/// Position p of a layout is card ranks[p], p = tp + TP * (dp + DP * pp). Inside a stage a position
/// has number q = tp + TP * dp, and its expert coordinates are q = etp + ETP * (ep + EP * replica).
/// A card holds its shards in one buffer: families in the order of the model, layers ascending,
/// experts ascending.
/// Bounds: 65,536 cards; a layout's bytes fit 64 bits.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"

namespace cohort::plan {

struct TensorSpec {
  enum class Kind : uint8_t { replicated = 0, split = 1, expert = 2 };  // over TP, TP, EP and ETP
  enum class Where : uint8_t { layers = 0, first_stage = 1, last_stage = 2, both_ends = 3 };
  std::string name;  // e.g. "attention.q_b"
  Kind kind = Kind::replicated;
  Where where = Where::layers;
  uint32_t first_layer = 0, end_layer = 0;  // [first, end) where layers; unused elsewhere
  uint64_t outer = 1, split = 1, inner = 1;
  uint32_t parts = 1;       // equal parts of `split` that a cut may not go through (heads, rows)
  bool may_repeat = false;  // TP above parts: one part is on TP / parts cards (key-value heads)
  bool tp_first = false;    // the A3 recipe gathers it over TP inside its stage, then over PP
  uint32_t experts = 0;     // expert: routed experts of a layer
  uint64_t element_bytes = 2;
  bool operator==(const TensorSpec&) const = default;
};

struct ModelTensors {
  uint32_t layers = 0;
  std::vector<TensorSpec> tensors;
  bool operator==(const ModelTensors&) const = default;
};

struct ShardLayout {
  std::string name;  // in messages, e.g. "train"
  uint32_t tp = 1, pp = 1, dp = 1;
  uint32_t ep = 1, expert_tp = 1;  // ep * expert_tp divides tp * dp; the rest are expert replicas
  uint32_t zero_stage = 0;         // 3 cuts parameters; below that they are whole
  std::vector<uint32_t> layers_per_stage;  // empty: pp divides the layers
  std::vector<CardId> ranks;               // tp * dp * pp cards, none twice
  /// expert_slots[replica][expert] = ep coordinate. One row: for every replica; empty: expert /
  /// (experts / ep).
  std::vector<std::vector<uint32_t>> expert_slots;
  uint32_t stage_width() const { return tp * dp; }
  uint32_t expert_replicas() const { return tp * dp / (ep * expert_tp); }
  bool operator==(const ShardLayout&) const = default;
};

/// Returns Errc::invalid_argument, naming layout and tensor, for a degree of 0, ranks that are too
/// few, too many or repeated, layers that do not sum up, a TP that does not divide a tensor's
/// parts, an EP that does not divide its experts, or expert slots that are not evenly filled.
Expected<void> check_layout(const ModelTensors& model, const ShardLayout& layout);

/// Returns the layout without the replicas that have a card in `absent`: fewer, and each card of
/// the others holds what it held. Replicas that share their experts go together. Errc::not_found
/// when none is left; Errc::invalid_argument for ZeRO stage 3, which cuts over all of them.
Expected<ShardLayout> without_replicas(const ShardLayout& layout, const std::set<CardId>& absent);

/// Returns the parameter bytes of the whole model.
uint64_t model_bytes(const ModelTensors& model);

}  // namespace cohort::plan
