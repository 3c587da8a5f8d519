// Rope, the paged cache and attention over it; included by decode_kernels.inl inside its namespace,
// behind decode_matmul.inl whose kinds of words it uses.

/// Rounds to nearest, ties to even; a NaN stays one.
inline IntVec rounded_halves(Vec x) {
  const IntVec bits = reinterpret_cast<IntVec>(x);
  const IntVec rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const IntVec quiet = (bits >> 16) | 0x40;
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded;
}

inline uint16_t half_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

void to_bf16(const float* from, int64_t count, uint16_t* to) {
  typedef uint16_t Halves __attribute__((vector_size(k_width * 2)));
  int64_t i = 0;
  for (; i + k_width <= count; i += k_width) {
    const Halves halves = __builtin_convertvector(rounded_halves(load(from + i)), Halves);
    memcpy(to + i, &halves, sizeof halves);
  }
  for (; i < count; ++i) to[i] = half_of(from[i]);
}

// -- rope and cache -------------------------------------------------------------------------------

/// Rotate-half: (x_i, x_{i+h/2}) -> (x_i cos - x_{i+h/2} sin, x_{i+h/2} cos + x_i sin).
inline void rotate(float* head, const float* cosines, const float* sines, int64_t half) {
  int64_t i = 0;
  for (; i + k_width <= half; i += k_width) {
    const Vec first = load(head + i), second = load(head + half + i);
    const Vec c = load(cosines + i), s = load(sines + i);
    store(head + i, first * c - second * s);
    store(head + half + i, second * c + first * s);
  }
  for (; i < half; ++i) {
    float first = head[i];
    float second = head[half + i];
    head[i] = first * cosines[i] - second * sines[i];
    head[half + i] = second * cosines[i] + first * sines[i];
  }
}

/// Returns the words of one head's keys, or values, in a block.
template <class W>
inline int64_t key_words(const CachedAttentionOf<W>& a) {
  return words_in<W>(a.head_dim) * k_block;
}
template <class W>
inline int64_t value_words(const CachedAttentionOf<W>& a) {
  return k_block / W::k_per_word * a.head_dim_padded;
}

/// Writes one head's key and value to slot `slot` of its block.
inline void cache_head(const CachedAttention& a, float* block, int64_t head, int64_t slot,
                       const float* key, const float* value) {
  float* keys = block + head * key_words(a);
  for (int64_t i = 0; i < a.head_dim; ++i) keys[i * k_block + slot] = key[i];
  float* values = block + a.kv_heads * key_words(a) + head * value_words(a);
  memcpy(values + slot * a.head_dim_padded, value, static_cast<size_t>(a.head_dim) * sizeof(float));
}

inline void cache_head(const Bf16CachedAttention& a, uint32_t* block, int64_t head, int64_t slot,
                       const float* key, const float* value) {
  uint32_t* keys = block + head * key_words(a);
  for (int64_t i = 0; i < a.head_dim; i += 2) {
    const uint32_t low = half_of(key[i]);
    const uint32_t high = i + 1 < a.head_dim ? half_of(key[i + 1]) : 0;
    keys[i / 2 * k_block + slot] = low | high << 16;
  }
  uint32_t* values =
      block + a.kv_heads * key_words(a) + head * value_words(a) + slot / 2 * a.head_dim_padded;
  const uint32_t kept = slot % 2 == 0 ? 0xFFFF0000U : 0xFFFFU;
  for (int64_t i = 0; i < a.head_dim; ++i) {
    const uint32_t half = half_of(value[i]);
    values[i] = (values[i] & kept) | (slot % 2 == 0 ? half : half << 16);
  }
}

template <class W>
inline void rope_and_cache_of(const CachedAttentionOf<W>& a) {
  const int64_t half = a.head_dim / 2;
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t position = a.first_position + r;
    const float* cosines = a.cosines + position * half;
    const float* sines = a.sines + position * half;
    float* row = a.qkv + r * a.ld_qkv;
    typename W::Word* block = a.cache + a.blocks[position / k_block] * a.block_stride;
    for (int64_t h = a.first_kv_head; h < a.end_kv_head; ++h) {
      for (int64_t q = h * group; q < (h + 1) * group; ++q)
        rotate(row + q * a.head_dim, cosines, sines, half);
      float* key = row + (a.heads + h) * a.head_dim;
      rotate(key, cosines, sines, half);
      cache_head(a, block, h, position % k_block, key, key + a.kv_heads * a.head_dim);
    }
  }
}

