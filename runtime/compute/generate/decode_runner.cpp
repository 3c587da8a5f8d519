// The CPU f32 runner of generation: packed weights, hand-written kernels, no allocation per
// iteration.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/compute/generate/generation_runner.hpp"
#include "runtime/compute/generate/tp_link.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"

namespace cohort::compute {
namespace {

using cpu::CachedAttention;
using cpu::DecodeKernels;
using cpu::MatmulArgs;
using cpu::MatmulMode;

constexpr int64_t k_pad = 16;  // rows of activations are whole AVX-512 vectors

int64_t padded(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Where a [columns, depth] weight of the flat buffer lies in packed panels of [depth][panel].
struct Packed {
  int64_t source = 0;   // [elements] in the flat buffer
  int64_t offset = 0;   // [floats] on the card
  int64_t columns = 0;  // output features
  int64_t depth = 0;    // input features
  int64_t panels = 0;
  bool is_gate_up = false;  // a panel is half gate columns, half up columns
};

struct Vector {  // norm weight or bias; `offset` < 0: absent
  int64_t source = 0;
  int64_t offset = -1;
  int64_t count = 0;
};

/// The parts of a layer; a part is one or the other.
struct LayerWeights {
  model::ByPart<Packed> matrices;
  model::ByPart<Vector> vectors;
};

/// The plan of the card's weight bytes.
struct PackedLayout {
  std::vector<LayerWeights> layers;
  Packed embedding, lm_head;  // the same when tied
  Vector final_norm;
  bool is_tied = false;
  int64_t total_floats = 0;
};

PackedLayout plan_layout(const ModelConfig& c, int64_t panel) {
  const ParameterLayout flat = layout_of(c);
  PackedLayout plan;
  const auto blocks = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
  const auto matrix = [&](const PartSpan& part, bool is_gate_up = false) {
    Packed m{part.offset, plan.total_floats, part.rows, part.columns, 0, is_gate_up};
    m.panels = is_gate_up ? blocks(part.rows / 2, panel / 2) : blocks(part.rows, panel);
    plan.total_floats += m.panels * panel * m.depth;
    return m;
  };
  const auto vector = [&](const PartSpan& part) {
    const Vector v{part.offset, plan.total_floats, part.rows};
    plan.total_floats += padded(part.rows, std::max(panel, k_pad));
    return v;
  };
  plan.embedding = matrix(flat.embedding);
  for (const LayerParts& parts : flat.layers) {
    LayerWeights& w = plan.layers.emplace_back();
    for (size_t i = 0; i < model::k_parts; ++i) {
      const PartSpan& part = parts.items[i];
      if (part.offset < 0) continue;
      if (static_cast<Part>(i) == Part::gate_up_bias)  // in the panels' order, one deep
        w.matrices.items[i] = matrix({part.offset, part.rows, 1}, true);
      else if (part.columns > 0)
        w.matrices.items[i] = matrix(part, static_cast<Part>(i) == Part::gate_up);
      else
        w.vectors.items[i] = vector(part);
    }
  }
  plan.final_norm = vector(flat.final_norm);
  plan.is_tied = flat.is_tied();
  plan.lm_head = plan.is_tied ? plan.embedding : matrix(flat.lm_head);
  return plan;
}

/// Returns the first float of column `column`; depth element k lies k * panel further.
int64_t column_start(const Packed& m, int64_t column, int64_t panel) {
  int64_t width = panel;
  int64_t lane = 0;
  if (m.is_gate_up) {
    width = panel / 2;
    if (column >= m.columns / 2) {
      column -= m.columns / 2;
      lane = width;
    }
  }
  return m.offset + column / width * m.depth * panel + lane + column % width;
}

class CpuRunner final : public ModelRunner {
 public:
  explicit CpuRunner(const RunnerOptions& options)
      : options_(options), model_(options.model), kernels_(cpu::decode_kernels()) {
    COHORT_CHECK(options.block_tokens == cpu::k_kv_block_tokens, "kv blocks hold 16 tokens");
    plan_ = plan_layout(model_, kernels_.panel);
    flat_elements_ = layout_of(model_).total_elements;
    angles_ = model::rope_angles(model_.rope, model_.head_dim, options.max_context);
  }

  uint64_t flat_bytes() const override {
    return static_cast<uint64_t>(flat_elements_) * sizeof(float);
  }
  uint64_t card_bytes() const override {
    return static_cast<uint64_t>(plan_.total_floats) * sizeof(float);
  }
  uint64_t kv_block_bytes() const override {
    return static_cast<uint64_t>(layer_block_floats() * model_.num_hidden_layers) * sizeof(float);
  }
  void attach(std::span<std::byte> card) override {
    weights_ = card.empty() ? nullptr : reinterpret_cast<float*>(card.data());
  }

  Expected<void> load(std::span<const std::byte> flat) override {
    auto* source = const_cast<float*>(reinterpret_cast<const float*>(flat.data()));  // only read
    each_weight(source, flat.size(), [](float& packed, float& plain) { packed = plain; });
    return {};
  }

  Expected<void> store(std::span<std::byte> flat) const override {
    auto* target = reinterpret_cast<float*>(flat.data());
    std::fill_n(target, flat_elements_, 0.F);
    each_weight(target, flat.size(), [](float& packed, float& plain) { plain = packed; });
    return {};
  }

  std::unique_ptr<LaneRunner> make_lane(std::span<std::byte> cache, TpLink* link) override;

  int64_t head_dim_padded() const { return padded(model_.head_dim, k_pad); }
  int64_t layer_block_floats() const {
    return model_.num_key_value_heads * options_.block_tokens *
           (model_.head_dim + head_dim_padded());
  }
  /// Small layers stay in the CPU's caches, so activations should too; large ones are read from
  /// memory once per block of rows, so the block should be large. So it should where every block
  /// of rows waits for the other ranks twice a layer.
  int64_t rows_of_a_block() const {
    constexpr int64_t k_cached_layer_floats = int64_t{1} << 19;
    const int64_t layer = plan_.total_floats / model_.num_hidden_layers;
    const bool is_large = layer > k_cached_layer_floats || options_.tp.size > 1;
    return std::min<int64_t>(options_.batch_tokens, is_large ? 512 : 96);
  }

 private:
  friend class CpuLane;
  /// Calls move(packed, plain) for every weight on the card and in a flat buffer.
  template <class Move>
  void each_weight(float* flat, size_t size_bytes, Move move) const {
    COHORT_CHECK(weights_ != nullptr && size_bytes == flat_bytes(),
                 "PLACE-4: weights have no card");
    const int64_t panel = kernels_.panel;
    auto matrix = [&](const Packed& m) {
      for (int64_t column = 0; column < m.columns; ++column) {
        float* packed = weights_ + column_start(m, column, panel);
        float* plain = flat + m.source + column * m.depth;
        for (int64_t k = 0; k < m.depth; ++k) move(packed[k * panel], plain[k]);
      }
    };
    auto vector = [&](const Vector& v) {
      for (int64_t i = 0; i < v.count; ++i) move(weights_[v.offset + i], flat[v.source + i]);
    };
    matrix(plan_.embedding);
    for (const LayerWeights& w : plan_.layers) {
      for (const Packed& m : w.matrices.items) matrix(m);
      for (const Vector& v : w.vectors.items) vector(v);
    }
    vector(plan_.final_norm);
    if (!plan_.is_tied) matrix(plan_.lm_head);
  }

  RunnerOptions options_;
  ModelConfig model_;
  const DecodeKernels& kernels_;
  PackedLayout plan_;
  int64_t flat_elements_ = 0;
  float* weights_ = nullptr;
  model::RopeAngles angles_;  // of max_context positions
};

/// Scratch of one lane and the walk of a batch through the layers.
class CpuLane final : public LaneRunner {
 public:
  CpuLane(const CpuRunner& runner, std::span<std::byte> cache, TpLink* link)
      : runner_(runner),
        model_(runner.options_.model),
        kernels_(runner.kernels_),
        cache_(reinterpret_cast<float*>(cache.data())),
        link_(link) {
    const int64_t panel = kernels_.panel;
    const int64_t unit = std::max(panel, k_pad);
    hidden_ = padded(model_.hidden_size, unit);
    qkv_width_ = padded(model_.qkv_size(), unit);
    attention_width_ = padded(model_.q_size(), unit);
    ffn_width_ = padded(model_.intermediate_size, unit);
    vocab_width_ = padded(model_.vocab_size, unit);
    block_rows_ = runner.rows_of_a_block();
    auto floats = [](int64_t rows, int64_t columns) {
      return std::vector<float>(static_cast<size_t>(rows * columns), 0.F);
    };
    x_ = floats(block_rows_, hidden_);
    normed_ = floats(block_rows_, hidden_);
    qkv_ = floats(block_rows_, qkv_width_);
    attended_ = floats(block_rows_, attention_width_);
    ffn_ = floats(block_rows_, ffn_width_);
    scores_ = floats(cpu::k_attention_rows, padded(runner.options_.max_context, k_pad));
  }

  Expected<LogitsView> forward(std::span<const BatchChunk> batch) override {
    COHORT_CHECK(runner_.weights_ != nullptr, "PLACE-4: weights are not on the card");
    int64_t wanted = 0;
    for (const BatchChunk& chunk : batch) wanted += chunk.is_sampled ? 1 : 0;
    const auto sampled_floats = static_cast<size_t>(wanted * hidden_);
    if (sampled_.size() < sampled_floats) {
      sampled_.resize(sampled_floats);
      sampled_normed_.resize(sampled_floats);
      logits_.resize(static_cast<size_t>(wanted * vocab_width_));
    }
    sampled_count_ = 0;
    pieces_.clear();
    int64_t rows = 0;
    for (const BatchChunk& chunk : batch) {
      for (int64_t begin = 0; begin < chunk.count;) {
        const int64_t count = std::min(chunk.count - begin, block_rows_ - rows);
        pieces_.push_back({&chunk, begin, count, rows});
        begin += count;
        rows += count;
        if (rows == block_rows_) {
          COHORT_TRY(run_block(rows));
          pieces_.clear();
          rows = 0;
        }
      }
    }
    if (rows > 0) COHORT_TRY(run_block(rows));
    if (sampled_count_ == 0) return LogitsView{};
    return sampled_logits();
  }

 private:
  struct Piece {  // rows of one chunk inside a block of rows
    const BatchChunk* chunk;
    int64_t begin;  // first row of the chunk
    int64_t count;
    int64_t row;  // first row in the block
  };

  Expected<void> run_block(int64_t rows) {
    COHORT_TRY(embed());
    for (size_t layer = 0; layer < runner_.plan_.layers.size(); ++layer)
      COHORT_TRY(run_layer(layer, rows));
    keep_sampled_rows();
    return {};
  }

  /// Fills the rows whose tokens are in this rank's part of the vocabulary, gets the others.
  Expected<void> embed() {
    const Packed& table = runner_.plan_.embedding;
    const float* weights = runner_.weights_;
    const int64_t first_token = runner_.options_.tp.rank * model_.vocab_size;
    owners_.clear();
    for (const Piece& piece : pieces_) {
      for (int64_t i = 0; i < piece.count; ++i) {
        const int64_t token = piece.chunk->tokens[piece.begin + i];
        owners_.push_back(static_cast<int32_t>(token / model_.vocab_size));
        if (owners_.back() != runner_.options_.tp.rank) continue;
        const float* from = weights + column_start(table, token - first_token, kernels_.panel);
        float* to = x_.data() + (piece.row + i) * hidden_;
        for (int64_t k = 0; k < model_.hidden_size; ++k) to[k] = from[k * kernels_.panel];
      }
    }
    if (link_ == nullptr) return {};
    return link_->spread_rows(owners_, x_.data(), hidden_);
  }

  Expected<void> run_layer(size_t layer, int64_t rows) {
    const LayerWeights& w = runner_.plan_.layers[layer];
    const float* weights = runner_.weights_;
    const auto eps = static_cast<float>(model_.rms_norm_eps);
    kernels_.rms_norm(x_.data(), rows, model_.hidden_size, hidden_,
                      weights + w.vectors[Part::input_norm].offset, eps, normed_.data());
    matmul(normed_.data(), hidden_, rows, w.matrices[Part::qkv], qkv_.data(), qkv_width_,
           MatmulMode::store, w.vectors[Part::qkv_bias].offset);
    if (model_.qk_norm) norm_heads(w, rows);
    const int64_t layer_floats = runner_.layer_block_floats();
    CachedAttention args;
    args.ld_qkv = qkv_width_;
    args.ldo = attention_width_;
    args.cache = cache_ + static_cast<int64_t>(layer) * layer_floats;
    args.block_stride = layer_floats * model_.num_hidden_layers;
    args.heads = model_.num_attention_heads;
    args.kv_heads = model_.num_key_value_heads;
    args.head_dim = model_.head_dim;
    args.head_dim_padded = runner_.head_dim_padded();
    args.window = model_.window_of(static_cast<int64_t>(layer));
    args.cosines = runner_.angles_.cos.data();
    args.sines = runner_.angles_.sin.data();
    args.scratch = scores_.data();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (i + 1 < pieces_.size()) prefetch_keys(pieces_[i + 1], args);
      args.qkv = qkv_.data() + piece.row * qkv_width_;
      args.out = attended_.data() + piece.row * attention_width_;
      args.rows = piece.count;
      args.first_position = piece.chunk->first_position + piece.begin;
      args.blocks = piece.chunk->blocks;
      kernels_.rope_and_cache(args);
      kernels_.attention(args);
    }
    COHORT_TRY(add_product(attended_.data(), attention_width_, rows, w.matrices[Part::o],
                           w.vectors[Part::o_bias]));
    kernels_.rms_norm(x_.data(), rows, model_.hidden_size, hidden_,
                      weights + w.vectors[Part::post_norm].offset, eps, normed_.data());
    const Packed& gate_up_bias = w.matrices[Part::gate_up_bias];
    matmul(normed_.data(), hidden_, rows, w.matrices[Part::gate_up], ffn_.data(), ffn_width_,
           MatmulMode::swiglu, gate_up_bias.columns > 0 ? gate_up_bias.offset : -1);
    return add_product(ffn_.data(), ffn_width_, rows, w.matrices[Part::down],
                       w.vectors[Part::down_bias]);
  }

  /// Norms each query and key head of the rows by itself.
  void norm_heads(const LayerWeights& w, int64_t rows) {
    const int64_t dim = model_.head_dim, width = runner_.head_dim_padded();
    const auto eps = static_cast<float>(model_.rms_norm_eps);
    head_.resize(static_cast<size_t>(2 * width));
    float *from = head_.data(), *to = head_.data() + width;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t h = 0; h < model_.num_attention_heads + model_.num_key_value_heads; ++h) {
        float* head = qkv_.data() + row * qkv_width_ + h * dim;
        const Part part = h < model_.num_attention_heads ? Part::q_norm : Part::k_norm;
        std::copy_n(head, dim, from);
        kernels_.rms_norm(from, 1, dim, width, runner_.weights_ + w.vectors[part].offset, eps, to);
        std::copy_n(to, dim, head);
      }
  }

