// Kernels of training, compiled once per instruction set: the including file defines
// COHORT_KERNEL_SET (namespace) and COHORT_KERNEL_LANES. See kernels.hpp for what each does,
// simd.inl for the vectors.
#include <math.h>

#include <cstdint>

#include "runtime/compute/kernels/kernels.hpp"

namespace cohort::compute::cpu::COHORT_KERNEL_SET {
namespace {

#include "runtime/compute/kernels/simd.inl"
// clang-format off: simd.inl comes first
#include "runtime/compute/kernels/attention.inl"
// clang-format on

template <class T>
void rms_norm(const T* x, const T* weight, T* y, float* rstd, int64_t rows, int64_t columns,
              float eps) {
  const int64_t whole = columns / k_lanes * k_lanes, rest = columns - whole;
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
    Vec sum = {};
    for (int64_t c = 0; c < whole; c += k_lanes) sum += load(x + c) * load(x + c);
    if (rest > 0) {
      Vec tail = load_part(x + whole, rest);
      sum += tail * tail;
    }
    float scale = 1.0f / sqrtf(lane_sum(sum) / static_cast<float>(columns) + eps);
    if (rstd != nullptr) rstd[row] = scale;
    for (int64_t c = 0; c < whole; c += k_lanes)
      store(y + c, load(x + c) * splat(scale) * load(weight + c));
    for (int64_t c = whole; c < columns; ++c)
      put(y + c, value_of(x[c]) * scale * value_of(weight[c]));
  }
}

// dx = rstd * (w dy) - x * rstd^3 * mean(w dy x)
template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* rstd, T* dx,
                       float* dweight, int64_t rows, int64_t columns) {
  const int64_t whole = columns / k_lanes * k_lanes, rest = columns - whole;
  for (int64_t row = 0; row < rows; ++row, x += columns, dy += columns, dx += columns) {
    const float scale = rstd[row];
    Vec sum = {};
    for (int64_t c = 0; c < whole; c += k_lanes) {
      Vec product = load(dy + c) * load(x + c);
      sum += product * load(weight + c);
      store(dweight + c, load(dweight + c) + product * splat(scale));
    }
    if (rest > 0) {
      Vec product = load_part(dy + whole, rest) * load_part(x + whole, rest);
      sum += product * load_part(weight + whole, rest);
      store_part(dweight + whole, load_part(dweight + whole, rest) + product * splat(scale), rest);
    }
    const float pull = lane_sum(sum) * scale * scale * scale / static_cast<float>(columns);
    for (int64_t c = 0; c < whole; c += k_lanes)
      store(dx + c, load(dy + c) * load(weight + c) * splat(scale) - load(x + c) * splat(pull));
    for (int64_t c = whole; c < columns; ++c)
      put(dx + c, value_of(dy[c]) * value_of(weight[c]) * scale - value_of(x[c]) * pull);
  }
}

/// Rotates one head; `b` is a bias of zeros or of the head.
template <class T>
inline void rotate_head(const T* x, const T* bias, T* y, const float* cos, const float* sin,
                        int64_t half, float sign) {
  int64_t j = 0;
  for (; j + k_lanes <= half; j += k_lanes) {
    Vec low = load(x + j), high = load(x + half + j);
    if (bias != nullptr) {
      low += load(bias + j);
      high += load(bias + half + j);
    }
    Vec c = load(cos + j), s = load(sin + j) * splat(sign);
    store(y + j, low * c - high * s);
    store(y + half + j, high * c + low * s);
  }
  for (; j < half; ++j) {
    float low = value_of(x[j]) + (bias != nullptr ? value_of(bias[j]) : 0.0f);
    float high = value_of(x[half + j]) + (bias != nullptr ? value_of(bias[half + j]) : 0.0f);
    float s = sin[j] * sign;
    put(y + j, low * cos[j] - high * s);
    put(y + half + j, high * cos[j] + low * s);
  }
}

