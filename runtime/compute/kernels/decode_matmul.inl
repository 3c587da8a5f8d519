// Products with packed weights; included by decode_kernels.inl inside its namespace. One source for
// both kinds of words: a kind says how a word of weights is loaded, how an activation is spread,
// and how both are multiplied and added.

template <class W>
inline int64_t words_in(int64_t count) {
  return (count + W::k_per_word - 1) / W::k_per_word;
}

struct F32 : F32Words {
  using Loaded = Vec;
  using Spread = Vec;
  static Loaded load_words(const float* p) { return load(p); }
  static Spread spread(const float* a, int64_t word) { return splat(a[word]); }
  static Vec add(Vec sum, Spread a, Loaded w) { return fma(a, w, sum); }
  /// Returns the part-th numbers of the words.
  template <int Part>
  static Vec part(Loaded w) {
    return w;
  }
};

typedef int32_t UnalignedIntVec __attribute__((vector_size(k_width * 4), aligned(4), may_alias));

struct Bf16 : Bf16Words {
  using Loaded = IntVec;
  using Spread = IntVec;
  static Loaded load_words(const uint32_t* p) {
    return *reinterpret_cast<const UnalignedIntVec*>(p);
  }
  static Spread spread(const uint16_t* a, int64_t word) {
    int32_t pair;
    memcpy(&pair, a + 2 * word, sizeof pair);
    return IntVec{} + pair;
  }
  template <int Part>
  static Vec part(Loaded w) {
    return reinterpret_cast<Vec>(Part == 0 ? w << 16 : w & static_cast<int32_t>(0xFFFF0000));
  }
#if defined(COHORT_DECODE_BF16_DOT)
  static Vec add(Vec sum, Spread a, Loaded w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(a));
  }
#else
  static Vec add(Vec sum, Spread a, Loaded w) {
    return fma(part<1>(a), part<1>(w), fma(part<0>(a), part<0>(w), sum));
  }
#endif
};

/// Rows of the tile from `row` on, columns of the panels from `panel` on: what the mode makes of
/// the sums.
template <class W, int ROWS, int PANELS>
inline void finish_tile(const MatmulArgsOf<W>& m, int64_t row, int64_t panel,
                        const Vec (&acc)[ROWS][PANELS * k_vectors]) {
  for (int r = 0; r < ROWS; ++r) {
    if (m.mode == MatmulMode::swiglu) {
      float* out = m.out + (row + r) * m.ldo + panel * (k_panel / 2);
      for (int p = 0; p < PANELS; ++p)
        for (int v = 0; v < k_vectors / 2; ++v) {
          Vec gate = acc[r][p * k_vectors + v];
          Vec up = acc[r][p * k_vectors + k_vectors / 2 + v];
          if (m.bias != nullptr) {
            const float* bias = m.bias + (panel + p) * k_panel + v * k_width;
            gate = gate + load(bias);
            up = up + load(bias + k_panel / 2);
          }
          store(out + (p * k_vectors / 2 + v) * k_width, silu(gate) * up);
        }
      continue;
    }
    float* out = m.out + (row + r) * m.ldo + panel * k_panel;
    for (int v = 0; v < PANELS * k_vectors; ++v) {
      Vec y = acc[r][v];
      if (m.mode == MatmulMode::add) y = load(out + v * k_width) + y;
      if (m.bias != nullptr) y = y + load(m.bias + panel * k_panel + v * k_width);
      store(out + v * k_width, y);
    }
  }
}

/// How far ahead a tile asks that has its panels for itself; twice as far is slower.
constexpr int64_t k_near_bytes = 3072;

/// Words to ask memory for while a tile is computed: a step of bytes further for each of its words,
/// in each of PANELS streams. They go to the second level, which waits for more lines at once than
/// the first can.
template <int PANELS>
struct Ahead {
  const char* from;
  int64_t step;
  int64_t panel_bytes = 0;
  void ask() {
    constexpr int64_t k_line = 64;
    for (int p = 0; p < PANELS; ++p)
      for (int64_t at = 0; at < step; at += k_line)
        __builtin_prefetch(from + p * panel_bytes + at, 0, 2);
    from += step;
  }
};

