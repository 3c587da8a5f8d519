// The ATen runner of generation: any device, dtype and kind of layer, plain tensor operations, one
// attention call per sequence. For accelerators until they have kernels of their own; on CPU f32 a
// check of the kernels. On a card that is a device the tensors lie in its blocks.
//
// Models that the packed runner cannot compute (routed experts, latent attention) run here on the
// CPU too, with exact rows (GEN-1): products and attention are the row kernels', activations f32
// with weights of either dtype, and norms and rotations the f32 kernels of training.
//
// A token's cache entry: keys and values of the key-value heads; of latent attention its latent and
// its rotated key, in every layer.
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
#include "runtime/compute/kernels/row_kernels.hpp"
#include "runtime/compute/model/ops.hpp"
#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/model/policy_parts.hpp"
#include "runtime/compute/model/product.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

int64_t latent_width(const ModelConfig& c) { return c.mla->kv_lora_rank + c.mla->qk_rope_head_dim; }

class AtenRunner final : public ModelRunner {
 public:
  explicit AtenRunner(const RunnerOptions& options)
      : options_(options),
        device_(torch_device_of(options.card_device)),
        dtype_(options.model.dtype == tensor::Dtype::bf16 ? at::kBFloat16 : at::kFloat),
        is_row_exact_(device_.is_cpu() && !has_packed_layers(options.model)),
        layout_(layout_of(options.model)) {
    rope_ = ops::rope_table(options.max_context, options.model.rotary_dim(), options.model.rope);
    rope_.cos = rope_.cos.to(device_);
    rope_.sin = rope_.sin.to(device_);
  }

  uint64_t flat_bytes() const override {
    return static_cast<uint64_t>(layout_.total_elements) * element_bytes();
  }
  uint64_t card_bytes() const override { return flat_bytes(); }
  uint64_t kv_block_bytes() const override {
    const ModelConfig& c = options_.model;
    const int64_t entry = c.mla ? latent_width(c) : 2 * c.kv_size();
    return static_cast<uint64_t>(c.num_hidden_layers * entry * options_.block_tokens) *
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
  bool is_row_exact_;
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
    const int64_t layers = model_.num_hidden_layers;
    cache_ = model_.mla ? runner.over(cache, {blocks, layers, block_tokens_, latent_width(model_)})
                        : runner.over(cache, {blocks, layers, 2, block_tokens_,
                                              model_.num_key_value_heads, model_.head_dim});
  }

  Expected<LogitsView> forward(std::span<const BatchChunk> batch) override {
    try {
      at::NoGradGuard no_grad;
      at::set_num_threads(1);  // the lane is the thread
      // This thread: else the compositions, in every dtype.
      ops::set_fused(runner_.is_row_exact_);
      ops::set_row_exact(runner_.is_row_exact_);
      return run(batch);
    } catch (const std::exception& e) {
      return Error{Errc::compute, fmt::format("generation on {}: {}",
                                              runner_.tensor_options().device().str(), e.what())};
    }
  }

 private:
  /// Where the rows of an iteration are.
  struct Rows {
    std::span<const BatchChunk> batch;
    Tensor position;  // [rows] i32
  };

  Expected<LogitsView> run(std::span<const BatchChunk> batch) {
    std::vector<int32_t> tokens, positions, sampled_rows;
    for (const BatchChunk& chunk : batch) {
      tokens.insert(tokens.end(), chunk.tokens, chunk.tokens + chunk.count);
      for (int64_t i = 0; i < chunk.count; ++i)
        positions.push_back(static_cast<int32_t>(chunk.first_position + i));
      if (chunk.is_sampled) sampled_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
    }
    const PolicyWeights& weights = runner_.weights_;
    const Rows rows{batch, indices(positions)};
    COHORT_ASSIGN(Tensor x, embed(tokens));
    for (size_t i = 0; i < weights.layers.size(); ++i) {
      COHORT_ASSIGN(x, run_layer(x, as_computed(weights.layers[i]), static_cast<int64_t>(i), rows));
    }
    if (sampled_rows.empty()) return LogitsView{};
    Tensor last = ops::rms_norm(x.index_select(0, indices(sampled_rows)),
                                weights.final_norm.to(x.scalar_type()), model_.rms_norm_eps);
    logits_ = ops::product(last, weights.lm_head).to(at::kFloat).cpu().contiguous();
    if (link_ == nullptr) return LogitsView{logits_.data_ptr<float>(), model_.vocab_size};
    COHORT_ASSIGN(const float* whole,
                  link_->gather_columns(logits_.data_ptr<float>(), logits_.size(0),
                                        model_.vocab_size, model_.vocab_size));
    return LogitsView{whole, model_.vocab_size * link_->size()};
  }