void rope_and_cache(const CachedAttention& a) { rope_and_cache_of(a); }
void rope_and_cache_bf16(const Bf16CachedAttention& a) { rope_and_cache_of(a); }

// -- attention ------------------------------------------------------------------------------------

/// A tile: TILE consecutive (row, query head) pairs of one KV head.
template <class W>
struct Tile {
  const typename W::Activation* query[k_tile_rows];
  float* out[k_tile_rows];
  int64_t first[k_tile_rows], keys[k_tile_rows];  // this pair sees the keys first … keys
  int64_t keys_max;
  int64_t begin;  // of the first block that a pair sees
  int64_t kv_head;
};

/// Blocks of keys, or of columns, that a tile takes at once: a tile of few pairs would have too few
/// chains in flight.
template <int TILE>
constexpr int blocks_at_once() {
  constexpr int fit = k_tile_rows * k_vectors / (TILE * k_block_vectors);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

/// The scores of one pair and the 16 keys from `begin` on: -inf for those that it does not see.
inline void put_scores(const Vec (&sums)[k_block_vectors], int64_t begin, int64_t first,
                       int64_t keys, Vec scale, float* scores, Vec& best) {
  constexpr int32_t k_index[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const bool is_whole = first <= begin && begin + k_block <= keys;
  for (int v = 0; v < k_block_vectors; ++v) {
    Vec score = sums[v] * scale;
    if (!is_whole) {
      IntVec key;
      memcpy(&key, k_index + v * k_width, sizeof key);
      const IntVec is_seen =
          (key >= static_cast<int32_t>(first - begin)) & (key < static_cast<int32_t>(keys - begin));
      score = is_seen ? score : splat(-INFINITY);
    }
    store(scores + v * k_width, score);
    best = vmax(score, best);
  }
}

/// The scores of BLOCKS blocks of keys from `begin` on.
template <class Kind, class W, int TILE, int BLOCKS>
inline void score_blocks(const CachedAttentionOf<W>& a, const Tile<W>& t, int64_t begin, Vec scale,
                         int64_t ld_scores, Vec (&best)[TILE]) {
  const typename W::Word* keys[BLOCKS];
  for (int b = 0; b < BLOCKS; ++b)
    keys[b] = a.cache + a.blocks[begin / k_block + b] * a.block_stride + t.kv_head * key_words(a);
  Vec acc[BLOCKS][TILE][k_block_vectors];
  for (int b = 0; b < BLOCKS; ++b)
    for (int j = 0; j < TILE; ++j)
      for (int v = 0; v < k_block_vectors; ++v) acc[b][j][v] = splat(0.F);
  const int64_t words = words_in<W>(a.head_dim);
  for (int64_t d = 0; d < words; ++d) {
    typename Kind::Loaded k[BLOCKS][k_block_vectors];
#pragma GCC unroll 16
    for (int b = 0; b < BLOCKS; ++b)
#pragma GCC unroll 16
      for (int v = 0; v < k_block_vectors; ++v)
        k[b][v] = Kind::load_words(keys[b] + d * k_block + v * k_width);
#pragma GCC unroll 16
    for (int j = 0; j < TILE; ++j) {
      const typename Kind::Spread q = Kind::spread(t.query[j], d);
#pragma GCC unroll 16
      for (int b = 0; b < BLOCKS; ++b)
#pragma GCC unroll 16
        for (int v = 0; v < k_block_vectors; ++v)
          acc[b][j][v] = Kind::add(acc[b][j][v], q, k[b][v]);
    }
  }
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; ++b)
#pragma GCC unroll 16
    for (int j = 0; j < TILE; ++j)
      put_scores(acc[b][j], begin + b * k_block, t.first[j], t.keys[j], scale,
                 a.scratch + j * ld_scores + begin + b * k_block, best[j]);
}

/// The scores of all keys up to `end`, BLOCKS blocks at a time, then fewer.
template <class Kind, class W, int TILE, int BLOCKS>
inline void score_keys(const CachedAttentionOf<W>& a, const Tile<W>& t, int64_t begin, int64_t end,
                       Vec scale, Vec (&best)[TILE]) {
  for (; begin + BLOCKS * k_block <= end; begin += BLOCKS * k_block)
    score_blocks<Kind, W, TILE, BLOCKS>(a, t, begin, scale, end, best);
  if constexpr (BLOCKS > 1)
    if (begin < end) score_keys<Kind, W, TILE, BLOCKS / 2>(a, t, begin, end, scale, best);
}

/// Adds probability times value of the Part-th keys of the words.
template <class Kind, int TILE, int VECTORS, int Part>
inline void add_values(const float* scores, int64_t ld_scores,
                       const typename Kind::Loaded (&words)[VECTORS], Vec (&acc)[TILE][VECTORS]) {
  Vec x[VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < VECTORS; ++v) x[v] = Kind::template part<Part>(words[v]);
#pragma GCC unroll 16
  for (int j = 0; j < TILE; ++j) {
    Vec p = splat(scores[j * ld_scores + Part]);
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) acc[j][v] = fma(p, x[v], acc[j][v]);
  }
}

