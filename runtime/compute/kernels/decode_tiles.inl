// Products of bf16 in AMX tiles; included by decode_matmul.inl. A tile of activations is up to 16
// rows by 16 words, as they lie or in the order of to_tiles; one of weights 16 words by 16 columns,
// half a panel. An output element is one chain over its words, 16 at a time, and over what is left
// one at a time: whatever the rows beside it (KERNEL-1).

constexpr int64_t k_tile_words = k_bf16_tile_depth / 2;
constexpr int64_t k_tile_side = k_bf16_tile_rows;  // rows of activations; columns of weights
constexpr int64_t k_word_size = 4;                 // [bytes]
static_assert(k_panel == 2 * k_tile_side);

/// Registers: 0 and 1 are sums of `low` rows, 2 and 3 of `high` rows, 4 and 5 the activations of
/// both; 6 and 7 weights, and 5 too where `high` is 0.
struct TileShape {
  alignas(64) uint8_t config[64] = {};
  TileShape(int64_t low, int64_t high) {
    config[0] = 1;  // palette
    const int64_t rows[8] = {low, low, high, high, low, high, k_tile_words, k_tile_words};
    for (int i = 0; i < 8; ++i) set(i, rows[i]);
  }
  void set(int tile, int64_t rows) {
    config[16 + 2 * tile] = static_cast<uint8_t>(rows > 0 ? k_tile_side * k_word_size : 0);
    config[48 + tile] = static_cast<uint8_t>(rows);
  }
  /// Up to 16 rows by two panels: 2 and 3 are sums of the second.
  static TileShape thin(int64_t rows) {
    TileShape shape(rows, rows);
    shape.set(5, k_tile_words);
    return shape;
  }
  void use() const {
    asm volatile("" : : "r"(config) : "memory");  // the intrinsic names 8 bytes of the 64 alone
    _tile_loadconfig(config);
  }
};

/// What the words after the last whole tile add to the sums of a row, and what the mode makes of
/// them. `sums`: PANELS * k_panel floats.
template <int PANELS>
inline void finish_row(const Bf16MatmulArgs& m, int64_t row, int64_t panel, const float* sums) {
  constexpr int columns = PANELS * k_vectors;
  const int64_t words = words_in<Bf16Words>(m.depth), panel_stride = words * k_panel;
  Vec acc[1][columns];
  for (int v = 0; v < columns; ++v) acc[0][v] = load(sums + v * k_width);
  const uint32_t* weights = m.weights + panel * panel_stride;
  for (int64_t k = words / k_tile_words * k_tile_words; k < words; ++k) {
    const Bf16::Spread x = Bf16::spread(m.a + row * m.lda, k);
    for (int v = 0; v < columns; ++v)
      acc[0][v] = Bf16::add(acc[0][v], x,
                            Bf16::load_words(weights + (v / k_vectors) * panel_stride +
                                             k * k_panel + (v % k_vectors) * k_width));
  }
  finish_tile<Bf16Words, 1, PANELS>(m, row, panel, acc);
}

/// Asks for the words of one step, `ahead` words further on.
inline void ask_for_step(const uint32_t* weights, int64_t ahead) {
  const auto* from = reinterpret_cast<const char*>(weights + ahead);
  for (int64_t line = 0; line < k_tile_words * k_panel * k_word_size; line += 64)
    __builtin_prefetch(from + line);
}

