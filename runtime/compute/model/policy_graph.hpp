#pragma once
/// The policy as a differentiable function: packed tokens in, log-probabilities of the response
/// tokens out. Any device and dtype that ops.hpp supports. Callable from several threads on the
/// same weights. Exact, but sparing: the last layer computes queries, attention output and MLP for
/// the needed rows only.
#include <span>
#include <vector>

#include "runtime/compute/model/lora_layout.hpp"
#include "runtime/compute/model/model_layout.hpp"
#include "runtime/compute/model/ops.hpp"
#include "runtime/compute/model/taught_log_probs.hpp"
#include "runtime/compute/train/micro_batch.hpp"

namespace cohort::compute {

/// Computes rows by the routed experts of one layer where they lie on several cards.
class ExpertRows {
 public:
  virtual ~ExpertRows() = default;
  /// x [n, H]: rows in the order of the experts, counts[e] of them for expert e. Returns what their
  /// experts make of them [n, H], differentiable in x where gradients are on. Throws what ops do.
  virtual at::Tensor apply(const at::Tensor& x, const std::vector<int64_t>& counts) = 0;
};

/// Views into one flat parameter tensor, a tensor for each part that the model has. `leaves` are
/// the same tensors in offset order.
struct PolicyWeights {
  /// Adds scale * B (A x) to the rows of a part's product from `first_row` on.
  struct Adapter {
    Part part = Part::qkv;
    int64_t first_row = 0;
    at::Tensor a, b;  // [r, in], [out, r]; f32 over weights of any dtype
    double scale = 1;
    int64_t experts = 0;  // a and b are those of so many routed experts, one behind the other
  };
  struct Layer : model::ByPart<at::Tensor> {
    std::vector<Adapter> adapters;  // by first_row inside a part; empty: none
    /// Of a rank that holds some of the experts: computes all of them. nullptr: the parts do.
    ExpertRows* experts = nullptr;
  };
  struct Leaf {
    at::Tensor tensor;
    int64_t offset = 0;  // [elements] in the flat buffer
  };
  at::Tensor embedding, final_norm, lm_head;
  std::vector<Layer> layers;
  std::vector<Leaf> leaves;
};

/// Returns views of `flat` [total_elements]; with `is_trained` each is a leaf that requires a
/// gradient.
PolicyWeights view_weights(const at::Tensor& flat, const ParameterLayout& layout, bool is_trained);

/// The same for one layer, of a tensor that holds the flat buffer from element `begin` on; its
/// leaves are appended.
PolicyWeights::Layer view_layer(const at::Tensor& flat, int64_t begin, const LayerParts& parts,
                                bool is_trained, std::vector<PolicyWeights::Leaf>& leaves);
at::Tensor view_leaf(const at::Tensor& flat, int64_t begin, const PartSpan& part, bool is_trained,
                     std::vector<PolicyWeights::Leaf>& leaves);

/// Puts the adapters of `flat` [layout.flat.total_elements] f32 on layers that view_weights made;
/// with `is_trained` they become the leaves, in place of the weights.
void attach_adapters(const at::Tensor& flat, const LoraLayout& layout, bool is_trained,
                     PolicyWeights& weights);

/// Returns `y` = x W^T of the rows of `part` from `first_row` on, and what adapters of one matrix
/// each add to them: products in the adapter's dtype, the sum rounded to y's. Without an adapter
/// there it is y itself.
at::Tensor adapted(const at::Tensor& y, const at::Tensor& x,
                   std::span<const PolicyWeights::Adapter> adapters, Part part,
                   int64_t first_row = 0);

/// Returns x + bias; x where there is no bias.
at::Tensor biased(const at::Tensor& x, const at::Tensor& bias);

struct HeadCounts {
  int64_t q = 0, k = 0;
};
/// Returns queries and keys [N, heads * head_dim] of a product with their bias, normed where the
/// model norms them, and rotated; the heads behind them (values) only get the bias.
at::Tensor placed_heads(const at::Tensor& x, const at::Tensor& bias,
                        const PolicyWeights::Layer& layer, HeadCounts heads,
                        const ModelConfig& config, const at::Tensor& position,
                        const ops::RopeTable& rope);

/// Layer `index` of policy_log_probs; the last one returns batch.query_rows only.
at::Tensor run_layer(const at::Tensor& x, const PolicyWeights::Layer& layer,
                     const ModelConfig& config, const ops::RopeTable& rope,
                     const PackedBatch& batch, int64_t index);
/// What a teacher makes of the batch, and what to compare it by.
struct Lesson {
  ops::TeacherRows teacher;
  const LogitDivergence* divergence = nullptr;  // nullptr: nobody teaches
};

/// What comes after the layers. Of a value head `logp` is the value before the token.
MicroOutputs run_head(const at::Tensor& x, const at::Tensor& final_norm, const at::Tensor& lm_head,
                      const ModelConfig& config, const PackedBatch& batch, int64_t logits_max,
                      const Lesson& lesson = {});

/// Returns log-probability and entropy [M] of the batch's targets; with a lesson the divergence in
/// the place of the entropy. `logits_max` bounds the logits alive [floats].
MicroOutputs policy_log_probs(const PolicyWeights& weights, const ModelConfig& config,
                              const ops::RopeTable& rope, const PackedBatch& batch,
                              int64_t logits_max, const Lesson& lesson = {});

/// Returns what these weights make of the batch's targets, without a gradient.
ops::TeacherRows teacher_rows(const PolicyWeights& weights, const ModelConfig& config,
                              const ops::RopeTable& rope, const PackedBatch& batch);

}  // namespace cohort::compute