  /// Exact rows are f32: so are the norms and biases beside them. Matrices stay as they are.
  PolicyWeights::Layer as_computed(const PolicyWeights::Layer& layer) const {
    if (!runner_.is_row_exact_ || runner_.dtype_ == at::kFloat) return layer;
    PolicyWeights::Layer wide = layer;
    for (Tensor& part : wide.items)
      if (part.defined() && part.dim() == 1) part = part.to(at::kFloat);
    return wide;
  }
  at::TensorOptions activations() const {
    return runner_.is_row_exact_ ? runner_.tensor_options().dtype(at::kFloat)
                                 : runner_.tensor_options();
  }

  Expected<Tensor> run_layer(Tensor x, const PolicyWeights::Layer& layer, int64_t index,
                             const Rows& rows) {
    Tensor h = ops::rms_norm(x, layer[Part::input_norm], model_.rms_norm_eps);
    COHORT_ASSIGN(x, add_product(x,
                                 model_.mla ? attend_latent(h, layer, index, rows)
                                            : attend_heads(h, layer, index, rows),
                                 layer[Part::o]));
    x = biased(x, layer[Part::o_bias]);
    h = ops::rms_norm(x, layer[Part::post_norm], model_.rms_norm_eps);
    if (layer[Part::router].defined()) return add_part(x, expert_mlp(h, layer, *model_.moe));
    const Tensor gate_up = biased(ops::product(h, layer[Part::gate_up]), layer[Part::gate_up_bias]);
    COHORT_ASSIGN(x, add_product(x, ops::swiglu(gate_up), layer[Part::down]));
    return biased(x, layer[Part::down_bias]);
  }

  /// Returns the embeddings of the tokens; under tensor parallelism each rank looks up those of its
  /// part of the vocabulary.
  Expected<Tensor> embed(const std::vector<int32_t>& tokens) {
    const Tensor& table = runner_.weights_.embedding;
    if (link_ == nullptr) return ops::embedding(table, indices(tokens)).to(activations());
    const auto part = static_cast<int32_t>(model_.vocab_size);
    std::vector<int32_t> owners, local;
    for (int32_t token : tokens) {
      owners.push_back(token / part);
      local.push_back(token % part);  // another rank's row is overwritten below
    }
    Tensor x = ops::embedding(table, indices(local)).to(at::kCPU, at::kFloat).contiguous();
    COHORT_TRY(link_->spread_rows(owners, x.data_ptr<float>(), model_.hidden_size));
    return x.to(activations());
  }

  /// Returns x + a weight^T. Each rank of a group has a part of the summed index.
  Expected<Tensor> add_product(const Tensor& x, const Tensor& a, const Tensor& weight) {
    if (link_ == nullptr && !runner_.is_row_exact_) return ops::add_product(x, a, weight);
    return add_part(x, ops::product(a, weight));
  }

  /// Returns x + `part`, of all ranks of a group together; they exchange f32 on the host.
  Expected<Tensor> add_part(const Tensor& x, const Tensor& part) {
    if (link_ == nullptr) return x + part;
    const int64_t rows = x.size(0);
    const Tensor host = part.to(at::kCPU, at::kFloat).contiguous();
    float* mine = link_->partials(rows, model_.hidden_size);
    std::copy_n(host.data_ptr<float>(), host.numel(), mine);
    Tensor sum = at::zeros({rows, model_.hidden_size}, at::dtype(at::kFloat));
    COHORT_TRY(link_->add_partials(sum.data_ptr<float>(), rows, model_.hidden_size));
    return x + sum.to(activations());
  }

