#include "runtime/compute/generate/packed_weights.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/compute/generate/work_team.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"
#include "runtime/compute/train/bf16.hpp"

namespace cohort::compute {
namespace {

constexpr int64_t k_word_bytes = 4;
constexpr int64_t k_vector_floats = 16;  // vectors are whole AVX-512 registers

int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// Copies one column: its words lie `stride` words apart on the card, together in `flat`.
template <bool IsPack>
void move_words(uint32_t* packed, int64_t stride, std::byte* plain, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    if constexpr (IsPack)
      std::memcpy(packed + k * stride, plain + k * k_word_bytes, k_word_bytes);
    else
      std::memcpy(plain + k * k_word_bytes, packed + k * stride, k_word_bytes);
  }
}

/// The last bf16 of an odd depth: the low half of a word.
template <bool IsPack>
void move_half(uint32_t& packed, std::byte* plain) {
  auto half = static_cast<uint16_t>(packed);
  if constexpr (!IsPack) std::memcpy(plain, &half, sizeof half);
  if constexpr (IsPack) {
    std::memcpy(&half, plain, sizeof half);
    packed = half;
  }
}

/// An f32 on the card that is bf16 in the flat buffer: exact both ways.
template <bool IsPack>
void move_wide(float& packed, std::byte* plain) {
  uint16_t half = 0;
  if constexpr (IsPack) {
    std::memcpy(&half, plain, sizeof half);
    packed = from_bf16(half);
  } else {
    uint32_t bits = 0;  // not rounded: the low half is zero, and a NaN keeps its bits
    std::memcpy(&bits, &packed, sizeof bits);
    half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(plain, &half, sizeof half);
  }
}

}  // namespace

PackedWeights::PackedWeights(const ModelConfig& model, int64_t panel)
    : panel_(panel),
      is_bf16_(model.dtype == tensor::Dtype::bf16),
      element_bytes_(is_bf16_ ? 2 : 4) {
  const ParameterLayout flat = layout_of(model);
  flat_elements_ = flat.total_elements;
  embedding = plan_matrix(flat.embedding, false, !is_bf16_);
  for (const LayerParts& parts : flat.layers) plan_layer(parts);
  final_norm = plan_vector(flat.final_norm);
  is_tied = flat.is_tied();
  lm_head = is_tied ? embedding : plan_matrix(flat.lm_head, false, !is_bf16_);
}

void PackedWeights::plan_layer(const LayerParts& parts) {
  PackedLayer& w = layers.emplace_back();
  for (size_t i = 0; i < model::k_parts; ++i) {
    const PartSpan& part = parts.items[i];
    if (part.offset < 0) continue;
    if (static_cast<Part>(i) == Part::gate_up_bias)
      w.matrices.items[i] = plan_matrix({part.offset, part.rows, 1}, true, true);
    else if (part.columns > 0)
      w.matrices.items[i] = plan_matrix(part, static_cast<Part>(i) == Part::gate_up, !is_bf16_);
    else
      w.vectors.items[i] = plan_vector(part);
  }
}

PackedMatrix PackedWeights::plan_matrix(const PartSpan& part, bool is_gate_up, bool is_f32) {
  PackedMatrix m{part.offset, total_words_, part.rows, part.columns, 0, 0, is_gate_up, is_f32};
  m.words = is_f32 ? m.depth : cpu::words_of<cpu::Bf16Words>(m.depth);
  m.panels = is_gate_up ? blocks(part.rows / 2, panel_ / 2) : blocks(part.rows, panel_);
  total_words_ += m.panels * panel_ * m.words;
  return m;
}

PackedVector PackedWeights::plan_vector(const PartSpan& part) {
  const PackedVector v{part.offset, total_words_, part.rows};
  const int64_t unit = std::max(panel_, k_vector_floats);
  total_words_ += blocks(part.rows, unit) * unit;
  return v;
}

uint64_t PackedWeights::flat_bytes() const {
  return static_cast<uint64_t>(flat_elements_ * element_bytes_);
}

uint64_t PackedWeights::card_bytes() const {
  return static_cast<uint64_t>(total_words_ * k_word_bytes);
}

int64_t PackedWeights::column_start(const PackedMatrix& m, int64_t column) const {
  int64_t width = panel_;
  int64_t lane = 0;
  if (m.is_gate_up) {
    width = panel_ / 2;
    if (column >= m.columns / 2) {
      column -= m.columns / 2;
      lane = width;
    }
  }
  return m.offset + column / width * m.words * panel_ + lane + column % width;
}

std::vector<PackedWeights::Panel> PackedWeights::panels() const {
  std::vector<Panel> all;
  auto add = [&all](const PackedMatrix& m) {
    for (int64_t i = 0; i < m.panels; ++i) all.push_back({&m, i});
  };
  add(embedding);
  for (const PackedLayer& w : layers)
    for (const PackedMatrix& m : w.matrices.items) add(m);
  if (!is_tied) add(lm_head);
  return all;
}

template <class Visit>
void PackedWeights::each_vector(Visit visit) const {
  for (const PackedLayer& w : layers)
    for (const PackedVector& v : w.vectors.items)
      if (v.offset >= 0) visit(v);
  visit(final_norm);
}

