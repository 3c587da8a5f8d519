#pragma once
/// A model as a list of tensors: the one description from which the parameter layout, the cut over
/// cards, the families of the reshard planner, the memory model, weight decay, start values and
/// the names in a checkpoint follow. Pure value types and functions.
///
/// MODEL-1: the list is in the order of the flat buffer (compute::layout_of): the first end, the
/// layers, the last end; and inside a layer in the order of Part.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/shape.hpp"

namespace cohort::model {

/// What one operator reads: tensors of one part lie side by side, without padding, as one matrix
/// [sum of rows, columns] or one vector.
enum class Part : uint8_t {
  embedding,
  input_norm,
  qkv,
  qkv_bias,
  q_norm,
  k_norm,
  q_full,  // latent attention without a latent of queries
  q_a,
  q_a_bias,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_bias,
  kv_a_norm,
  kv_b,
  delta_in,  // gated delta net: q, k, v and gate; then rate and decay
  delta_conv,
  delta_decay,
  delta_norm,
  o,
  o_bias,
  post_norm,
  gate_up,
  gate_up_bias,
  down,
  down_bias,
  router,
  router_bias,
  expert_gate_up,  // of all routed experts, one behind the other
  expert_down,     // likewise
  shared_gate_up,
  shared_down,
  shared_gate,
  final_norm,
  head,
};
inline constexpr size_t k_parts = static_cast<size_t>(Part::head) + 1;

/// One T for each part.
template <class T>
struct ByPart {
  std::array<T, k_parts> items{};
  T& operator[](Part part) { return items[static_cast<size_t>(part)]; }
  const T& operator[](Part part) const { return items[static_cast<size_t>(part)]; }
};

/// Norms start as ones and biases as zeros, and neither decays. LoRA's "all-linear" is linear and
/// residual. A residual matrix adds to the residual stream: its start values shrink with the depth.
/// lora_a and lora_b are an adapter's (lora.hpp). A score starts as zeros and decays: the head of a
/// value model, whose first values are 0.
enum class Kind : uint8_t { table, norm, bias, linear, residual, router, lora_a, lora_b, score };
/// Over TP (experts: over ETP): by rows, what a product writes; by columns, what it reads.
enum class Cut : uint8_t { whole, rows, columns };
enum class Where : uint8_t { layers, first_stage, last_stage, both_ends };

/// One tensor of a layer (of each routed expert), or of an end of the model.
struct Tensor {
  Part part = Part::embedding;
  Kind kind = Kind::linear;
  std::string family;  // in plans, e.g. "attention.q"; gate and up are one family, "mlp.w13"
  std::string name;    // HF's, behind the layer's prefix; {} stands for the expert
  int64_t rows = 0, columns = 0;  // columns 0: a vector
  Cut cut = Cut::whole;
  int64_t parts = 1;        // equal parts that a cut may not go through: heads, rows, columns
  bool may_repeat = false;  // TP above parts: one part is on TP / parts cards (key-value heads)
  bool tp_first = false;    // the A3 recipe gathers it over TP inside its stage, then over PP
  bool is_joined = false;   // lies behind the tensor before it, without padding
  bool is_stacked = false;  // and is of its family: the two are cut and moved as one
  Where where = Where::layers;
  int64_t first_layer = 0, end_layer = 0;  // [first, end) where layers
  int64_t experts = 0;                     // routed experts of a layer that have one each; 0: none
  int64_t kept = 0;  // values per token that a training step keeps because of it (job_transients)

  int64_t elements() const { return rows * (columns > 0 ? columns : 1); }
  bool is_in(int64_t layer) const {
    return where == Where::layers && first_layer <= layer && layer < end_layer;
  }
};

enum class HeadKind : uint8_t { language = 0, value = 1 };  // value: one row, a critic's

std::vector<Tensor> tensors_of(const ModelShape& shape, HeadKind head = HeadKind::language);

/// Returns the name in a checkpoint, e.g. model.layers.0.self_attn.q_proj.weight.
std::string tensor_name(const Tensor& tensor, int64_t layer, int64_t expert);

/// Returns the parameters of the model, without padding. REQUIRES: check_shape passed.
uint64_t parameter_count(const ModelShape& shape);

}  // namespace cohort::model