template <class T>
void rope(const RopeArgs<T>& a) {
  const int64_t half = a.head_dim / 2, rotated = a.rotated_heads * a.head_dim;
  const int64_t columns = rotated + a.plain_heads * a.head_dim;
  const float sign = a.is_inverse ? -1.0f : 1.0f;
  for (int64_t row = 0; row < a.rows; ++row) {
    const T* x = a.x + row * columns;
    T* y = a.y + row * columns;
    const int64_t angle = a.positions[row] * half;
    for (int64_t c = 0; c < rotated; c += a.head_dim)
      rotate_head(x + c, a.bias != nullptr ? a.bias + c : nullptr, y + c, a.cos + angle,
                  a.sin + angle, half, sign);
    for (int64_t c = rotated; c < columns; ++c)
      put(y + c, a.bias != nullptr ? value_of(x[c]) + value_of(a.bias[c]) : value_of(x[c]));
  }
}

template <class T>
void swiglu(const T* gate_up, T* y, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * n, y += n) {
    const T *gate = gate_up, *up = gate_up + n;
    int64_t c = 0;
    for (; c + k_lanes <= n; c += k_lanes) {
      Vec g = load(gate + c);
      store(y + c, g * sigmoid(g) * load(up + c));
    }
    if (c < n) {
      Vec g = load_part(gate + c, n - c);
      store_part(y + c, g * sigmoid(g) * load_part(up + c, n - c), n - c);
    }
  }
}

// d silu(g) = s (1 + g (1 - s)), s = sigmoid(g)
inline void swiglu_gradient(Vec dy, Vec g, Vec u, Vec& dg, Vec& du) {
  Vec s = sigmoid(g);
  du = dy * g * s;
  dg = dy * u * s * (splat(1.0f) + g * (splat(1.0f) - s));
}

template <class T>
void swiglu_backward(const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, dy += n, gate_up += 2 * n, dgate_up += 2 * n) {
    Vec dg, du;
    int64_t c = 0;
    for (; c + k_lanes <= n; c += k_lanes) {
      swiglu_gradient(load(dy + c), load(gate_up + c), load(gate_up + n + c), dg, du);
      store(dgate_up + c, dg);
      store(dgate_up + n + c, du);
    }
    if (c < n) {
      const int64_t rest = n - c;
      swiglu_gradient(load_part(dy + c, rest), load_part(gate_up + c, rest),
                      load_part(gate_up + n + c, rest), dg, du);
      store_part(dgate_up + c, dg, rest);
      store_part(dgate_up + n + c, du, rest);
    }
  }
}

template <class T>
inline float row_max(const T* x, int64_t columns) {
  const float lowest = -INFINITY;
  Vec most = splat(lowest);
  int64_t c = 0;
  for (; c + k_lanes <= columns; c += k_lanes) most = maximum(load(x + c), most);
  if (c < columns) most = maximum(load_part(x + c, columns - c, lowest), most);
  return lane_max(most);
}

void softmax_stats(const float* logits, const int32_t* target, float* logp, float* entropy,
                   float* lse, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, logits += columns) {
    const float top = row_max(logits, columns);
    Vec sum = {}, weighted = {};
    int64_t c = 0;
    for (; c + k_lanes <= columns; c += k_lanes) {
      Vec x = load(logits + c) - splat(top), e = exponential(x);
      sum += e;
      weighted += e * x;
    }
    if (c < columns) {  // the filled lanes get e^(-1000) = 0
      Vec x = load_part(logits + c, columns - c, top - 1000.0f) - splat(top), e = exponential(x);
      sum += e;
      weighted += e * x;
    }
    const float total = lane_sum(sum), log_total = logf(total);
    lse[row] = top + log_total;
    logp[row] = (logits[target[row]] - top) - log_total;
    entropy[row] = log_total - lane_sum(weighted) / total;
  }
}

// d logp / d l_j = [j = target] - p_j;  d H / d l_j = -p_j (log p_j + H)
void softmax_stats_backward(float* logits, const int32_t* target, const float* lse,
                            const float* entropy, const float* dlogp, const float* dentropy,
                            int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, logits += columns) {
    const Vec shift = splat(lse[row]), h = splat(entropy[row]);
    const Vec gain = splat(dlogp[row]), gain_h = splat(dentropy[row]);
    int64_t c = 0;
    for (; c + k_lanes <= columns; c += k_lanes) {
      Vec log_p = load(logits + c) - shift;
      store(logits + c, -exponential(log_p) * (gain + gain_h * (log_p + h)));
    }
    if (c < columns) {
      Vec log_p = load_part(logits + c, columns - c) - shift;
      store_part(logits + c, -exponential(log_p) * (gain + gain_h * (log_p + h)), columns - c);
    }
    logits[target[row]] += dlogp[row];
  }
}

