// Causal attention over packed sequences, forward and backward; included by kernels.inl inside its
// namespace. Per sequence and key-value head, queries go in blocks of k_block_rows: scores of a
// block are a small matrix product against transposed keys, so that every inner loop runs over
// contiguous lanes.
constexpr int64_t k_columns = 16;     // [floats] a register tile's width, in every instruction set
constexpr int64_t k_block_rows = 12;  // queries per block: a multiple of every tile height
constexpr int64_t k_vectors = k_columns / k_lanes;
constexpr int k_tile_rows = k_lanes == 4 ? 3 : k_lanes == 8 ? 6 : 12;  // tile fits the registers

/// A view of a matrix by strides: element (i, j) at data[i * row + j * column].
struct Strided {
  const float* data;
  int64_t row, column;
};

/// c[Rows, 16] (= or +=) scale * a[Rows, k] b[k, 16]; sums over k in order.
template <int Rows, bool IsAdded>
inline void tile(Strided a, const float* b, int64_t b_stride, int64_t k, float scale, float* c,
                 int64_t c_stride) {
  Vec sum[Rows][k_vectors] = {};
  for (int64_t i = 0; i < k; ++i) {
    Vec right[k_vectors];
    for (int64_t j = 0; j < k_vectors; ++j) right[j] = load(b + i * b_stride + j * k_lanes);
    for (int64_t r = 0; r < Rows; ++r) {
      const Vec left = splat(a.data[r * a.row + i * a.column]);
      for (int64_t j = 0; j < k_vectors; ++j) sum[r][j] += left * right[j];
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < k_vectors; ++j) {
      float* to = c + r * c_stride + j * k_lanes;
      store(to, IsAdded ? load(to) + sum[r][j] * splat(scale) : sum[r][j] * splat(scale));
    }
  }
}

/// c[m, n] (= or +=) scale * a[m, k] b[k, n]; n % 16 == 0. Each element's sum is in k order
/// whatever m is.
template <bool IsAdded>
inline void small_product(int64_t m, int64_t n, int64_t k, Strided a, const float* b,
                          int64_t b_stride, float scale, float* c, int64_t c_stride) {
  for (int64_t column = 0; column < n; column += k_columns) {
    int64_t r = 0;
    auto run = [&]<int Rows>() {
      for (; r + Rows <= m; r += Rows)
        tile<Rows, IsAdded>({a.data + r * a.row, a.row, a.column}, b + column, b_stride, k, scale,
                            c + r * c_stride + column, c_stride);
    };
    run.template operator()<k_tile_rows>();
    if constexpr (k_tile_rows > 6) run.template operator()<6>();
    if constexpr (k_tile_rows > 3) run.template operator()<3>();
    run.template operator()<1>();
  }
}

/// to[d, j] = from[j, d] for j < rows; columns rows..padded of `to` are zero.
inline void transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      float* to, int64_t padded) {
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t d = 0; d < columns; ++d) to[d * padded + j] = from[j * from_stride + d];
  }
  for (int64_t d = 0; d < columns; ++d) {
    for (int64_t j = rows; j < padded; ++j) to[d * padded + j] = 0;
  }
}

inline int64_t round_up(int64_t x) { return (x + k_columns - 1) / k_columns * k_columns; }

/// One block of queries of one head: what both directions need.
struct QueryBlock {
  int64_t first, rows;        // query rows of the packed batch
  const int32_t* position;    // [rows]
  int64_t keys, keys_padded;  // keys seen by the last query; rounded up to a tile
  int64_t begin;              // keys before it are seen by no query of the block; whole tiles

  /// The first key that query r sees.
  int64_t first_key(int64_t r, int64_t window) const {
    const int64_t key = position[r] + 1 - window;
    return window > 0 && key > 0 ? key : 0;
  }
};

inline QueryBlock query_block(const AttentionArgs& a, int64_t first, int64_t end) {
  const int64_t rows = end - first < k_block_rows ? end - first : k_block_rows;
  const int64_t keys = a.q_position[first + rows - 1] + 1;
  QueryBlock block = {first, rows, a.q_position + first, keys, round_up(keys), 0};
  block.begin = block.first_key(0, a.window) / k_columns * k_columns;
  return block;
}