/// One tile: ROWS rows times PANELS neighbouring panels; one accumulator chain per output element.
template <class Kind, class W, int ROWS, int PANELS>
inline void matmul_tile(const MatmulArgsOf<W>& m, int64_t row, int64_t panel,
                        Ahead<PANELS> ahead) {
  constexpr int columns = PANELS * k_vectors;
  Vec acc[ROWS][columns];
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < columns; ++v) acc[r][v] = splat(0.F);
  const typename W::Activation* a = m.a + row * m.lda;
  const int64_t words = words_in<W>(m.depth);
  const int64_t panel_stride = words * k_panel;
  const typename W::Word* w = m.weights + panel * panel_stride;
  for (int64_t k = 0; k < words; ++k) {
    ahead.ask();
    typename Kind::Loaded b[columns];
#pragma GCC unroll 16
    for (int v = 0; v < columns; ++v)
      b[v] = Kind::load_words(w + (v / k_vectors) * panel_stride + (v % k_vectors) * k_width);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const typename Kind::Spread x = Kind::spread(a + r * m.lda, k);
#pragma GCC unroll 16
      for (int v = 0; v < columns; ++v) acc[r][v] = Kind::add(acc[r][v], x, b[v]);
    }
    w += k_panel;
  }
  finish_tile<W, ROWS, PANELS>(m, row, panel, acc);
}

/// Few rows: several panels at once, so that enough chains are in flight to hide the latency.
template <class Kind, class W, int ROWS, int PANELS>
inline void matmul_thin(const MatmulArgsOf<W>& m) {
  constexpr int64_t k_step = k_panel * static_cast<int64_t>(sizeof(typename W::Word));
  const int64_t panel_bytes = words_in<W>(m.depth) * k_step;
  const char* near = reinterpret_cast<const char*>(m.weights) + k_near_bytes;
  int64_t panel = m.first_panel;
  for (; panel + PANELS <= m.panels; panel += PANELS)
    matmul_tile<Kind, W, ROWS, PANELS>(m, 0, panel,
                                       {near + panel * panel_bytes, k_step, panel_bytes});
  for (; panel < m.panels; ++panel)
    matmul_tile<Kind, W, ROWS, 1>(m, 0, panel, {near + panel * panel_bytes, k_step});
}

template <class Kind, class W, int ROWS>
inline void tile_of_rows(const MatmulArgsOf<W>& m, int64_t row, int64_t panel, int64_t rows,
                         Ahead<1> ahead) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS) return matmul_tile<Kind, W, ROWS, 1>(m, row, panel, ahead);
    tile_of_rows<Kind, W, ROWS - 1>(m, row, panel, rows, ahead);
  }
}

/// Rows are cut evenly: a last tile of few rows would have too few chains in flight. One tile alone
/// asks a little ahead, else it would wait for memory and then compute (rows 8 of f32: 18 GB/s, not
/// 27). Several of a panel ask for the next one in equal parts.
template <class Kind, class W>
inline void matmul_of(const MatmulArgsOf<W>& m) {
  if constexpr (k_width > 4) {
    if (m.rows == 1) return matmul_thin<Kind, W, 1, 4>(m);
    if (m.rows == 2) return matmul_thin<Kind, W, 2, 2>(m);
    if (m.rows == 3) return matmul_thin<Kind, W, 3, 2>(m);
  }
  const int64_t tiles = (m.rows + k_tile_rows - 1) / k_tile_rows;
  const int64_t words = words_in<W>(m.depth);
  constexpr int64_t k_step = k_panel * static_cast<int64_t>(sizeof(typename W::Word));
  for (int64_t panel = m.first_panel; panel < m.panels; ++panel) {
    const char* own = reinterpret_cast<const char*>(m.weights) + panel * words * k_step;
    Ahead<1> ahead = {own + (tiles == 1 ? k_near_bytes : words * k_step), k_step / tiles};
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t rows = m.rows / tiles + (tile < m.rows % tiles ? 1 : 0);
      tile_of_rows<Kind, W, k_tile_rows>(m, row, panel, rows, ahead);
      row += rows;
      ahead.from += ahead.step * words;
    }
  }
}

void matmul(const MatmulArgs& m) { matmul_of<F32>(m); }
#if defined(COHORT_DECODE_TILES)
#include "runtime/compute/kernels/decode_tiles.inl"
#else
void matmul_bf16(const Bf16MatmulArgs& m) { matmul_of<Bf16>(m); }
#endif
