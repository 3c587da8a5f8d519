#pragma once
/// The policy as the built-in engine computes it, and where each parameter lies in the ONE flat
/// buffer that training, generation and publishing share: the tensors of model::tensors_of, in
/// their order. Torch-free value types; pure functions; no thread owns anything here.
///
/// The engine's operators: pre-RMSNorm, RoPE (default, linear, llama3, yarn), norms of q and k,
/// grouped-query attention with or without a window, latent attention, SwiGLU, routed experts,
/// biases, tied or untied embeddings. validate() refuses the rest by name.
///
/// LAYOUT-1: specs are in offset order and do not overlap. LAYOUT-2: a part (q,k,v weights of a
/// layer; q,k,v biases; gate and up; any other tensor) starts at a multiple of k_alignment elements
/// and has no gap inside, so that it can be read as one [sum of rows, columns] matrix. LAYOUT-3:
/// padding elements are zero for ever.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/shape.hpp"
#include "runtime/model/tensors.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::compute {

using model::Part;

inline constexpr int64_t k_alignment = 16;  // [elements] one AVX-512 vector of f32

struct ModelConfig : model::ModelShape {
  tensor::Dtype dtype = tensor::Dtype::f32;  // f32 or bf16: what products are computed in

  bool operator==(const ModelConfig&) const = default;
};

/// Returns Errc::invalid_argument naming the first field that is out of range or does not divide.
Expected<void> validate(const ModelConfig& config);

struct ParameterSpec {
  std::string name;            // HF name, e.g. model.layers.0.self_attn.q_proj.weight
  std::vector<int64_t> shape;  // HF shape: weights are [out, in]
  int64_t offset = 0;          // [elements] into the flat buffer
  int64_t count = 0;           // [elements]
  model::Kind kind = model::Kind::linear;
  bool is_stacked = false;  // cut and moved as one with the tensor before it
  uint32_t family = 0;      // index in plan::families_of
  int64_t layer = -1;       // -1: an end of the model
  int64_t expert = -1;      // of the layer's routed experts; -1: no expert's

  /// Weight decay applies: not to norm weights and biases.
  bool is_decayed() const { return kind != model::Kind::norm && kind != model::Kind::bias; }
};

/// One part in the flat buffer: a matrix [rows, columns], or a vector [rows].
struct PartSpan {
  int64_t offset = -1;  // [elements]; -1: the model has none
  int64_t rows = 0, columns = 0;
  int64_t count() const { return rows * (columns > 0 ? columns : 1); }
};
using LayerParts = model::ByPart<PartSpan>;

struct ParameterLayout {
  std::vector<ParameterSpec> specs;
  std::vector<LayerParts> layers;
  PartSpan embedding;          // [vocab, hidden]
  PartSpan final_norm;         // [hidden]
  PartSpan lm_head;            // [vocab, hidden], `embedding` when tied; a value head: [1, hidden]
  int64_t total_elements = 0;  // multiple of k_alignment

  bool is_tied() const { return lm_head.offset == embedding.offset; }
  /// Returns the spec of `name`, or nullptr.
  const ParameterSpec* find(std::string_view name) const;
};

/// The routed experts [first, end) of every layer that has them.
struct ExpertRange {
  int64_t first = 0, end = std::numeric_limits<int64_t>::max();
  bool operator==(const ExpertRange&) const = default;
};

/// Returns the layout of a config that passed validate(), of the routed experts `experts` alone.
ParameterLayout layout_of(const ModelConfig& config,
                          model::HeadKind head = model::HeadKind::language,
                          ExpertRange experts = {});

/// Returns the number of parameters (without padding).
int64_t parameter_count(const ParameterLayout& layout);

}  // namespace cohort::compute