  /// x += a w + bias, over all ranks: each has a part of the summed index, and the whole bias.
  Expected<void> add_product(const float* a, int64_t lda, int64_t rows, const Packed& w,
                             const Vector& bias) {
    if (link_ == nullptr) {
      matmul(a, lda, rows, w, x_.data(), hidden_, MatmulMode::add, bias.offset);
      return {};
    }
    matmul(a, lda, rows, w, link_->partials(rows, hidden_), hidden_, MatmulMode::store);
    COHORT_TRY(link_->add_partials(x_.data(), rows, hidden_));
    for (int64_t row = 0; row < rows && bias.offset >= 0; ++row)
      for (int64_t i = 0; i < bias.count; ++i)
        x_[static_cast<size_t>(row * hidden_ + i)] += runner_.weights_[bias.offset + i];
    return {};
  }

  Expected<LogitsView> sampled_logits() {
    const PackedLayout& plan = runner_.plan_;
    kernels_.rms_norm(sampled_.data(), sampled_count_, model_.hidden_size, hidden_,
                      runner_.weights_ + plan.final_norm.offset,
                      static_cast<float>(model_.rms_norm_eps), sampled_normed_.data());
    matmul(sampled_normed_.data(), hidden_, sampled_count_, plan.lm_head, logits_.data(),
           vocab_width_, MatmulMode::store);
    if (link_ == nullptr) return LogitsView{logits_.data(), vocab_width_};
    COHORT_ASSIGN(const float* whole, link_->gather_columns(logits_.data(), sampled_count_,
                                                            model_.vocab_size, vocab_width_));
    return LogitsView{whole, model_.vocab_size * link_->size()};
  }