/// Hides the first `count` keys of a row from its maximum and its sum.
inline void hide(float* scores, int64_t count) {
  for (int64_t j = 0; j < count; ++j) scores[j] = -INFINITY;
}

/// scores[row, :] -> exp(scores - shift) for the `visible` first keys, 0 beyond to `padded`, a
/// whole number of tiles; returns the sum.
inline float exponentials(float* scores, int64_t visible, int64_t padded, float shift) {
  Vec sum = {};
  int64_t j = 0;
  for (; j + k_lanes <= visible; j += k_lanes) {
    Vec e = exponential(load(scores + j) - splat(shift));
    store(scores + j, e);
    sum += e;
  }
  if (j < visible) {
    Vec e = exponential(first_lanes(load(scores + j), visible - j, shift - 1000.0f) - splat(shift));
    store(scores + j, e);
    sum += e;
    j += k_lanes;
  }
  for (; j < padded; j += k_lanes) store(scores + j, Vec{});
  return lane_sum(sum);
}

/// REQUIRES: a whole tile can be read from the last column on, as from every row of scores.
inline float padded_row_max(const float* x, int64_t columns) {
  const float lowest = -INFINITY;
  Vec top = splat(lowest);
  int64_t c = 0;
  for (; c + k_lanes <= columns; c += k_lanes) top = maximum(load(x + c), top);
  if (c < columns) top = maximum(first_lanes(load(x + c), columns - c, lowest), top);
  return lane_max(top);
}

void attention(const AttentionArgs& a) {
  const int64_t group = a.q_heads / a.kv_heads, dim = a.head_dim, out_stride = a.q_heads * dim;
  for (int64_t s = 0; s < a.sequences; ++s) {
    const int64_t q_end = a.cu_q[s + 1], keys = a.cu_k[s + 1] - a.cu_k[s];
    if (a.cu_q[s] == q_end) continue;
    const int64_t padded = round_up(keys);
    float *keys_transposed = a.scratch, *scores = a.scratch + dim * padded;
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const float* k = a.k + a.cu_k[s] * a.kv_stride + kv_head * dim;
      const float* v = a.v + a.cu_k[s] * a.kv_stride + kv_head * dim;
      transpose(k, a.kv_stride, keys, dim, keys_transposed, padded);
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (int64_t first = a.cu_q[s]; first < q_end; first += k_block_rows) {
          const QueryBlock block = query_block(a, first, q_end);
          float* out = a.out + first * out_stride + head * dim;
          const int64_t begin = block.begin;
          small_product<false>(block.rows, block.keys_padded - begin, dim,
                               {a.q + first * a.q_stride + head * dim, a.q_stride, 1},
                               keys_transposed + begin, padded, a.scale, scores + begin, padded);
          float inverse[k_block_rows];
          for (int64_t r = 0; r < block.rows; ++r) {
            float* row = scores + r * padded + begin;
            hide(row, block.first_key(r, a.window) - begin);
            const int64_t visible = block.position[r] + 1 - begin;
            const float top = padded_row_max(row, visible);
            const float sum = exponentials(row, visible, block.keys_padded - begin, top);
            inverse[r] = 1.0f / sum;
            a.lse[(first + r) * a.q_heads + head] = top + logf(sum);
          }
          small_product<false>(block.rows, dim, block.keys - begin, {scores + begin, padded, 1},
                               v + begin * a.kv_stride, a.kv_stride, 1.0f, out, out_stride);
          for (int64_t r = 0; r < block.rows; ++r) {
            for (int64_t d = 0; d < dim; ++d) out[r * out_stride + d] *= inverse[r];
          }
        }
      }
    }
  }
}

/// Pointers of one (sequence, head) for the backward.
struct BackwardHead {
  const float *q, *k, *v, *dout, *out, *lse;
  float *dq, *dk, *dv;
  const float *keys_transposed, *values_transposed;
  float *p, *dp;  // [k_block_rows, padded]
  int64_t padded;
};