/// Up to 16 rows by PANELS panels; the shape is thin's.
template <int PANELS>
inline void multiply_thin(const Bf16MatmulArgs& m, int64_t panel) {
  const int64_t words = words_in<Bf16Words>(m.depth), panel_stride = words * k_panel;
  constexpr int64_t k_row = k_panel * k_word_size;  // [bytes] from word to word
  const uint32_t *w = m.weights + panel * panel_stride, *next = w + panel_stride;
  const uint16_t* a = m.a;
  _tile_zero(0);
  _tile_zero(1);
  if (PANELS > 1) _tile_zero(2);
  if (PANELS > 1) _tile_zero(3);
  for (int64_t step = 0; step < words / k_tile_words; ++step) {
    constexpr int64_t k_ahead = 4 * k_tile_words * k_panel;
    _tile_loadd(4, a, m.lda * 2);
    ask_for_step(w, k_ahead);
    _tile_loadd(6, w, k_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + k_tile_side, k_row);
    _tile_dpbf16ps(1, 4, 7);
    if (PANELS > 1) {
      ask_for_step(next, k_ahead);
      _tile_loadd(5, next, k_row);
      _tile_dpbf16ps(2, 4, 5);
      _tile_loadd(6, next + k_tile_side, k_row);
      _tile_dpbf16ps(3, 4, 6);
    }
    a += 2 * k_tile_words;
    w += k_tile_words * k_panel;
    next += k_tile_words * k_panel;
  }
  constexpr int64_t k_sums = PANELS * k_panel;
  alignas(64) float sums[k_tile_side * k_sums];
  _tile_stored(0, sums, k_sums * 4);
  _tile_stored(1, sums + k_tile_side, k_sums * 4);
  if (PANELS > 1) _tile_stored(2, sums + k_panel, k_sums * 4);
  if (PANELS > 1) _tile_stored(3, sums + k_panel + k_tile_side, k_sums * 4);
  for (int64_t r = 0; r < m.rows; ++r) finish_row<PANELS>(m, r, panel, sums + r * k_sums);
}

constexpr int64_t k_block_rows = 2 * k_tile_side;
constexpr int64_t k_rows_at_once = 512;  // whose sums between two parts of the depth are kept
constexpr int64_t k_part_steps = 32;     // of a panel: 64 KiB, asked for ahead of need

/// A part of a panel's depth: steps of k_tile_words words. Each block of rows asks for its share of
/// what follows the part in memory, so that it is in the second cache by then. (Measured: one block
/// that asks for all stands and waits, then the others compute while memory does nothing.)
struct PanelPart {
  const uint32_t* weights;
  int64_t first_step, steps;
  int64_t lines_asked;  // of 64 bytes, a step and block
};

