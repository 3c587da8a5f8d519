#pragma once
/// Where the matrices of a LoRA adapter lie in a flat buffer of their own: what is trained,
/// published and saved in place of the model (model::lora_tensors_of). Torch-free value types; pure
/// functions. LAYOUT-1 and LAYOUT-3 of model_layout.hpp hold; each matrix is a part of its own. The
/// As of a layer's routed experts are one part, one behind the other, and so are their Bs.
#include <cstdint>
#include <vector>

#include "runtime/compute/model/model_layout.hpp"
#include "runtime/model/lora.hpp"

namespace cohort::compute {

/// A and B of one module in one layer; of routed experts each expert's.
struct LoraPair {
  Part part = Part::qkv;
  int64_t first_row = 0;  // of the module in the part's matrix, or an expert's share of it
  PartSpan a, b;          // [r, in], [out, r]; of all experts [experts r, in], [experts out, r]
  int64_t experts = 0;    // routed experts that have one each; 0: no expert's

  /// The matrix of the expert that lies `index` behind the first in `of`, a or b.
  PartSpan of_expert(const PartSpan& of, int64_t index) const {
    const int64_t rows = of.rows / experts;
    return {of.offset + index * rows * of.columns, rows, of.columns};
  }
};

struct LoraLayout {
  model::LoraShape shape;
  ParameterLayout flat;                       // specs have PEFT's names; no parts
  std::vector<std::vector<LoraPair>> layers;  // pairs by first_row inside a part
};

/// Returns the layout of the routed experts `experts` alone. REQUIRES: validate(config), and `lora`
/// as resolve_lora returns it.
LoraLayout lora_layout_of(const ModelConfig& config, const model::LoraShape& lora,
                          ExpertRange experts = {});

}  // namespace cohort::compute