/// acc += the probabilities of `count` keys from `scores` on times their values. What lies behind
/// the last key is not read as a number: it may be anything.
template <class Kind, class W, int TILE, int VECTORS>
inline void mix_block(const float* scores, int64_t ld_scores, const typename W::Word* values,
                      int64_t ld_values, int64_t count, Vec (&acc)[TILE][VECTORS]) {
  for (int64_t i = 0; i < count; i += W::k_per_word) {
    typename Kind::Loaded words[VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v)
      words[v] = Kind::load_words(values + i / W::k_per_word * ld_values + v * k_width);
    add_values<Kind, TILE, VECTORS, 0>(scores + i, ld_scores, words, acc);
    if constexpr (W::k_per_word == 2)
      if (i + 1 < count) add_values<Kind, TILE, VECTORS, 1>(scores + i, ld_scores, words, acc);
  }
}

/// The outputs of BLOCKS blocks of columns from `column` on.
template <class Kind, class W, int TILE, int BLOCKS>
inline void mix_columns(const CachedAttentionOf<W>& a, const Tile<W>& t, int64_t column,
                        int64_t ld_scores, const float (&inverse)[TILE]) {
  constexpr int vectors = BLOCKS * k_block_vectors;
  const int64_t value_base = a.kv_heads * key_words(a) + t.kv_head * value_words(a) + column;
  Vec acc[TILE][vectors];
  for (int j = 0; j < TILE; ++j)
    for (int v = 0; v < vectors; ++v) acc[j][v] = splat(0.F);
  for (int64_t begin = t.begin; begin < t.keys_max; begin += k_block) {
    const typename W::Word* values =
        a.cache + a.blocks[begin / k_block] * a.block_stride + value_base;
    const int64_t count = t.keys_max - begin < k_block ? t.keys_max - begin : k_block;
    mix_block<Kind, W, TILE>(a.scratch + begin, ld_scores, values, a.head_dim_padded, count, acc);
  }
  const int64_t left = a.head_dim - column;
  const int64_t count = left < BLOCKS * k_block ? left : BLOCKS * k_block;
  for (int j = 0; j < TILE; ++j) {
    float result[BLOCKS * k_block];
    for (int v = 0; v < vectors; ++v) store(result + v * k_width, acc[j][v] * splat(inverse[j]));
    memcpy(t.out[j] + column, result, static_cast<size_t>(count) * sizeof(float));
  }
}