/// Rows row … row + 31 (15 where k_is_half) of a part. `sums` [32][k_panel] go on.
template <bool k_is_half>
inline void multiply_block(const Bf16MatmulArgs& m, int64_t row, const PanelPart& part,
                           float* sums) {
  constexpr int64_t k_row = k_panel * k_word_size, k_line = 64;
  float* high_sums = sums + k_tile_side * k_panel;
  const int64_t ld = m.is_tiled ? m.depth : m.lda;  // a block of 16 rows has 16 of these in both
  const int64_t stride = (m.is_tiled ? k_bf16_tile_depth : m.lda) * 2;  // [bytes] from row to row
  const int64_t step_halves = m.is_tiled ? k_tile_side * k_bf16_tile_depth : k_bf16_tile_depth;
  const uint16_t *a = m.a + row * ld + part.first_step * step_halves, *high = a + k_tile_side * ld;
  const uint32_t* w = part.weights;
  const auto* next = reinterpret_cast<const char*>(w + part.steps * k_tile_words * k_panel) +
                     row / k_block_rows * part.steps * part.lines_asked * k_line;
  if (part.first_step == 0) {
    _tile_zero(0);
    _tile_zero(1);
    if (!k_is_half) _tile_zero(2);
    if (!k_is_half) _tile_zero(3);
  } else {
    _tile_loadd(0, sums, k_row);
    _tile_loadd(1, sums + k_tile_side, k_row);
    if (!k_is_half) _tile_loadd(2, high_sums, k_row);
    if (!k_is_half) _tile_loadd(3, high_sums + k_tile_side, k_row);
  }
  for (int64_t step = 0; step < part.steps; ++step) {
    for (int64_t i = 0; i < part.lines_asked; ++i, next += k_line) __builtin_prefetch(next, 0, 2);
    _tile_loadd(6, w, k_row);
    _tile_loadd(4, a, stride);
    _tile_loadd(7, w + k_tile_side, k_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!k_is_half) {
      _tile_loadd(5, high, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    a += step_halves;
    high += step_halves;
    w += k_tile_words * k_panel;
  }
  _tile_stored(0, sums, k_row);
  _tile_stored(1, sums + k_tile_side, k_row);
  if (!k_is_half) _tile_stored(2, high_sums, k_row);
  if (!k_is_half) _tile_stored(3, high_sums + k_tile_side, k_row);
}

/// The tile shapes of many rows: blocks of 32, and what is left of them.
struct RowBlocks {
  int64_t whole, left, blocks;
  bool is_half;  // the last block has one tile of rows
  TileShape full, last;
  explicit RowBlocks(int64_t rows)
      : whole(rows / k_block_rows * k_block_rows),
        left(rows - whole),
        blocks((rows + k_block_rows - 1) / k_block_rows),
        is_half(left <= k_tile_side),
        full(k_tile_side, k_tile_side),
        last(is_half ? left : k_tile_side, is_half ? 0 : left - k_tile_side) {}
};

/// One block of rows of a part; what the mode makes of the sums, if it is the last part.
template <bool k_is_half>
inline void add_part(const Bf16MatmulArgs& m, int64_t row, int64_t rows, int64_t panel,
                     const PanelPart& part, bool is_last, float* sums) {
  multiply_block<k_is_half>(m, row, part, sums);
  for (int64_t r = 0; is_last && r < rows; ++r)
    finish_row<1>(m, row + r, panel, sums + r * k_panel);
}

/// Up to k_rows_at_once rows of one panel.
inline void multiply_panel(const Bf16MatmulArgs& m, const RowBlocks& rows, int64_t panel,
                           float* sums) {
  const int64_t words = words_in<Bf16Words>(m.depth), steps = words / k_tile_words;
  const int64_t parts = steps == 0 ? 1 : (steps + k_part_steps - 1) / k_part_steps;
  constexpr int64_t k_step_lines = k_tile_words * k_panel * k_word_size / 64;
  PanelPart part = {m.weights + panel * words * k_panel, 0, 0,
                    (k_step_lines + rows.blocks - 1) / rows.blocks};
  for (int64_t i = 1; i <= parts; ++i) {
    part.first_step += part.steps;
    part.weights += part.steps * k_tile_words * k_panel;
    part.steps = steps * i / parts - part.first_step;
    if (rows.whole > 0 && rows.left > 0) rows.full.use();
    for (int64_t row = 0; row < rows.whole; row += k_block_rows)
      add_part<false>(m, row, k_block_rows, panel, part, i == parts, sums + row * k_panel);
    if (rows.left == 0) continue;
    rows.last.use();
    float* left_sums = sums + rows.whole * k_panel;
    if (rows.is_half)
      add_part<true>(m, rows.whole, rows.left, panel, part, i == parts, left_sums);
    else
      add_part<false>(m, rows.whole, rows.left, panel, part, i == parts, left_sums);
  }
}

void to_bf16(const float* from, int64_t count, uint16_t* to);

void to_tiles(const float* from, int64_t ld, int64_t first_row, int64_t rows, int64_t depth,
              uint16_t* to) {
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    const float* numbers = from + row * ld;
    uint16_t* tile =
        to + row / k_tile_side * k_tile_side * depth + row % k_tile_side * k_bf16_tile_depth;
    for (int64_t k = 0; k < depth; k += k_bf16_tile_depth, tile += k_tile_side * k_bf16_tile_depth)
      to_bf16(numbers + k, k_bf16_tile_depth, tile);
  }
}

void matmul_bf16(const Bf16MatmulArgs& m) {
  if (m.rows <= k_tile_side) {
    TileShape::thin(m.rows).use();
    int64_t panel = m.first_panel;
    for (; panel + 2 <= m.panels; panel += 2) multiply_thin<2>(m, panel);
    if (panel < m.panels) multiply_thin<1>(m, panel);
    return _tile_release();
  }
  alignas(64) float sums[k_rows_at_once * k_panel];
  for (int64_t panel = m.first_panel; panel < m.panels; ++panel)
    for (int64_t row = 0; row < m.rows; row += k_rows_at_once) {
      Bf16MatmulArgs some = m;
      some.rows = m.rows - row < k_rows_at_once ? m.rows - row : k_rows_at_once;
      some.a += row * (m.is_tiled ? m.depth : m.lda);
      some.out += row * m.ldo;
      const RowBlocks rows(some.rows);
      rows.full.use();
      multiply_panel(some, rows, panel, sums);
    }
  _tile_release();
}