  /// Writes `entries` [chunk.count, …], one for each row, to the chunk's blocks.
  void keep(const Tensor& entries, const Tensor& layer_cache, int64_t token_axis,
            const BatchChunk& chunk) const {
    for (int64_t i = 0; i < chunk.count; ++i) {
      const int64_t position = chunk.first_position + i;
      layer_cache.select(0, chunk.blocks[position / block_tokens_])
          .select(token_axis, position % block_tokens_)
          .copy_(entries.select(0, i));
    }
  }
  /// Returns the chunk's blocks one behind the other, [blocks, …].
  Tensor blocks_of(const Tensor& layer_cache, const BatchChunk& chunk) const {
    const int64_t keys = chunk.first_position + chunk.count;
    const int64_t blocks = (keys + block_tokens_ - 1) / block_tokens_;
    return layer_cache.index_select(0, indices({chunk.blocks, static_cast<size_t>(blocks)}));
  }
  /// True where a row of the chunk does not see the key [chunk.count, keys].
  Tensor hidden_keys(const BatchChunk& chunk, int64_t window) const {
    const int64_t keys = chunk.first_position + chunk.count;
    const auto options = at::dtype(at::kInt).device(runner_.device_);
    const Tensor last_key = at::arange(chunk.first_position, keys, options).unsqueeze(1);
    const Tensor key = at::arange(keys, options).unsqueeze(0);
    Tensor is_hidden = key.gt(last_key);
    if (window > 0) is_hidden = is_hidden.logical_or(key.le(last_key - window));
    return is_hidden;
  }
  static Tensor softmax_seen(const Tensor& scores, const Tensor& is_hidden) {
    return scores.masked_fill(is_hidden, -std::numeric_limits<double>::infinity()).softmax(-1);
  }

  /// Grouped-query attention of the rows, whose keys and values join the cache. Returns o's input
  /// [rows, q heads * head_dim].
  Tensor attend_heads(const Tensor& h, const PolicyWeights::Layer& layer, int64_t index,
                      const Rows& rows) {
    const int64_t heads = model_.num_attention_heads, kv_heads = model_.num_key_value_heads;
    const int64_t dim = model_.head_dim, window = model_.window_of(index);
    const Tensor qkv = placed_heads(ops::product(h, layer[Part::qkv]), layer[Part::qkv_bias], layer,
                                    {heads, kv_heads}, model_, rows.position, runner_.rope_);
    const Tensor layer_cache = cache_.select(1, index);
    const int64_t stored = block_tokens_ * kv_heads * dim;  // keys of a block, then its values
    cpu::RowAttention exact;
    exact.value_offset = stored;
    exact.token_stride = kv_heads * dim;
    exact.head_stride = exact.key_dim = exact.value_dim = dim;
    exact.kv_heads = kv_heads;
    return each_chunk(
        qkv.narrow(1, 0, heads * dim), rows, {exact, layer_cache, window, heads * dim},
        [&](const BatchChunk& chunk, int64_t row) {
          keep(qkv.narrow(0, row, chunk.count)
                   .narrow(1, heads * dim, 2 * kv_heads * dim)
                   .view({chunk.count, 2, kv_heads, dim}),
               layer_cache, 1, chunk);
        },
        [&](const BatchChunk& chunk, const Tensor& query) {
          return mix_heads(chunk, query, layer_cache, window);
        });
  }

  /// query [count, heads * dim] -> [count, heads * dim].
  Tensor mix_heads(const BatchChunk& chunk, const Tensor& query_rows, const Tensor& layer_cache,
                   int64_t window) const {
    const int64_t heads = model_.num_attention_heads, kv_heads = model_.num_key_value_heads;
    const int64_t dim = model_.head_dim, keys = chunk.first_position + chunk.count;
    // [2, kv_heads, keys, dim], every KV head repeated for its query heads
    Tensor seen = blocks_of(layer_cache, chunk).permute({1, 3, 0, 2, 4});
    seen = seen.reshape({2, kv_heads, -1, dim}).narrow(2, 0, keys);
    seen = seen.repeat_interleave(heads / kv_heads, 1).to(at::kFloat);
    const Tensor query = query_rows.view({chunk.count, heads, dim}).transpose(0, 1);
    const Tensor scores = at::matmul(query.to(at::kFloat), seen[0].transpose(1, 2)) /
                          std::sqrt(static_cast<double>(dim));
    return at::matmul(softmax_seen(scores, hidden_keys(chunk, window)), seen[1])
        .transpose(0, 1)
        .reshape({chunk.count, heads * dim});
  }

