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
  void use() const { _tile_loadconfig(config); }
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

/// Rows row … row + rows - 1 of one panel, up to 32.
template <bool k_is_half>
inline void multiply_block(const Bf16MatmulArgs& m, int64_t row, int64_t rows, int64_t panel) {
  const int64_t words = words_in<Bf16Words>(m.depth);
  constexpr int64_t k_row = k_panel * k_word_size;
  const uint32_t* w = m.weights + panel * words * k_panel;
  const int64_t ld = m.is_tiled ? m.depth : m.lda;  // a block of 16 rows has 16 of these in both
  const int64_t stride = (m.is_tiled ? k_bf16_tile_depth : m.lda) * 2;  // [bytes] from row to row
  const int64_t step_halves = m.is_tiled ? k_tile_side * k_bf16_tile_depth : k_bf16_tile_depth;
  const uint16_t *a = m.a + row * ld, *high = a + k_tile_side * ld;
  _tile_zero(0);
  _tile_zero(1);
  if (!k_is_half) _tile_zero(2);
  if (!k_is_half) _tile_zero(3);
  for (int64_t step = 0; step < words / k_tile_words; ++step) {
    if (row == 0) ask_for_step(w, 2 * k_tile_words * k_panel);
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
  alignas(64) float sums[2 * k_tile_side * k_panel];
  _tile_stored(0, sums, k_row);
  _tile_stored(1, sums + k_tile_side, k_row);
  if (!k_is_half) _tile_stored(2, sums + k_tile_side * k_panel, k_row);
  if (!k_is_half) _tile_stored(3, sums + k_tile_side * k_panel + k_tile_side, k_row);
  for (int64_t r = 0; r < rows; ++r) finish_row<1>(m, row + r, panel, sums + r * k_panel);
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
  constexpr int64_t k_block_rows = 2 * k_tile_side;
  if (m.rows <= k_tile_side) {
    TileShape::thin(m.rows).use();
    int64_t panel = m.first_panel;
    for (; panel + 2 <= m.panels; panel += 2) multiply_thin<2>(m, panel);
    if (panel < m.panels) multiply_thin<1>(m, panel);
    return _tile_release();
  }
  const int64_t whole = m.rows / k_block_rows * k_block_rows, left = m.rows - whole;
  const bool is_half = left <= k_tile_side;
  const TileShape full(k_tile_side, k_tile_side),
      last(is_half ? left : k_tile_side, is_half ? 0 : left - k_tile_side);
  for (int64_t panel = m.first_panel; panel < m.panels; ++panel) {
    if (whole > 0 && (left > 0 || panel == m.first_panel)) full.use();
    for (int64_t row = 0; row < whole; row += k_block_rows)
      multiply_block<false>(m, row, k_block_rows, panel);
    if (left == 0) continue;
    last.use();
    if (is_half)
      multiply_block<true>(m, whole, left, panel);
    else
      multiply_block<false>(m, whole, left, panel);
  }
  _tile_release();
}
