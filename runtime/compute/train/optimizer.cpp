#include "runtime/compute/train/optimizer.hpp"

#include <cmath>

#include "runtime/compute/kernels/kernels.hpp"

namespace cohort::compute {

AdamwScale adamw_scale(const OptimizerOptions& options, double norm, double learning_rate,
                       uint64_t step) {
  const bool is_clipped = options.max_grad_norm > 0 && norm > options.max_grad_norm;
  AdamwScale scale;
  scale.grad_scale = is_clipped ? static_cast<float>(options.max_grad_norm / norm) : 1.0f;
  scale.learning_rate = static_cast<float>(learning_rate);
  scale.beta1 = static_cast<float>(options.beta1);
  scale.beta2 = static_cast<float>(options.beta2);
  scale.eps = static_cast<float>(options.eps);
  scale.weight_decay = static_cast<float>(options.weight_decay);
  scale.bias1 = static_cast<float>(1 - std::pow(options.beta1, static_cast<double>(step)));
  scale.bias2 = static_cast<float>(1 - std::pow(options.beta2, static_cast<double>(step)));
  return scale;
}

void adamw_step(const AdamwPiece& piece, const AdamwScale& scale) {
  cpu::AdamwArgs args;
  args.parameters = piece.parameters;
  args.gradients = piece.gradients;
  args.m = piece.m;
  args.v = piece.v;
  args.count = piece.count;
  args.grad_scale = scale.grad_scale;
  args.learning_rate = scale.learning_rate;
  args.beta1 = scale.beta1;
  args.beta2 = scale.beta2;
  args.eps = scale.eps;
  args.weight_decay = piece.is_decayed ? scale.weight_decay : 0.0f;
  args.bias1 = scale.bias1;
  args.bias2 = scale.bias2;
  cpu::kernels().adamw(args);
}

}  // namespace cohort::compute