/// What is known of a row after some of its columns.
struct Running {
  float top;       // largest logit
  float sum;       // of e^(x - top); 0 before the first block
  float weighted;  // of e^(x - top) (x - top)
  float picked;    // the target's logit
};

/// Sums of a block relative to its own largest logit.
template <class T>
inline Running block_sums(const T* x, int64_t columns) {
  const float top = row_max(x, columns);
  Vec sum = {}, weighted = {};
  int64_t c = 0;
  for (; c + k_lanes <= columns; c += k_lanes) {
    const Vec shifted = load(x + c) - splat(top), e = exponential(shifted);
    sum += e;
    weighted += e * shifted;
  }
  if (c < columns) {  // the filled lanes get e^(-1000) = 0
    const Vec shifted = load_part(x + c, columns - c, top - 1000.0f) - splat(top);
    const Vec e = exponential(shifted);
    sum += e;
    weighted += e * shifted;
  }
  return {top, lane_sum(sum), lane_sum(weighted), 0};
}

/// Moves sums to a larger top: e^(x - top') = e^(x - top) e^(top - top').
inline void raise_top(Running& row, float top) {
  const float down = row.top - top, scale = expf(down);
  row.weighted = scale * (row.weighted + down * row.sum);
  row.sum *= scale;
  row.top = top;
}

template <class T>
void softmax_block(const SoftmaxBlock<T>& a, float* running) {
  for (int64_t r = 0; r < a.rows; ++r) {
    Running row;
    __builtin_memcpy(&row, running + 4 * r, sizeof row);
    const T* logits = a.logits + r * a.columns;
    Running block = block_sums(logits, a.columns);
    block.picked = row.picked;
    if (!(row.sum == 0)) {  // a NaN stays
      const float top = block.top > row.top ? block.top : row.top;
      raise_top(row, top);
      raise_top(block, top);
      block.sum += row.sum;
      block.weighted += row.weighted;
    }
    const int64_t target = a.target[r] - a.first_column;
    if (target >= 0 && target < a.columns) block.picked = value_of(logits[target]);
    __builtin_memcpy(running + 4 * r, &block, sizeof block);
  }
}

void softmax_finish(const float* running, float* logp, float* entropy, float* lse, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    Running row;
    __builtin_memcpy(&row, running + 4 * r, sizeof row);
    const float log_total = logf(row.sum);
    lse[r] = row.top + log_total;
    logp[r] = (row.picked - row.top) - log_total;
    entropy[r] = log_total - row.weighted / row.sum;
  }
}

// As softmax_stats_backward; the target's own 1 is added before the rounding.
template <class T>
void softmax_block_backward(const SoftmaxBlock<T>& a, const SoftmaxRows& of, T* dlogits) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* logits = a.logits + r * a.columns;
    T* out = dlogits + r * a.columns;
    const Vec shift = splat(of.lse[r]), h = splat(of.entropy[r]);
    const Vec gain = splat(of.dlogp[r]), gain_h = splat(of.dentropy[r]);
    auto gradient = [&](Vec x) __attribute__((always_inline)) {
      const Vec log_p = x - shift;
      return -exponential(log_p) * (gain + gain_h * (log_p + h));
    };
    const int64_t target = a.target[r] - a.first_column;
    const bool is_here = target >= 0 && target < a.columns;
    float of_target[k_lanes];  // every lane the same
    if (is_here) store(of_target, gradient(splat(value_of(logits[target]))) + gain);
    int64_t c = 0;
    for (; c + k_lanes <= a.columns; c += k_lanes) store(out + c, gradient(load(logits + c)));
    if (c < a.columns)
      store_part(out + c, gradient(load_part(logits + c, a.columns - c)), a.columns - c);
    if (is_here) put(out + target, of_target[0]);
  }
}

template <class T>
void column_sum(const T* x, float* out, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, x += columns) {
    for (int64_t c = 0; c < columns; ++c) out[c] += value_of(x[c]);
  }
}

