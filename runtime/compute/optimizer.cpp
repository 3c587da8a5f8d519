#include "runtime/compute/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "runtime/compute/cpu/kernels.hpp"

namespace cohort::compute {

std::vector<DecayRange> decay_ranges(const ParameterLayout& layout) {
  std::vector<DecayRange> ranges;
  for (size_t i = 0; i < layout.specs.size(); ++i) {
    const ParameterSpec& spec = layout.specs[i];
    const int64_t end =
        i + 1 < layout.specs.size() ? layout.specs[i + 1].offset : layout.total_elements;
    if (ranges.empty() || ranges.back().is_decayed != spec.is_decayed)
      ranges.push_back({spec.offset, 0, spec.is_decayed});
    ranges.back().count = end - ranges.back().offset;
  }
  return ranges;
}

double gradient_norm(std::span<const float> gradients) {
  return std::sqrt(
      cpu::kernels().sum_of_squares(gradients.data(), static_cast<int64_t>(gradients.size())));
}

Expected<double> adamw_step(const FlatState& state, std::span<const DecayRange> ranges,
                            const OptimizerOptions& options, double learning_rate, uint64_t step) {
  const double norm = gradient_norm(state.gradients);
  if (!std::isfinite(norm))
    return Error{Errc::compute,
                 fmt::format("optimizer step {}: gradient norm is {}; parameters are unchanged",
                             step, norm)};
  const bool is_clipped = options.max_grad_norm > 0 && norm > options.max_grad_norm;
  cpu::AdamwArgs args;
  args.grad_scale = is_clipped ? static_cast<float>(options.max_grad_norm / norm) : 1.0f;
  args.learning_rate = static_cast<float>(learning_rate);
  args.beta1 = static_cast<float>(options.beta1);
  args.beta2 = static_cast<float>(options.beta2);
  args.eps = static_cast<float>(options.eps);
  args.bias1 = static_cast<float>(1 - std::pow(options.beta1, static_cast<double>(step)));
  args.bias2 = static_cast<float>(1 - std::pow(options.beta2, static_cast<double>(step)));
  for (const DecayRange& range : ranges) {
    args.parameters = state.parameters.data() + range.offset;
    args.gradients = state.gradients.data() + range.offset;
    args.m = state.m.data() + range.offset;
    args.v = state.v.data() + range.offset;
    args.count = range.count;
    args.weight_decay = range.is_decayed ? static_cast<float>(options.weight_decay) : 0.0f;
    cpu::kernels().adamw(args);
  }
  return norm;
}

}  // namespace cohort::compute
