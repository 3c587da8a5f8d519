#pragma once
/// A low-rank adapter over a frozen model: y = W x + s B (A x) with A [r, in] and B [out, r] for
/// each module that is a target (arXiv 2106.09685). Which tensors it has, in the terms of
/// tensors.hpp, so that its layout, its cut over cards, its bytes and its names in a file follow
/// from one description as the model's do. Names and adapter_config.json are PEFT's. Pure value
/// types and functions.
///
/// LORA-1: the modules are linear layers of the blocks, those of each routed expert too, and no
/// routers or gates of shared experts; A is cut as the columns of W, B as its rows, so that a
/// card's A and B belong to its part of W.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/shape.hpp"
#include "runtime/model/tensors.hpp"

namespace cohort::model {

struct LoraShape {
  int64_t rank = 8;
  double alpha = 16;
  bool is_rank_stabilised = false;  // use_rslora (arXiv 2312.03732)
  /// Modules, by full name ("model.layers.0.mlp.up_proj") or by its last parts ("up_proj").
  std::vector<std::string> targets;
  /// The one target is a regular expression, and hits the modules whose full name matches it from
  /// end to end (PEFT's rule for a text). False once resolved.
  bool is_pattern = false;

  /// Returns s = alpha / rank, or alpha / sqrt(rank).
  double scale() const;
  bool operator==(const LoraShape&) const = default;
};

/// Returns the shape with "all-linear" (also "all") and a pattern written out as the model's
/// modules, targets sorted, each once: a module of all layers by its last part, others by full
/// name. Returns Errc::invalid_argument naming the target that no linear layer of the blocks has
/// (with those that there are), targets that take some of a layer's routed experts and not all, a
/// rank or alpha that is not positive, no target at all, or a model with latent attention; for a
/// pattern also text::Regex's errors.
Expected<LoraShape> resolve_lora(const ModelShape& shape, LoraShape asked);

/// A target of the model: runs of layers, since targets may name single ones.
struct LoraModule {
  Tensor weight;          // with the layers of this run; of routed experts it is each one's
  int64_t first_row = 0;  // of the weight in the matrix of its Part, or an expert's share of it
};
/// Returns the modules in the order of the model's tensors. REQUIRES: resolve_lora's.
std::vector<LoraModule> lora_modules_of(const ModelShape& shape, const LoraShape& lora);

/// Returns A and B of each module, A first, in the modules' order.
std::vector<Tensor> lora_tensors_of(const ModelShape& shape, const LoraShape& lora);

/// Returns the name in adapter_model.safetensors, e.g.
/// base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight.
std::string lora_tensor_name(const Tensor& tensor, int64_t layer, int64_t expert = 0);

/// Returns whether a text of `lora_target` is a regular expression: names have none of * + ? | ( [
/// ^ $ and backslash.
bool is_target_pattern(std::string_view text);

/// Returns the names of `lora_target`'s texts: "q_proj, v_proj" is two, and so is a list of them.
std::vector<std::string> target_names(const std::vector<std::string>& texts);

}  // namespace cohort::model
