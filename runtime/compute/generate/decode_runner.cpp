// The CPU runner of generation in f32 and bf16: packed weights, hand-written kernels, no allocation
// per iteration. bf16: weights, keys, values and what goes into a product are bf16, everything else
// is f32. The threads of a lane share each product by columns and attention by sequence and head.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/compute/generate/generation_runner.hpp"
#include "runtime/compute/generate/packed_weights.hpp"
#include "runtime/compute/generate/tp_link.hpp"
#include "runtime/compute/generate/work_team.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute {
namespace {

using cpu::DecodeKernels;
using cpu::MatmulMode;

constexpr uint64_t k_word_bytes = 4;
constexpr int64_t k_pad = 16;  // rows of activations are whole AVX-512 vectors

int64_t padded(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Rows a multiple of 4 KiB apart share the sets of the CPU's caches, and drive one another out as
/// a product writes a column of them: one cache line more keeps them apart.
int64_t spread(int64_t floats) { return floats % 1024 == 0 ? floats + k_pad : floats; }

/// The kernels of one kind of words.
template <class Words>
struct KernelsOf;
template <>
struct KernelsOf<cpu::F32Words> {
  static void matmul(const DecodeKernels& k, const cpu::MatmulArgs& args) { k.matmul(args); }
  static void rope_and_cache(const DecodeKernels& k, const cpu::CachedAttention& args) {
    k.rope_and_cache(args);
  }
  static void attention(const DecodeKernels& k, const cpu::CachedAttention& args) {
    k.attention(args);
  }
};
template <>
struct KernelsOf<cpu::Bf16Words> {
  static void matmul(const DecodeKernels& k, const cpu::Bf16MatmulArgs& args) {
    k.matmul_bf16(args);
  }
  static void rope_and_cache(const DecodeKernels& k, const cpu::Bf16CachedAttention& args) {
    k.rope_and_cache_bf16(args);
  }
  static void attention(const DecodeKernels& k, const cpu::Bf16CachedAttention& args) {
    k.attention_bf16(args);
  }
};

class CpuRunner final : public ModelRunner {
 public:
  explicit CpuRunner(const RunnerOptions& options)
      : options_(options),
        model_(options.model),
        kernels_(cpu::decode_kernels()),
        plan_(options.model, kernels_.panel) {
    COHORT_CHECK(options.block_tokens == cpu::k_kv_block_tokens, "kv blocks hold 16 tokens");
    angles_ = model::rope_angles(model_.rope, model_.head_dim, options.max_context);
  }

  uint64_t flat_bytes() const override { return plan_.flat_bytes(); }
  uint64_t card_bytes() const override { return plan_.card_bytes(); }
  uint64_t kv_block_bytes() const override {
    return static_cast<uint64_t>(layer_block_words() * model_.num_hidden_layers) * k_word_bytes;
  }
  void attach(std::span<std::byte> card) override {
    weights_ = card.empty() ? nullptr : card.data();
  }

  Expected<void> load(std::span<const std::byte> flat) override {
    COHORT_CHECK(weights_ != nullptr && flat.size() == flat_bytes(),
                 "PLACE-4: weights have no card");
    plan_.pack(flat, weights_, options_.threads);
    return {};
  }

  bool load_from(const FlatReader& read) override {
    COHORT_CHECK(weights_ != nullptr, "PLACE-4: weights have no card");
    plan_.pack(read, weights_, options_.threads);
    return true;
  }

  Expected<void> store(std::span<std::byte> flat) const override {
    COHORT_CHECK(weights_ != nullptr && flat.size() == flat_bytes(),
                 "PLACE-4: weights have no card");
    plan_.unpack(weights_, flat, options_.threads);
    return {};
  }

  std::unique_ptr<LaneRunner> make_lane(std::span<std::byte> cache, TpLink* link) override;

  int64_t head_dim_padded() const { return padded(model_.head_dim, k_pad); }
  /// Words of one layer's keys and values in a block.
  int64_t layer_block_words() const {
    const int64_t tokens = options_.block_tokens;
    const int64_t per_word = plan_.is_bf16() ? 2 : 1;
    const int64_t keys = (model_.head_dim + per_word - 1) / per_word * tokens;
    return model_.num_key_value_heads * (keys + tokens / per_word * head_dim_padded());
  }
  /// Small layers stay in the CPU's caches, so activations should too; large ones are read from
  /// memory once per block of rows, so the block should be large. So it should where every block
  /// of rows waits for the other ranks twice a layer.
  int64_t rows_of_a_block() const {
    constexpr uint64_t k_cached_layer_bytes = uint64_t{2} << 20;
    const uint64_t layer = card_bytes() / static_cast<uint64_t>(model_.num_hidden_layers);
    const bool is_large = layer > k_cached_layer_bytes || options_.tp.size > 1;
    return std::min<int64_t>(options_.batch_tokens, is_large ? 512 : 96);
  }

 private:
  template <class Words>
  friend class CpuLane;
  const float* floats(int64_t offset) const {
    return reinterpret_cast<const float*>(weights_) + offset;
  }

  RunnerOptions options_;
  ModelConfig model_;
  const DecodeKernels& kernels_;
  PackedWeights plan_;
  std::byte* weights_ = nullptr;
  model::RopeAngles angles_;  // of max_context positions
};

/// Scratch of one lane and the walk of a batch through the layers.
template <class Words>
class CpuLane final : public LaneRunner {
  using Word = typename Words::Word;
  using Kernels = KernelsOf<Words>;
  using Attention = cpu::CachedAttentionOf<Words>;

 public:
  CpuLane(const CpuRunner& runner, std::span<std::byte> cache, TpLink* link)
      : runner_(runner),
        model_(runner.options_.model),
        kernels_(runner.kernels_),
        cache_(reinterpret_cast<Word*>(cache.data())),
        link_(link),
        team_(runner.options_.threads) {
    const int64_t panel = kernels_.panel;
    const int64_t unit = std::max(panel, k_pad);
    hidden_ = padded(model_.hidden_size, unit);
    qkv_width_ = padded(model_.qkv_size(), unit);
    attention_width_ = padded(model_.q_size(), unit);
    ffn_width_ = padded(model_.intermediate_size, unit);
    vocab_width_ = spread(padded(model_.vocab_size, unit));
    block_rows_ = runner.rows_of_a_block();
    auto floats = [](int64_t rows, int64_t columns) {
      return std::vector<float>(static_cast<size_t>(rows * columns), 0.F);
    };
    x_ = floats(block_rows_, hidden_);
    normed_ = floats(block_rows_, hidden_);
    qkv_ = floats(block_rows_, qkv_width_);
    attended_ = floats(block_rows_, attention_width_);
    ffn_ = floats(block_rows_, ffn_width_);
    scratch_floats_ =
        padded(cpu::cached_attention_floats(runner.options_.max_context, model_.head_dim), k_pad);
    scores_ = floats(team_.size(), scratch_floats_);
    head_width_ = 2 * runner.head_dim_padded();
    heads_ = floats(team_.size(), head_width_);
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

  uint32_t members() const override { return team_.size(); }
  void share(int64_t count, const Work& work) override {
    team_.run(count, 1, [&work](int64_t begin, int64_t end, uint32_t member) {
      for (int64_t item = begin; item < end; ++item) work(item, member);
    });
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
    const PackedMatrix& table = runner_.plan_.embedding;
    const Word* weights = words(0);
    const int64_t first_token = runner_.options_.tp.rank * model_.vocab_size;
    owners_.clear();
    for (const Piece& piece : pieces_) {
      for (int64_t i = 0; i < piece.count; ++i) {
        const int64_t token = piece.chunk->tokens[piece.begin + i];
        owners_.push_back(static_cast<int32_t>(token / model_.vocab_size));
        if (owners_.back() != runner_.options_.tp.rank) continue;
        const Word* from = weights + runner_.plan_.column_start(table, token - first_token);
        float* to = x_.data() + (piece.row + i) * hidden_;
        for (int64_t k = 0; k < model_.hidden_size; ++k)
          to[k] = number(from[k / Words::k_per_word * kernels_.panel], k);
      }
    }
    if (link_ == nullptr) return {};
    return link_->spread_rows(owners_, x_.data(), hidden_);
  }

  /// Returns the number at index k of a column, whose word it is in.
  static float number(float word, int64_t) { return word; }
  static float number(uint32_t word, int64_t k) {
    return from_bf16(static_cast<uint16_t>(k % 2 == 0 ? word : word >> 16));
  }

  Expected<void> run_layer(size_t layer, int64_t rows) {
    const PackedLayer& w = runner_.plan_.layers[layer];
    norm(x_.data(), rows, w.vectors[Part::input_norm], normed_.data());
    matmul(normed_.data(), hidden_, rows, w.matrices[Part::qkv], qkv_.data(), qkv_width_,
           MatmulMode::store, w.vectors[Part::qkv_bias].offset);
    if (model_.qk_norm) norm_heads(w, rows);
    attend(layer);
    COHORT_TRY(add_product(attended_.data(), attention_width_, rows, w.matrices[Part::o],
                           w.vectors[Part::o_bias]));
    norm(x_.data(), rows, w.vectors[Part::post_norm], normed_.data());
    const PackedMatrix& gate_up_bias = w.matrices[Part::gate_up_bias];
    matmul(normed_.data(), hidden_, rows, w.matrices[Part::gate_up], ffn_.data(), ffn_width_,
           MatmulMode::swiglu, gate_up_bias.columns > 0 ? gate_up_bias.offset : -1);
    return add_product(ffn_.data(), ffn_width_, rows, w.matrices[Part::down],
                       w.vectors[Part::down_bias]);
  }

  void norm(const float* x, int64_t rows, const PackedVector& weight, float* out) {
    const auto eps = static_cast<float>(model_.rms_norm_eps);
    team_.run(rows, k_row_grain, [&](int64_t begin, int64_t end, uint32_t) {
      kernels_.rms_norm(x + begin * hidden_, end - begin, model_.hidden_size, hidden_,
                        runner_.floats(weight.offset), eps, out + begin * hidden_);
    });
  }

  /// Norms each query and key head of the rows by itself.
  void norm_heads(const PackedLayer& w, int64_t rows) {
    const int64_t dim = model_.head_dim, width = head_width_ / 2;
    const auto eps = static_cast<float>(model_.rms_norm_eps);
    const auto work = [&](int64_t begin, int64_t end, uint32_t member) {
      float *from = heads_.data() + member * head_width_, *to = from + width;
      for (int64_t row = begin; row < end; ++row)
        for (int64_t h = 0; h < model_.num_attention_heads + model_.num_key_value_heads; ++h) {
          float* head = qkv_.data() + row * qkv_width_ + h * dim;
          const Part part = h < model_.num_attention_heads ? Part::q_norm : Part::k_norm;
          std::copy_n(head, dim, from);
          kernels_.rms_norm(from, 1, dim, width, runner_.floats(w.vectors[part].offset), eps, to);
          std::copy_n(to, dim, head);
        }
    };
    team_.run(rows, k_row_grain, work);
  }

  /// Rotates, caches and attends: one task per piece and KV head.
  void attend(size_t layer) {
    const int64_t layer_words = runner_.layer_block_words();
    Attention args;
    args.ld_qkv = qkv_width_;
    args.ldo = attention_width_;
    args.cache = cache_ + static_cast<int64_t>(layer) * layer_words;
    args.block_stride = layer_words * model_.num_hidden_layers;
    args.heads = model_.num_attention_heads;
    args.kv_heads = model_.num_key_value_heads;
    args.head_dim = model_.head_dim;
    args.head_dim_padded = runner_.head_dim_padded();
    args.window = model_.window_of(static_cast<int64_t>(layer));
    args.cosines = runner_.angles_.cos.data();
    args.sines = runner_.angles_.sin.data();
    const int64_t heads = model_.num_key_value_heads;
    const auto work = [&](int64_t begin, int64_t end, uint32_t member) {
      Attention mine = args;
      mine.scratch = scores_.data() + member * scratch_floats_;
      for (int64_t task = begin; task < end; task += mine.end_kv_head - mine.first_kv_head) {
        const auto piece = static_cast<size_t>(task / heads);
        mine.first_kv_head = task % heads;
        mine.end_kv_head = std::min(heads, mine.first_kv_head + end - task);
        if (piece + 1 < pieces_.size()) prefetch_keys(pieces_[piece + 1], args);
        attend_piece(pieces_[piece], mine);
      }
    };
    team_.run(static_cast<int64_t>(pieces_.size()) * heads, 1, work);
  }

  void attend_piece(const Piece& piece, Attention& args) {
    args.qkv = qkv_.data() + piece.row * qkv_width_;
    args.out = attended_.data() + piece.row * attention_width_;
    args.rows = piece.count;
    args.first_position = piece.chunk->first_position + piece.begin;
    args.blocks = piece.chunk->blocks;
    Kernels::rope_and_cache(kernels_, args);
    Kernels::attention(kernels_, args);
  }

  /// x += a w + bias, over all ranks: each has a part of the summed index, and the whole bias.
  Expected<void> add_product(const float* a, int64_t lda, int64_t rows, const PackedMatrix& w,
                             const PackedVector& bias) {
    if (link_ == nullptr) {
      matmul(a, lda, rows, w, x_.data(), hidden_, MatmulMode::add, bias.offset);
      return {};
    }
    matmul(a, lda, rows, w, link_->partials(rows, hidden_), hidden_, MatmulMode::store);
    COHORT_TRY(link_->add_partials(x_.data(), rows, hidden_));
    for (int64_t row = 0; row < rows && bias.offset >= 0; ++row)
      for (int64_t i = 0; i < bias.count; ++i)
        x_[static_cast<size_t>(row * hidden_ + i)] += runner_.floats(bias.offset)[i];
    return {};
  }

  Expected<LogitsView> sampled_logits() {
    const PackedWeights& plan = runner_.plan_;
    norm(sampled_.data(), sampled_count_, plan.final_norm, sampled_normed_.data());
    matmul(sampled_normed_.data(), hidden_, sampled_count_, plan.lm_head, logits_.data(),
           vocab_width_, MatmulMode::store);
    if (link_ == nullptr) return LogitsView{logits_.data(), vocab_width_};
    COHORT_ASSIGN(const float* whole, link_->gather_columns(logits_.data(), sampled_count_,
                                                            model_.vocab_size, vocab_width_));
    return LogitsView{whole, model_.vocab_size * link_->size()};
  }

  /// Asks for the cached keys and values of the next sequence: its blocks lie scattered, which the
  /// hardware's prefetcher does not see. No more than stays in the CPU's second cache.
  void prefetch_keys(const Piece& piece, const Attention& args) const {
    constexpr int64_t k_line_words = 16, k_prefetched_words = int64_t{1} << 16;
    const int64_t words = runner_.layer_block_words();
    const int64_t tokens = runner_.options_.block_tokens;
    const int64_t blocks = (piece.chunk->first_position + piece.begin + tokens - 1) / tokens;
    for (int64_t i = 0; i < blocks && (i + 1) * words <= k_prefetched_words; ++i) {
      const Word* block = args.cache + piece.chunk->blocks[i] * args.block_stride;
      for (int64_t at = 0; at < words; at += k_line_words) __builtin_prefetch(block + at);
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

  void matmul(const float* a, int64_t lda, int64_t rows, const PackedMatrix& w, float* out,
              int64_t ldo, MatmulMode mode, int64_t bias = -1) {
    cpu::MatmulArgsOf<Words> args;
    args.is_tiled = Words::k_per_word > 1 && kernels_.to_tiles != nullptr &&
                    rows > cpu::k_bf16_tile_rows && w.depth % cpu::k_bf16_tile_depth == 0;
    args.a = args.is_tiled ? tiles(a, lda, rows, w.depth) : activations(a, lda, rows);
    args.lda = lda;
    args.rows = rows;
    args.depth = w.depth;
    args.weights = words(w.offset);
    args.bias = bias >= 0 ? runner_.floats(bias) : nullptr;
    args.out = out;
    args.ldo = ldo;
    args.mode = mode;
    // One row: the kernel takes four panels at once.
    team_.run(w.panels, rows == 1 ? 4 : 1, [&](int64_t begin, int64_t end, uint32_t) {
      cpu::MatmulArgsOf<Words> mine = args;
      mine.first_panel = begin;
      mine.panels = end;
      Kernels::matmul(kernels_, mine);
    });
  }

  /// Returns the rows in bf16 in the order of tiles.
  const typename Words::Activation* tiles(const float* a, int64_t lda, int64_t rows,
                                          int64_t depth) {
    if constexpr (Words::k_per_word == 1) {
      return a;
    } else {
      const int64_t padded =
          (rows + cpu::k_bf16_tile_rows - 1) / cpu::k_bf16_tile_rows * cpu::k_bf16_tile_rows;
      const auto count = static_cast<size_t>(padded * depth);
      if (rounded_.size() < count) rounded_.resize(count);
      team_.run(rows, k_row_grain, [&](int64_t begin, int64_t end, uint32_t) {
        kernels_.to_tiles(a, lda, begin, end - begin, depth, rounded_.data());
      });
      return rounded_.data();
    }
  }

  /// Returns the rows as products take them.
  const typename Words::Activation* activations(const float* a, int64_t lda, int64_t rows) {
    if constexpr (Words::k_per_word == 1) {
      return a;
    } else {
      const auto count = static_cast<size_t>(rows * lda);
      if (rounded_.size() < count) rounded_.resize(count);
      team_.run(rows, k_row_grain, [&](int64_t begin, int64_t end, uint32_t) {
        kernels_.to_bf16(a + begin * lda, (end - begin) * lda, rounded_.data() + begin * lda);
      });
      return rounded_.data();
    }
  }

  const Word* words(int64_t offset) const {
    return reinterpret_cast<const Word*>(runner_.weights_) + offset;
  }

  static constexpr int64_t k_row_grain = 8;  // rows: fewer are not worth a second thread

  const CpuRunner& runner_;
  const ModelConfig& model_;
  const DecodeKernels& kernels_;
  Word* cache_;
  TpLink* link_;  // null: the whole model is here
  WorkTeam team_;
  int64_t hidden_, qkv_width_, attention_width_, ffn_width_, vocab_width_;
  int64_t block_rows_;
  std::vector<Piece> pieces_;
  std::vector<float> x_, normed_, qkv_, attended_, ffn_, sampled_, sampled_normed_, logits_;
  int64_t scratch_floats_ = 0, head_width_ = 0;
  std::vector<float> scores_;      // [members][scratch_floats_]
  std::vector<float> heads_;       // [members][head_width_]: one head, before and behind its norm
  std::vector<uint16_t> rounded_;  // activations of a product in bf16
  std::vector<int32_t> owners_;    // of the rows' embeddings, by rank
  int64_t sampled_count_ = 0;
};

std::unique_ptr<LaneRunner> CpuRunner::make_lane(std::span<std::byte> cache, TpLink* link) {
  if (plan_.is_bf16()) return std::make_unique<CpuLane<cpu::Bf16Words>>(*this, cache, link);
  return std::make_unique<CpuLane<cpu::F32Words>>(*this, cache, link);
}

}  // namespace

std::unique_ptr<ModelRunner> make_cpu_runner(const RunnerOptions& options) {
  return std::make_unique<CpuRunner>(options);
}

}  // namespace cohort::compute
