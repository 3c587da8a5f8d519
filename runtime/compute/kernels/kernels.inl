// f32 kernels, compiled once per instruction set: the including file defines COHORT_KERNEL_SET
// (namespace) and COHORT_KERNEL_LANES. See kernels.hpp for what each does, simd.inl for the
// vectors.
#include <math.h>

#include <cstdint>

#include "runtime/compute/kernels/kernels.hpp"

namespace cohort::compute::cpu::COHORT_KERNEL_SET {
namespace {

#include "runtime/compute/kernels/simd.inl"
// clang-format off: simd.inl comes first
#include "runtime/compute/kernels/attention.inl"
// clang-format on

void rms_norm(const float* x, const float* weight, float* y, float* rstd, int64_t rows,
              int64_t columns, float eps) {
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
    for (int64_t c = whole; c < columns; ++c) y[c] = x[c] * scale * weight[c];
  }
}

// dx = rstd * (w dy) - x * rstd^3 * mean(w dy x)
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* rstd,
                       float* dx, float* dweight, int64_t rows, int64_t columns) {
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
    for (int64_t c = whole; c < columns; ++c) dx[c] = dy[c] * weight[c] * scale - x[c] * pull;
  }
}

/// Rotates one head; `b` is a bias of zeros or of the head.
inline void rotate_head(const float* x, const float* bias, float* y, const float* cos,
                        const float* sin, int64_t half, float sign) {
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
    float low = x[j] + (bias != nullptr ? bias[j] : 0.0f);
    float high = x[half + j] + (bias != nullptr ? bias[half + j] : 0.0f);
    float s = sin[j] * sign;
    y[j] = low * cos[j] - high * s;
    y[half + j] = high * cos[j] + low * s;
  }
}

void rope(const RopeArgs& a) {
  const int64_t half = a.head_dim / 2, rotated = a.rotated_heads * a.head_dim;
  const int64_t columns = rotated + a.plain_heads * a.head_dim;
  const float sign = a.is_inverse ? -1.0f : 1.0f;
  for (int64_t row = 0; row < a.rows; ++row) {
    const float* x = a.x + row * columns;
    float* y = a.y + row * columns;
    const int64_t angle = a.positions[row] * half;
    for (int64_t c = 0; c < rotated; c += a.head_dim)
      rotate_head(x + c, a.bias != nullptr ? a.bias + c : nullptr, y + c, a.cos + angle,
                  a.sin + angle, half, sign);
    for (int64_t c = rotated; c < columns; ++c) y[c] = a.bias != nullptr ? x[c] + a.bias[c] : x[c];
  }
}

void swiglu(const float* gate_up, float* y, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * n, y += n) {
    const float *gate = gate_up, *up = gate_up + n;
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

void swiglu_backward(const float* dy, const float* gate_up, float* dgate_up, int64_t rows,
                     int64_t n) {
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

void column_sum(const float* x, float* out, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, x += columns) {
    for (int64_t c = 0; c < columns; ++c) out[c] += x[c];
  }
}

void add(float* y, const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
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
extern const Kernels k_table;
const Kernels k_table = {
    COHORT_STRING(COHORT_KERNEL_SET),
    rms_norm,
    rms_norm_backward,
    rope,
    attention,
    attention_backward,
    swiglu,
    swiglu_backward,
    softmax_stats,
    softmax_stats_backward,
    column_sum,
    add,
    adamw,
};

}  // namespace cohort::compute::cpu::COHORT_KERNEL_SET