  /// Asks for the cached keys and values of the next sequence: its blocks lie scattered, which the
  /// hardware's prefetcher does not see.
  void prefetch_keys(const Piece& piece, const CachedAttention& args) const {
    constexpr int64_t k_line_floats = 16;
    const int64_t keys = piece.chunk->first_position + piece.begin;
    for (int64_t begin = 0; begin < keys; begin += runner_.options_.block_tokens) {
      const float* block = args.cache + piece.chunk->blocks[begin / runner_.options_.block_tokens] *
                                            args.block_stride;
      for (int64_t i = 0; i < runner_.layer_block_floats(); i += k_line_floats)
        __builtin_prefetch(block + i);
    }
  }

  void keep_sampled_rows() {
    for (const Piece& piece : pieces_) {
      if (!piece.chunk->is_sampled || piece.begin + piece.count != piece.chunk->count) continue;
      std::copy_n(x_.data() + (piece.row + piece.count - 1) * hidden_, hidden_,
                  sampled_.data() + sampled_count_ * hidden_);
      ++sampled_count_;
    }
  }

  void matmul(const float* a, int64_t lda, int64_t rows, const Packed& w, float* out, int64_t ldo,
              MatmulMode mode, int64_t bias = -1) const {
    const float* weights = runner_.weights_;
    MatmulArgs args;
    args.a = a;
    args.lda = lda;
    args.rows = rows;
    args.depth = w.depth;
    args.weights = weights + w.offset;
    args.panels = w.panels;
    args.bias = bias >= 0 ? weights + bias : nullptr;
    args.out = out;
    args.ldo = ldo;
    args.mode = mode;
    kernels_.matmul(args);
  }

  const CpuRunner& runner_;
  const ModelConfig& model_;
  const DecodeKernels& kernels_;
  float* cache_;
  TpLink* link_;  // null: the whole model is here
  int64_t hidden_, qkv_width_, attention_width_, ffn_width_, vocab_width_;
  int64_t block_rows_;
  std::vector<Piece> pieces_;
  std::vector<float> head_;  // one head, before and behind its norm
  std::vector<float> x_, normed_, qkv_, attended_, ffn_, sampled_, sampled_normed_, logits_,
      scores_;
  std::vector<int32_t> owners_;  // of the rows' embeddings, by rank
  int64_t sampled_count_ = 0;
};

std::unique_ptr<LaneRunner> CpuRunner::make_lane(std::span<std::byte> cache, TpLink* link) {
  return std::make_unique<CpuLane>(*this, cache, link);
}

}  // namespace

std::unique_ptr<ModelRunner> make_cpu_runner(const RunnerOptions& options) {
  return std::make_unique<CpuRunner>(options);
}

}  // namespace cohort::compute
