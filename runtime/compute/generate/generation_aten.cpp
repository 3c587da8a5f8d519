// The ATen runner of generation: any device and dtype, plain tensor operations, one attention call
// per sequence. For bf16 and for accelerators until they have kernels of their own; on CPU f32 a
// check of the kernels. On a card that is a device the tensors lie in its blocks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/compute/device/torch_device.hpp"
#include "runtime/compute/generate/generation_runner.hpp"
#include "runtime/compute/generate/tp_link.hpp"
#include "runtime/compute/model/ops.hpp"
#include "runtime/compute/model/policy_graph.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

class AtenRunner final : public ModelRunner {
 public:
  explicit AtenRunner(const RunnerOptions& options)
      : options_(options),
        device_(torch_device_of(options.card_device)),
        dtype_(options.model.dtype == tensor::Dtype::bf16 ? at::kBFloat16 : at::kFloat),
        layout_(layout_of(options.model)) {
    rope_ = ops::rope_table(options.max_context, options.model.head_dim, options.model.rope);
    rope_.cos = rope_.cos.to(device_);
    rope_.sin = rope_.sin.to(device_);
  }

  uint64_t flat_bytes() const override {
    return static_cast<uint64_t>(layout_.total_elements) * element_bytes();
  }
  uint64_t card_bytes() const override { return flat_bytes(); }
  uint64_t kv_block_bytes() const override {
    const ModelConfig& c = options_.model;
    return static_cast<uint64_t>(2 * c.num_hidden_layers * c.kv_size() * options_.block_tokens) *
           element_bytes();
  }

  void attach(std::span<std::byte> card) override {
    weights_ = {};
    flat_ = Tensor();
    if (card.empty()) return;
    flat_ = over(card, {layout_.total_elements});
    weights_ = view_weights(flat_, layout_, false);
  }

  Expected<void> load(std::span<const std::byte> flat) override {
    COHORT_CHECK(flat_.defined() && flat.size() == flat_bytes(), "PLACE-4: weights have no card");
    try {
      at::NoGradGuard no_grad;
      // from_blob takes a mutable pointer; it is only read here.
      flat_.copy_(at::from_blob(const_cast<std::byte*>(flat.data()), {layout_.total_elements},
                                at::dtype(dtype_)));
    } catch (const std::exception& e) {
      return Error{Errc::compute,
                   fmt::format("loading weights to {}: {}", device_.str(), e.what())};
    }
    return {};
  }

  Expected<void> store(std::span<std::byte> flat) const override {
    COHORT_CHECK(flat_.defined() && flat.size() == flat_bytes(), "PLACE-4: weights have no card");
    try {
      at::NoGradGuard no_grad;
      at::from_blob(flat.data(), {layout_.total_elements}, at::dtype(dtype_)).copy_(flat_);
    } catch (const std::exception& e) {
      return Error{Errc::compute,
                   fmt::format("storing weights from {}: {}", device_.str(), e.what())};
    }
    return {};
  }

  std::unique_ptr<LaneRunner> make_lane(std::span<std::byte> cache, TpLink* link) override;

  at::TensorOptions tensor_options() const { return at::dtype(dtype_).device(device_); }
  /// Returns a tensor over card bytes.
  Tensor over(std::span<std::byte> bytes, at::IntArrayRef shape) const {
    return tensor_at(options_.card_device, bytes.data(), c10::multiply_integers(shape), dtype_)
        .view(shape);
  }

 private:
  friend class AtenLane;
  uint64_t element_bytes() const { return tensor::size_of(options_.model.dtype); }

  RunnerOptions options_;
  at::Device device_;
  at::ScalarType dtype_;
  ParameterLayout layout_;
  ops::RopeTable rope_;
  Tensor flat_;
  PolicyWeights weights_;
};

class AtenLane final : public LaneRunner {
 public:
  AtenLane(const AtenRunner& runner, std::span<std::byte> cache, TpLink* link)
      : runner_(runner),
        model_(runner.options_.model),
        block_tokens_(runner.options_.block_tokens),
        link_(link) {
    const auto blocks = static_cast<int64_t>(cache.size() / runner.kv_block_bytes());
    cache_ = runner.over(cache, {blocks, model_.num_hidden_layers, 2, block_tokens_,
                                 model_.num_key_value_heads, model_.head_dim});
  }