  /// Latent attention of the rows, whose entries join the cache. Returns o's input [rows, heads *
  /// v_head_dim].
  Tensor attend_latent(const Tensor& h, const PolicyWeights::Layer& layer, int64_t index,
                       const Rows& rows) {
    const int64_t width = latent_width(model_), rank = model_.mla->kv_lora_rank;
    const int64_t heads = model_.num_attention_heads;
    const Tensor entries = latent_entries(h, layer, model_, rows.position, runner_.rope_);
    const Tensor q = latent_queries(h, layer, model_, rows.position, runner_.rope_);
    const Tensor layer_cache = cache_.select(1, index);
    cpu::RowAttention exact;
    exact.token_stride = exact.key_dim = width;
    exact.value_dim = rank;
    exact.kv_heads = 1;
    const Tensor mixed = each_chunk(
        q.flatten(1), rows, {exact, layer_cache, 0, heads * rank},
        [&](const BatchChunk& chunk, int64_t row) {
          keep(entries.narrow(0, row, chunk.count), layer_cache, 0, chunk);
        },
        [&](const BatchChunk& chunk, const Tensor& query) {
          const int64_t keys = chunk.first_position + chunk.count;
          const Tensor seen =
              blocks_of(layer_cache, chunk).flatten(0, 1).narrow(0, 0, keys).to(at::kFloat);
          const Tensor scores = at::matmul(
              query.view({chunk.count, heads, width}).transpose(0, 1).to(at::kFloat), seen.t());
          return at::matmul(softmax_seen(scores, hidden_keys(chunk, 0)), seen.narrow(1, 0, rank))
              .transpose(0, 1)
              .reshape({chunk.count, heads * rank});
        });
    return latent_values(mixed.view({-1, heads, rank}), layer, model_);
  }

  /// What attention of one layer reads, and how wide its output is.
  struct Mixing {
    cpu::RowAttention exact;  // with exact rows; offsets and sizes of an entry
    Tensor layer_cache;       // [blocks, …], blocks of all layers apart
    int64_t window = 0;       // [tokens]; 0: all keys
    int64_t columns = 0;      // of the output
  };
  /// Per chunk of `rows`: keep(chunk, first row), then its rows of `query` [rows, …] are mixed: by
  /// mix(chunk, rows), or with exact rows one by one. Returns [rows, mixing.columns].
  template <class Keep, class Mix>
  Tensor each_chunk(const Tensor& query, const Rows& rows, Mixing mixing, Keep keep, Mix mix) {
    Tensor mixed = at::empty({query.size(0), mixing.columns}, query.options());
    int64_t row = 0;
    for (const BatchChunk& chunk : rows.batch) {
      keep(chunk, row);
      const Tensor own = query.narrow(0, row, chunk.count);
      Tensor out = mixed.narrow(0, row, chunk.count);
      if (runner_.is_row_exact_)
        mix_exact(chunk, own.contiguous(), mixing, out);
      else
        out.copy_(mix(chunk, own));
      row += chunk.count;
    }
    return mixed;
  }

  void mix_exact(const BatchChunk& chunk, Tensor query, const Mixing& mixing, Tensor& out) {
    cpu::RowAttention args = mixing.exact;
    args.heads = model_.num_attention_heads;
    if (!model_.mla) query = query / std::sqrt(static_cast<double>(model_.head_dim));
    args.cache = mixing.layer_cache.data_ptr();
    args.is_bf16 = runner_.dtype_ == at::kBFloat16;
    args.blocks = chunk.blocks;
    args.block_tokens = block_tokens_;
    args.block_stride = mixing.layer_cache.stride(0);
    scores_.resize(static_cast<size_t>(args.heads / args.kv_heads) *
                   static_cast<size_t>(runner_.options_.max_context));
    args.scores = scores_.data();
    for (int64_t i = 0; i < chunk.count; ++i) {
      args.q = query.data_ptr<float>() + i * query.size(1);
      args.end = chunk.first_position + i + 1;
      args.begin = mixing.window > 0 ? std::max<int64_t>(args.end - mixing.window, 0) : 0;
      args.out = out.data_ptr<float>() + i * out.size(1);
      cpu::row_kernels().attention(args);
    }
  }

  Tensor indices(std::span<const int32_t> values) const {
    return at::tensor(at::ArrayRef<int32_t>(values.data(), values.size()), at::dtype(at::kInt))
        .to(runner_.tensor_options().device());
  }

  const AtenRunner& runner_;
  const ModelConfig& model_;
  int64_t block_tokens_;
  Tensor cache_;  // [blocks, layers, 2, block_tokens, kv_heads, head_dim], or of latents
                  // [blocks, layers, block_tokens, kv_lora_rank + qk_rope_head_dim]
  Tensor logits_;
  std::vector<float> scores_;  // of one row, with exact rows
  TpLink* link_;               // null: the whole model is here
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