template <class T>
void add(float* y, const T* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += value_of(x[i]);
}

void widen(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = value_of(from[i]);
}

void narrow(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  for (; i + k_lanes <= count; i += k_lanes) store(to + i, load(from + i));
  for (; i < count; ++i) put(to + i, from[i]);
}

uint32_t largest_magnitude(const float* x, int64_t count) {
  UintVec most = {};
  int64_t i = 0;
  for (; i + k_lanes <= count; i += k_lanes) {
    const UintVec bits = reinterpret_cast<UintVec>(load(x + i)) & 0x7FFFFFFF;
    most = bits > most ? bits : most;
  }
  uint32_t largest = 0;
  for (int64_t lane = 0; lane < k_lanes; ++lane)
    largest = most[lane] > largest ? most[lane] : largest;
  for (; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// Adding and subtracting 1.5 * 2^52 rounds a double of at most 2^51 to an integer.
inline double rounded(double value) {
  constexpr double k_magic = 6755399441055744.0;
  return (value + k_magic) - k_magic;
}

// Every product with k_step or scale is exact, so that fused operations give the same bits.
void square_sums(const float* x, int64_t count, double scale, uint64_t* sums) {
  constexpr int64_t k_each = 16, k_block = int64_t{1} << 20;  // 2^20 highs of 2^26: exact in f64
  constexpr double k_step = 67108864.0;                       // 2^26
  for (int64_t begin = 0; begin < count; begin += k_block) {
    const int64_t size = count - begin < k_block ? count - begin : k_block;
    const float* block = x + begin;
    double high[k_each] = {}, low[k_each] = {};
    auto take = [&](int64_t lane, float value) __attribute__((always_inline)) {
      const double scaled = static_cast<double>(value) * scale;
      const double square = scaled * scaled * k_step;
      const double whole = rounded(square);
      high[lane] += whole;
      low[lane] += rounded((square - whole) * k_step) + k_step;  // never negative
    };
    int64_t i = 0;
    for (; i + k_each <= size; i += k_each)
      for (int64_t lane = 0; lane < k_each; ++lane) take(lane, block[i + lane]);
    for (; i < size; ++i) take(0, block[i]);
    for (int64_t lane = 0; lane < k_each; ++lane) {
      sums[0] += static_cast<uint64_t>(high[lane]);
      sums[1] += static_cast<uint64_t>(low[lane]);
    }
    sums[0] -= static_cast<uint64_t>(size);  // the k_step that each low got
  }
}

void adamw(const AdamwPiece& piece, const AdamwScale& a) {
  const float weight_decay = piece.is_decayed ? a.weight_decay : 0.0f;
  const float rate = a.learning_rate / a.bias1, keep = 1.0f - a.learning_rate * weight_decay;
  const float root_scale = 1.0f / sqrtf(a.bias2);
  const float beta1 = a.beta1, beta2 = a.beta2, grad_scale = a.grad_scale, eps = a.eps;
  float* __restrict parameters = piece.parameters;
  float* __restrict m = piece.m, * __restrict v = piece.v;
  const float* __restrict gradients = piece.gradients;
  for (int64_t i = 0; i < piece.count; ++i) {
    const float g = gradients[i] * grad_scale;
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * (g * g);
    parameters[i] = parameters[i] * keep - rate * m[i] / (sqrtf(v[i]) * root_scale + eps);
  }
}

}  // namespace

#define COHORT_STRING_INNER(x) #x
#define COHORT_STRING(x) COHORT_STRING_INNER(x)
template <class T>
constexpr RowKernels<T> k_rows = {
    rms_norm<T>,      rms_norm_backward<T>,      rope<T>,       swiglu<T>, swiglu_backward<T>,
    softmax_block<T>, softmax_block_backward<T>, column_sum<T>, add<T>};
extern const Kernels k_table;
const Kernels k_table = {
    k_rows<float>,
    k_rows<uint16_t>,
    COHORT_STRING(COHORT_KERNEL_SET),
    attention,
    attention_backward,
    softmax_stats,
    softmax_finish,
    softmax_stats_backward,
    widen,
    narrow,
    adamw,
    largest_magnitude,
    square_sums,
};

}  // namespace cohort::compute::cpu::COHORT_KERNEL_SET