  Expected<LogitsView> forward(std::span<const BatchChunk> batch) override {
    try {
      at::NoGradGuard no_grad;
      at::set_num_threads(1);  // the lane is the thread
      ops::set_fused(false);   // this thread: the compositions, whatever the dtype
      return run(batch);
    } catch (const std::exception& e) {
      return Error{Errc::compute, fmt::format("generation on {}: {}",
                                              runner_.tensor_options().device().str(), e.what())};
    }
  }

 private:
  Expected<LogitsView> run(std::span<const BatchChunk> batch) {
    std::vector<int32_t> tokens, positions, sampled_rows;
    for (const BatchChunk& chunk : batch) {
      tokens.insert(tokens.end(), chunk.tokens, chunk.tokens + chunk.count);
      for (int64_t i = 0; i < chunk.count; ++i)
        positions.push_back(static_cast<int32_t>(chunk.first_position + i));
      if (chunk.is_sampled) sampled_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
    }
    const PolicyWeights& weights = runner_.weights_;
    const Tensor where = indices(positions);
    COHORT_ASSIGN(Tensor x, embed(tokens));
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      const PolicyWeights::Layer& layer = weights.layers[i];
      Tensor h = ops::rms_norm(x, layer[Part::input_norm], model_.rms_norm_eps);
      Tensor qkv = placed_heads(at::mm(h, layer[Part::qkv].t()), layer[Part::qkv_bias], layer,
                                {model_.num_attention_heads, model_.num_key_value_heads}, model_,
                                where, runner_.rope_);
      COHORT_ASSIGN(x, add_product(x, attend(qkv, static_cast<int64_t>(i), batch), layer[Part::o]));
      x = biased(x, layer[Part::o_bias]);
      h = ops::rms_norm(x, layer[Part::post_norm], model_.rms_norm_eps);
      const Tensor gate_up = biased(at::mm(h, layer[Part::gate_up].t()), layer[Part::gate_up_bias]);
      COHORT_ASSIGN(x, add_product(x, ops::swiglu(gate_up), layer[Part::down]));
      x = biased(x, layer[Part::down_bias]);
    }
    if (sampled_rows.empty()) return LogitsView{};
    Tensor last = ops::rms_norm(x.index_select(0, indices(sampled_rows)), weights.final_norm,
                                model_.rms_norm_eps);
    logits_ = at::mm(last, weights.lm_head.t()).to(at::kFloat).cpu().contiguous();
    if (link_ == nullptr) return LogitsView{logits_.data_ptr<float>(), model_.vocab_size};
    COHORT_ASSIGN(const float* whole,
                  link_->gather_columns(logits_.data_ptr<float>(), logits_.size(0),
                                        model_.vocab_size, model_.vocab_size));
    return LogitsView{whole, model_.vocab_size * link_->size()};
  }

  /// Returns the embeddings of the tokens; under tensor parallelism each rank looks up those of its
  /// part of the vocabulary.
  Expected<Tensor> embed(const std::vector<int32_t>& tokens) {
    const Tensor& table = runner_.weights_.embedding;
    if (link_ == nullptr) return ops::embedding(table, indices(tokens));
    const auto part = static_cast<int32_t>(model_.vocab_size);
    std::vector<int32_t> owners, local;
    for (int32_t token : tokens) {
      owners.push_back(token / part);
      local.push_back(token % part);  // another rank's row is overwritten below
    }
    Tensor x = ops::embedding(table, indices(local)).to(at::kCPU, at::kFloat).contiguous();
    COHORT_TRY(link_->spread_rows(owners, x.data_ptr<float>(), model_.hidden_size));
    return x.to(runner_.tensor_options());
  }

  /// Returns x + a weight^T. Each rank of a group has a part of the summed index; what the ranks
  /// exchange is f32 on the host.
  Expected<Tensor> add_product(const Tensor& x, const Tensor& a, const Tensor& weight) {
    if (link_ == nullptr) return at::addmm(x, a, weight.t());
    const int64_t rows = x.size(0);
    const Tensor product = at::mm(a, weight.t()).to(at::kCPU, at::kFloat).contiguous();
    float* mine = link_->partials(rows, model_.hidden_size);
    std::copy_n(product.data_ptr<float>(), product.numel(), mine);
    Tensor sum = at::zeros({rows, model_.hidden_size}, at::dtype(at::kFloat));
    COHORT_TRY(link_->add_partials(sum.data_ptr<float>(), rows, model_.hidden_size));
    return x + sum.to(runner_.tensor_options());
  }

  /// Writes the rows' keys and values to their blocks; returns the mixed values [rows, q heads *
  /// head_dim].
  Tensor attend(const Tensor& qkv, int64_t layer, std::span<const BatchChunk> batch) {
    const int64_t heads = model_.num_attention_heads;
    const int64_t kv_heads = model_.num_key_value_heads;
    const int64_t dim = model_.head_dim;
    Tensor mixed = at::empty({qkv.size(0), heads * dim}, qkv.options());
    const Tensor layer_cache = cache_.select(1, layer);
    int64_t row = 0;
    for (const BatchChunk& chunk : batch) {
      const int64_t keys = chunk.first_position + chunk.count;
      const Tensor rows = qkv.narrow(0, row, chunk.count);
      const Tensor kv =
          rows.narrow(1, heads * dim, 2 * kv_heads * dim).view({chunk.count, 2, kv_heads, dim});
      for (int64_t i = 0; i < chunk.count; ++i) {
        const int64_t position = chunk.first_position + i;
        layer_cache.select(0, chunk.blocks[position / block_tokens_])
            .select(1, position % block_tokens_)
            .copy_(kv.select(0, i));
      }
      const int64_t blocks = (keys + block_tokens_ - 1) / block_tokens_;
      const Tensor ids = indices({chunk.blocks, static_cast<size_t>(blocks)});
      // [2, kv_heads, keys, dim], every KV head repeated for its query heads
      Tensor seen = layer_cache.index_select(0, ids).permute({1, 3, 0, 2, 4});
      seen = seen.reshape({2, kv_heads, blocks * block_tokens_, dim}).narrow(2, 0, keys);
      seen = seen.repeat_interleave(heads / kv_heads, 1).to(at::kFloat);
      const Tensor query =
          rows.narrow(1, 0, heads * dim).view({chunk.count, heads, dim}).transpose(0, 1);
      Tensor scores = at::matmul(query.to(at::kFloat), seen[0].transpose(1, 2)) /
                      std::sqrt(static_cast<double>(dim));
      const Tensor last_key = at::arange(chunk.first_position, keys, ids.options()).unsqueeze(1);
      const Tensor key = at::arange(keys, ids.options()).unsqueeze(0);
      Tensor is_hidden = key.gt(last_key);
      if (const int64_t window = model_.window_of(layer); window > 0)
        is_hidden = is_hidden.logical_or(key.le(last_key - window));
      scores = scores.masked_fill(is_hidden, -std::numeric_limits<double>::infinity());
      Tensor out = at::matmul(scores.softmax(-1), seen[1]).transpose(0, 1);
      mixed.narrow(0, row, chunk.count).copy_(out.reshape({chunk.count, heads * dim}));
      row += chunk.count;
    }
    return mixed;
  }

  Tensor indices(std::span<const int32_t> values) const {
    return at::tensor(at::ArrayRef<int32_t>(values.data(), values.size()), at::dtype(at::kInt))
        .to(runner_.tensor_options().device());
  }

  const AtenRunner& runner_;
  const ModelConfig& model_;
  int64_t block_tokens_;
  Tensor cache_;  // [blocks, layers, 2, block_tokens, kv_heads, head_dim]
  Tensor logits_;
  TpLink* link_;  // null: the whole model is here
};

std::unique_ptr<LaneRunner> AtenRunner::make_lane(std::span<std::byte> cache, TpLink* link) {
  return std::make_unique<AtenLane>(*this, cache, link);
}

}  // namespace

Expected<std::unique_ptr<ModelRunner>> make_aten_runner(const RunnerOptions& options) {
  try {
    return std::unique_ptr<ModelRunner>(std::make_unique<AtenRunner>(options));
  } catch (const std::exception& e) {
    return Error{Errc::invalid_argument,
                 fmt::format("generation: the device cannot be used: {}", e.what())};
  }
}

}  // namespace cohort::compute