std::array<PackedWeights::Side, 2> PackedWeights::sides_of(const Panel& panel) const {
  const PackedMatrix& m = *panel.matrix;
  const int64_t width = m.is_gate_up ? panel_ / 2 : panel_;
  const int64_t columns = m.is_gate_up ? m.columns / 2 : m.columns;
  const int64_t first = panel.index * width;
  std::array<Side, 2> sides{};
  for (int64_t side = 0; side < (m.is_gate_up ? 2 : 1); ++side)
    sides[static_cast<size_t>(side)] = {m.source + (side * columns + first) * m.depth,
                                        std::min(width, columns - first)};
  return sides;
}

/// Moves the columns of one panel. `plain`: the sides' columns.
template <bool IsPack>
void PackedWeights::move_panel(const Panel& panel, const std::array<std::byte*, 2>& plain,
                               std::byte* card) const {
  const auto transpose = cpu::decode_kernels().transpose_words;
  const PackedMatrix& m = *panel.matrix;
  const int64_t whole = m.is_f32 ? m.depth : m.depth / 2;  // words without the odd half
  const std::array<Side, 2> sides = sides_of(panel);
  uint32_t* packed = reinterpret_cast<uint32_t*>(card) + m.offset + panel.index * m.words * panel_;
  for (size_t side = 0; side < 2; ++side, packed += panel_ / 2) {
    const int64_t columns = sides[side].columns;
    if (whole == m.words && !(is_bf16_ && m.is_f32)) {
      if constexpr (IsPack)
        transpose(plain[side], whole, columns, whole, packed, panel_);
      else
        transpose(packed, panel_, whole, columns, plain[side], whole);
      continue;
    }
    for (int64_t lane = 0; lane < columns; ++lane) {
      std::byte* column = plain[side] + lane * m.depth * element_bytes_;
      if (m.is_f32) {  // a bias, one deep
        move_wide<IsPack>(reinterpret_cast<float*>(packed)[lane], column);
      } else {
        move_words<IsPack>(packed + lane, panel_, column, whole);
        move_half<IsPack>(packed[whole * panel_ + lane], column + whole * k_word_bytes);
      }
    }
  }
}

template <bool IsPack>
void PackedWeights::move_vector(const PackedVector& v, std::byte* plain, std::byte* card) const {
  float* packed = reinterpret_cast<float*>(card) + v.offset;
  for (int64_t i = 0; i < v.count; ++i, plain += element_bytes_) {
    if (is_bf16_)
      move_wide<IsPack>(packed[i], plain);
    else if (IsPack)
      std::memcpy(packed + i, plain, sizeof packed[i]);
    else
      std::memcpy(plain, packed + i, sizeof packed[i]);
  }
}

uint32_t PackedWeights::useful_threads(uint32_t threads) const {
  constexpr uint64_t k_small_bytes = 4 << 20;  // not worth a thread
  return card_bytes() < k_small_bytes ? 1 : threads;
}

template <bool IsPack>
void PackedWeights::move(std::byte* flat, std::byte* card, uint32_t threads) const {
  const std::vector<Panel> tasks = panels();
  WorkTeam team(useful_threads(threads));
  team.run(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end, uint32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const Panel& panel = tasks[static_cast<size_t>(i)];
      const std::array<Side, 2> sides = sides_of(panel);
      move_panel<IsPack>(
          panel, {flat + sides[0].begin * element_bytes_, flat + sides[1].begin * element_bytes_},
          card);
    }
  });
  each_vector([&](const PackedVector& v) {
    move_vector<IsPack>(v, flat + v.source * element_bytes_, card);
  });
}

void PackedWeights::pack(const FlatReader& read, std::byte* card, uint32_t threads) const {
  const std::vector<Panel> tasks = panels();
  WorkTeam team(useful_threads(threads));
  std::vector<std::vector<std::byte>> buffers(team.size());
  team.run(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end, uint32_t member) {
    std::vector<std::byte>& buffer = buffers[member];
    for (int64_t i = begin; i < end; ++i) {
      const Panel& panel = tasks[static_cast<size_t>(i)];
      const std::array<Side, 2> sides = sides_of(panel);
      const int64_t column_bytes = panel.matrix->depth * element_bytes_;
      buffer.resize(static_cast<size_t>((sides[0].columns + sides[1].columns) * column_bytes));
      const auto first_bytes = static_cast<size_t>(sides[0].columns * column_bytes);
      const std::span<std::byte> first(buffer.data(), first_bytes);
      const std::span<std::byte> second = std::span(buffer).subspan(first_bytes);
      read(sides[0].begin, first);
      if (!second.empty()) read(sides[1].begin, second);
      move_panel<true>(panel, {first.data(), second.data()}, card);
    }
  });
  std::vector<std::byte> buffer;
  each_vector([&](const PackedVector& v) {
    buffer.resize(static_cast<size_t>(v.count * element_bytes_));
    read(v.source, buffer);
    move_vector<true>(v, buffer.data(), card);
  });
}

void PackedWeights::pack(std::span<const std::byte> flat, std::byte* card, uint32_t threads) const {
  COHORT_CHECK(flat.size() == flat_bytes(), "weights of another size are packed");
  move<true>(const_cast<std::byte*>(flat.data()), card, threads);  // only read
}

void PackedWeights::unpack(const std::byte* card, std::span<std::byte> flat,
                           uint32_t threads) const {
  COHORT_CHECK(flat.size() == flat_bytes(), "weights of another size are unpacked");
  std::fill(flat.begin(), flat.end(), std::byte{0});
  move<false>(flat.data(), const_cast<std::byte*>(card), threads);  // only read
}

}  // namespace cohort::compute
