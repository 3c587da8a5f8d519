#pragma once
/// Hand-written CPU kernels of training behind one function table. The same source (kernels.inl) is
/// compiled for several instruction sets; kernels() picks the best one this CPU has, once. Pure
/// functions over raw row-major memory; no allocation, no threads, no globals but the chosen table.
/// Arithmetic is f32. Elements are f32 (float) or bf16 (uint16_t, the upper half of an f32), which
/// are widened as they are read and rounded once, to nearest even, as they are written.
///
/// KERNEL-1: a row's result depends on that row's inputs only; sums run in a fixed lane order that
/// does not depend on alignment, neighbours or the number of rows (docs/architecture.md,
/// Determinism). Bits may differ between tables. Sums over rows (weight gradients) run in row
/// order.
#include <cstdint>
#include <string_view>

namespace cohort::compute::cpu {

/// Rotates heads by their position (rotate-half: element j pairs with j + head_dim / 2) and adds a
/// bias before it: y = R(position) (x + bias). Heads from rotated_heads on only get the bias.
template <class T>
struct RopeArgs {
  const T* x = nullptr;                // [rows, (rotated + plain) * head_dim]
  const T* bias = nullptr;             // [(rotated + plain) * head_dim] or nullptr
  T* y = nullptr;                      // as x; may be x
  const int32_t* positions = nullptr;  // [rows] position in its sequence
  const float* cos = nullptr;          // [max_position, head_dim / 2]
  const float* sin = nullptr;          // as cos
  int64_t rows = 0, rotated_heads = 0, plain_heads = 0, head_dim = 0;
  bool is_inverse = false;  // rotate by minus the angle (the backward)
};

/// Causal attention over packed sequences. Sequence s has keys cu_k[s]..cu_k[s+1] and queries
/// cu_q[s]..cu_q[s+1]; query r sees the keys 0..q_position[r] of its sequence. Query positions
/// ascend inside a sequence. Query head h reads key-value head h / (q_heads / kv_heads).
struct AttentionArgs {
  const float* q = nullptr;  // row r, head h at q + r * q_stride + h * head_dim
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t q_stride = 0, kv_stride = 0;  // [floats] from row to row
  const int32_t* cu_q = nullptr;        // [sequences + 1]
  const int32_t* cu_k = nullptr;        // [sequences + 1]
  const int32_t* q_position = nullptr;  // [queries]
  int64_t sequences = 0, q_heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // above 0: query r sees the last `window` of those keys only
  float scale = 1;
  float* out = nullptr;  // [queries, q_heads * head_dim]; read by the backward
  float* lse =
      nullptr;  // [queries, q_heads] log-sum-exp of the scaled scores; read by the backward
  // backward only
  const float* dout = nullptr;  // as out
  float *dq = nullptr, *dk = nullptr,
        *dv = nullptr;  // strides dq_stride, dkv_stride; all overwritten
  int64_t dq_stride = 0, dkv_stride = 0;
  float* scratch = nullptr;  // attention_scratch_floats() floats
};

/// The step of AdamW (Loshchilov & Hutter, arXiv 1711.05101, algorithm 2) on a flat range:
/// g' = g * grad_scale; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
/// p = p (1 - lr wd) - lr (m / bias1) / (sqrt(v / bias2) + eps).
struct AdamwPiece {
  float *parameters = nullptr, *m = nullptr, *v = nullptr;
  const float* gradients = nullptr;
  int64_t count = 0;
  bool is_decayed = false;  // else wd is 0
};
/// What all pieces of one step share.
struct AdamwScale {
  float grad_scale = 1, learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float bias1 = 1, bias2 = 1;  // 1 - beta1^t, 1 - beta2^t
};

/// Log-softmax of rows whose logits come as blocks of columns, left to right. `running` [rows, 4]
/// belongs to the kernels; zeros before the first block.
template <class T>
struct SoftmaxBlock {
  const T* logits = nullptr;  // [rows, columns]
  int64_t rows = 0, columns = 0;
  int64_t first_column = 0;         // of the block
  const int32_t* target = nullptr;  // [rows] column of all, in the block or not
};
/// What the backward of a block needs of its rows, each [rows].
struct SoftmaxRows {
  const float *lse = nullptr, *entropy = nullptr;  // of the forward
  const float *dlogp = nullptr, *dentropy = nullptr;
};

/// Kernels over rows of T: float, or uint16_t for bf16.
template <class T>
struct RowKernels {
  /// y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps). rstd [rows] may be nullptr.
  void (*rms_norm)(const T* x, const T* weight, T* y, float* rstd, int64_t rows, int64_t columns,
                   float eps);
  /// dx is overwritten, dweight [columns] is added to.
  void (*rms_norm_backward)(const T* dy, const T* x, const T* weight, const float* rstd, T* dx,
                            float* dweight, int64_t rows, int64_t columns);
  void (*rope)(const RopeArgs<T>&);
  /// y [rows, n] = silu(gate) * up, gate_up [rows, 2 n] with gate first.
  void (*swiglu)(const T* gate_up, T* y, int64_t rows, int64_t n);
  void (*swiglu_backward)(const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t n);
  /// Takes one more block of columns into `running`.
  void (*softmax_block)(const SoftmaxBlock<T>&, float* running);
  /// d loss / d logits of a block from the gradients of logp and entropy; may write over logits.
  void (*softmax_block_backward)(const SoftmaxBlock<T>&, const SoftmaxRows&, T* dlogits);
  /// out[c] += sum over rows of x[row, c].
  void (*column_sum)(const T* x, float* out, int64_t rows, int64_t columns);
  /// y[i] += x[i].
  void (*add)(float* y, const T* x, int64_t count);
};

struct Kernels : RowKernels<float> {
  RowKernels<uint16_t> bf16;
  const char* name;  // "generic", "avx2", "avx512"
  /// Needs head_dim % 16 == 0 (so do all attention kernels).
  void (*attention)(const AttentionArgs&);
  void (*attention_backward)(const AttentionArgs&);
  /// Per row of logits [rows, columns]: log-softmax at target, entropy of the softmax, log-sum-exp.
  void (*softmax_stats)(const float* logits, const int32_t* target, float* logp, float* entropy,
                        float* lse, int64_t rows, int64_t columns);
  /// The same from what softmax_block left in `running` after the last block.
  void (*softmax_finish)(const float* running, float* logp, float* entropy, float* lse,
                         int64_t rows);
  /// logits -> d loss / d logits in place, from the gradients of logp and entropy.
  void (*softmax_stats_backward)(float* logits, const int32_t* target, const float* lse,
                                 const float* entropy, const float* dlogp, const float* dentropy,
                                 int64_t rows, int64_t columns);
  void (*widen)(const uint16_t* from, float* to, int64_t count);
  /// Rounds to nearest, ties to even; NaN stays NaN.
  void (*narrow)(const float* from, uint16_t* to, int64_t count);
  void (*adamw)(const AdamwPiece&, const AdamwScale&);
  /// Largest bits of |x[i]|: those of a float order as it does, NaN above infinity.
  uint32_t (*largest_magnitude)(const float* x, int64_t count);
  /// sums[0], sums[1] += the high and low halves of sum((x[i] scale)^2) as compute::SquareSum has
  /// them; scale is a power of two with |x[i] scale| < 1. Exact: any cut gives the same sums.
  void (*square_sums)(const float* x, int64_t count, double scale, uint64_t* sums);

  /// The row kernels of T.
  template <class T>
  const RowKernels<T>& rows() const {
    if constexpr (sizeof(T) == sizeof(float))
      return *this;
    else
      return bf16;
  }
};

/// Returns the number of floats attention (forward and backward) needs as scratch.
int64_t attention_scratch_floats(int64_t keys_max, int64_t head_dim);

/// Returns the table of the best instruction set this CPU has.
const Kernels& kernels();

/// Returns the table called `name`, or nullptr if it is not built in or this CPU cannot run it
/// (tests, benches).
const Kernels* kernels_named(std::string_view name);

}  // namespace cohort::compute::cpu