/// The outputs of all columns, BLOCKS blocks at a time, then fewer.
template <class Kind, class W, int TILE, int BLOCKS>
inline void mix_values(const CachedAttentionOf<W>& a, const Tile<W>& t, int64_t column,
                       int64_t ld_scores, const float (&inverse)[TILE]) {
  for (; column + BLOCKS * k_block <= a.head_dim_padded; column += BLOCKS * k_block)
    mix_columns<Kind, W, TILE, BLOCKS>(a, t, column, ld_scores, inverse);
  if constexpr (BLOCKS > 1)
    if (column < a.head_dim_padded)
      mix_values<Kind, W, TILE, BLOCKS / 2>(a, t, column, ld_scores, inverse);
}

template <class Kind, class W, int TILE>
inline void attend(const CachedAttentionOf<W>& a, const Tile<W>& t) {
  constexpr int blocks = blocks_at_once<TILE>();
  const int64_t padded = (t.keys_max + k_block - 1) / k_block * k_block;
  const Vec scale = splat(1.F / std::sqrt(static_cast<float>(a.head_dim)));
  Vec best[TILE];
  for (int j = 0; j < TILE; ++j) best[j] = splat(-INFINITY);
  score_keys<Kind, W, TILE, blocks>(a, t, t.begin, padded, scale, best);
  float inverse[TILE];
  for (int j = 0; j < TILE; ++j) {
    float* scores = a.scratch + j * padded;
    const Vec shift = splat(max_lanes(best[j]));
    Vec sum = splat(0.F);
    for (int64_t i = t.begin; i < padded; i += k_width) {
      Vec e = vexp(load(scores + i) - shift);
      store(scores + i, e);
      sum = sum + e;
    }
    inverse[j] = 1.F / sum_lanes(sum);
  }
  mix_values<Kind, W, TILE, blocks>(a, t, 0, padded, inverse);
}

template <class Kind, class W, int TILE>
inline void attend_tail(const CachedAttentionOf<W>& a, const Tile<W>& t, int64_t count) {
  if constexpr (TILE > 0) {
    if (count == TILE) return attend<Kind, W, TILE>(a, t);
    attend_tail<Kind, W, TILE - 1>(a, t, count);
  }
}

inline const float* query_of(const CachedAttention&, const float* head, int64_t) { return head; }

/// Rounds a head into the scratch behind the scores, which take whole blocks of keys.
inline const uint16_t* query_of(const Bf16CachedAttention& a, const float* head, int64_t pair) {
  const int64_t keys = (a.first_position + a.rows + k_block - 1) / k_block * k_block;
  float* rounded = a.scratch + k_tile_rows * keys + pair * a.head_dim;
  auto* halves = reinterpret_cast<uint16_t*>(rounded);
  to_bf16(head, a.head_dim, halves);
  if (a.head_dim % 2 != 0) halves[a.head_dim] = 0;
  return halves;
}

template <class Kind, class W>
inline void attention_of(const CachedAttentionOf<W>& a) {
  const int64_t group = a.heads / a.kv_heads;
  const int64_t pairs = a.rows * group;
  for (int64_t kv_head = a.first_kv_head; kv_head < a.end_kv_head; ++kv_head) {
    for (int64_t first = 0; first < pairs; first += k_tile_rows) {
      Tile<W> tile;
      const int64_t count = pairs - first < k_tile_rows ? pairs - first : k_tile_rows;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t row = (first + j) / group;
        const int64_t head = kv_head * group + (first + j) % group;
        tile.query[j] = query_of(a, a.qkv + row * a.ld_qkv + head * a.head_dim, j);
        tile.out[j] = a.out + row * a.ldo + head * a.head_dim;
        tile.keys[j] = a.first_position + row + 1;
        tile.first[j] = a.window > 0 && tile.keys[j] > a.window ? tile.keys[j] - a.window : 0;
        tile.keys_max = tile.keys[j];
      }
      tile.kv_head = kv_head;
      tile.begin = tile.first[0] / k_block * k_block;
      attend_tail<Kind, W, k_tile_rows>(a, tile, count);
    }
  }
}

void attention(const CachedAttention& a) { attention_of<F32>(a); }
void attention_bf16(const Bf16CachedAttention& a) { attention_of<Bf16>(a); }
