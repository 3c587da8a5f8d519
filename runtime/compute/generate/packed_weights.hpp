#pragma once
/// How the CPU runner lays a model's weights on its card: matrices in panels of columns for the
/// decode kernels, norm weights and biases as f32. Moving a flat buffer there and back is exact to
/// the bit. No torch; no allocation of weights.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

/// Where a [columns, depth] weight of the flat buffer lies in panels of [words of depth][panel].
struct PackedMatrix {
  int64_t source = 0;   // [elements] in the flat buffer
  int64_t offset = 0;   // [words of 4 bytes] on the card
  int64_t columns = 0;  // output features
  int64_t depth = 0;    // input features
  int64_t words = 0;    // of the depth
  int64_t panels = 0;
  bool is_gate_up = false;  // a panel is half gate columns, half up columns
  bool is_f32 = false;      // a word is one number
};

struct PackedVector {  // norm weight or bias, f32; `offset` < 0: absent
  int64_t source = 0;
  int64_t offset = -1;
  int64_t count = 0;
};

/// The parts of a layer; a part is one or the other. The bias of gate_up is a matrix of f32 words,
/// one deep, in the order of its panels.
struct PackedLayer {
  model::ByPart<PackedMatrix> matrices;
  model::ByPart<PackedVector> vectors;
};

/// The plan of a card's weight bytes.
class PackedWeights {
 public:
  /// `panel`: columns of a panel (DecodeKernels::panel). The model's dtype is f32 or bf16.
  PackedWeights(const ModelConfig& model, int64_t panel);

  uint64_t flat_bytes() const;
  uint64_t card_bytes() const;
  bool is_bf16() const { return is_bf16_; }
  /// Returns the first word of column `column`; the next of its words lies `panel` words further.
  int64_t column_start(const PackedMatrix& m, int64_t column) const;

  /// Reads elements of the flat buffer from `begin` on, as many as `to` holds. Called from several
  /// threads at once.
  using FlatReader = std::function<void(int64_t begin, std::span<std::byte> to)>;
  /// Writes every weight to `card` (card_bytes, zeros where no weight is), on `threads` threads at
  /// most: each is read once, a panel at a time, so that there is no second copy of the model.
  void pack(const FlatReader& read, std::byte* card, uint32_t threads) const;
  /// Writes every weight of `flat` to `card` (card_bytes, zeros where no weight is), on `threads`
  /// threads at most.
  void pack(std::span<const std::byte> flat, std::byte* card, uint32_t threads) const;
  /// The inverse; what is between the weights of `flat` becomes zero.
  void unpack(const std::byte* card, std::span<std::byte> flat, uint32_t threads) const;

  std::vector<PackedLayer> layers;
  PackedMatrix embedding, lm_head;  // the same when tied
  PackedVector final_norm;
  bool is_tied = false;

 private:
  struct Panel {  // one task of pack() and unpack()
    const PackedMatrix* matrix;
    int64_t index;
  };
  PackedMatrix plan_matrix(const PartSpan& part, bool is_gate_up, bool is_f32);
  PackedVector plan_vector(const PartSpan& part);
  void plan_layer(const LayerParts& parts);
  std::vector<Panel> panels() const;
  template <class Visit>
  void each_vector(Visit visit) const;
  /// Where the columns of a panel begin in the flat buffer, and how many there are; gate_up has two
  /// sides, the others one.
  struct Side {
    int64_t begin = 0, columns = 0;
  };
  std::array<Side, 2> sides_of(const Panel& panel) const;
  template <bool IsPack>
  void move_panel(const Panel& panel, const std::array<std::byte*, 2>& plain,
                  std::byte* card) const;
  template <bool IsPack>
  void move_vector(const PackedVector& v, std::byte* plain, std::byte* card) const;
  template <bool IsPack>
  void move(std::byte* flat, std::byte* card, uint32_t threads) const;
  uint32_t useful_threads(uint32_t threads) const;

  int64_t panel_;
  bool is_bf16_;
  int64_t element_bytes_;
  int64_t total_words_ = 0;
  int64_t flat_elements_ = 0;
};

}  // namespace cohort::compute