/// Turns dp into ds = p (dp - delta), delta = sum_d dout out (FlashAttention-2, arXiv 2307.08691,
/// algorithm 2).
inline void score_gradients(const AttentionArgs& a, const QueryBlock& block,
                            const BackwardHead& h) {
  const int64_t out_stride = a.q_heads * a.head_dim;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t at = (block.first + r) * out_stride;
    Vec sum = {};
    for (int64_t d = 0; d < a.head_dim; d += k_lanes)
      sum += load(h.dout + at + d) * load(h.out + at + d);
    const Vec delta = splat(lane_sum(sum));
    float *p = h.p + r * h.padded, *dp = h.dp + r * h.padded;
    for (int64_t j = block.begin; j < block.keys_padded; j += k_lanes)
      store(dp + j, load(p + j) * (load(dp + j) - delta));
  }
}

inline void backward_block(const AttentionArgs& a, const QueryBlock& block, const BackwardHead& h) {
  const int64_t dim = a.head_dim, out_stride = a.q_heads * dim;
  const float* q = h.q + block.first * a.q_stride;
  const float* dout = h.dout + block.first * out_stride;
  const int64_t begin = block.begin, keys = block.keys - begin;
  const int64_t keys_padded = block.keys_padded - begin;
  float *p = h.p + begin, *dp = h.dp + begin;
  small_product<false>(block.rows, keys_padded, dim, {q, a.q_stride, 1}, h.keys_transposed + begin,
                       h.padded, a.scale, p, h.padded);
  for (int64_t r = 0; r < block.rows; ++r) {
    hide(p + r * h.padded, block.first_key(r, a.window) - begin);
    exponentials(p + r * h.padded, block.position[r] + 1 - begin, keys_padded,
                 h.lse[(block.first + r) * a.q_heads]);
  }
  small_product<true>(keys, dim, block.rows, {p, 1, h.padded}, dout, out_stride, 1.0f,
                      h.dv + begin * a.dkv_stride, a.dkv_stride);
  small_product<false>(block.rows, keys_padded, dim, {dout, out_stride, 1},
                       h.values_transposed + begin, h.padded, 1.0f, dp, h.padded);
  score_gradients(a, block, h);
  small_product<false>(block.rows, dim, keys, {dp, h.padded, 1}, h.k + begin * a.kv_stride,
                       a.kv_stride, a.scale, h.dq + block.first * a.dq_stride, a.dq_stride);
  small_product<true>(keys, dim, block.rows, {dp, 1, h.padded}, q, a.q_stride, a.scale,
                      h.dk + begin * a.dkv_stride, a.dkv_stride);
}

inline void zero_rows(float* x, int64_t stride, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) x[r * stride + c] = 0;
  }
}

void attention_backward(const AttentionArgs& a) {
  const int64_t group = a.q_heads / a.kv_heads, dim = a.head_dim;
  for (int64_t s = 0; s < a.sequences; ++s) {
    const int64_t first_key = a.cu_k[s], keys = a.cu_k[s + 1] - first_key;
    const int64_t padded = round_up(keys), q_end = a.cu_q[s + 1];
    float* keys_transposed = a.scratch;
    float* values_transposed = keys_transposed + dim * padded;
    float* p = values_transposed + dim * padded;
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const float* k = a.k + first_key * a.kv_stride + kv_head * dim;
      const float* v = a.v + first_key * a.kv_stride + kv_head * dim;
      float* dk = a.dk + first_key * a.dkv_stride + kv_head * dim;
      float* dv = a.dv + first_key * a.dkv_stride + kv_head * dim;
      zero_rows(dk, a.dkv_stride, keys, dim);
      zero_rows(dv, a.dkv_stride, keys, dim);
      if (a.cu_q[s] == q_end) continue;
      transpose(k, a.kv_stride, keys, dim, keys_transposed, padded);
      transpose(v, a.kv_stride, keys, dim, values_transposed, padded);
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const int64_t at = head * dim;
        const BackwardHead h = {a.q + at,
                                k,
                                v,
                                a.dout + at,
                                a.out + at,
                                a.lse + head,
                                a.dq + at,
                                dk,
                                dv,
                                keys_transposed,
                                values_transposed,
                                p,
                                p + k_block_rows * padded,
                                padded};
        for (int64_t first = a.cu_q[s]; first < q_end; first += k_block_rows)
          backward_block(a, query_block(a, first, q_end), h);
      }
    }
  }
}
