#include "runtime/compute/generate/sampling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/rng.hpp"
#include "runtime/compute/kernels/decode_kernels.hpp"

namespace cohort::compute {

Expected<void> validate(const SamplingOptions& options) {
  if (!(options.temperature > 0.F) || !std::isfinite(options.temperature))
    return Error{
        Errc::invalid_argument,
        fmt::format("sampling: temperature = {} must be positive (greedy has its own switch)",
                    options.temperature)};
  if (!(options.top_p > 0.F && options.top_p <= 1.F))
    return Error{Errc::invalid_argument,
                 fmt::format("sampling: top_p = {} is not in (0, 1]", options.top_p)};
  if (options.top_k < 0)
    return Error{Errc::invalid_argument,
                 fmt::format("sampling: top_k = {} is negative (0 keeps all)", options.top_k)};
  if (!(options.repetition_penalty > 0.F) || !std::isfinite(options.repetition_penalty))
    return Error{Errc::invalid_argument,
                 fmt::format("sampling: repetition_penalty = {} must be positive (1: off)",
                             options.repetition_penalty)};
  return {};
}

double sampling_uniform(uint64_t rng_key, uint32_t turn, uint64_t position) {
  Rng rng = Rng(rng_key).fork(turn);
  rng.seek(position);
  return rng.uniform();
}

Sampler::Sampler(int64_t vocab_size) : weights_(static_cast<size_t>(vocab_size)) {}

/// Each token of the context once, however often it is there.
std::span<const float> Sampler::penalised(std::span<const float> logits, float penalty,
                                          std::span<const int32_t> context) {
  penalised_.assign(logits.begin(), logits.end());
  for (const int32_t token : context) {
    const auto at = static_cast<size_t>(token);
    if (at >= logits.size()) continue;
    penalised_[at] = logits[at] > 0.F ? logits[at] / penalty : logits[at] * penalty;
  }
  return penalised_;
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingOptions& options,
                             double uniform, std::span<const int32_t> context) {
  const cpu::DecodeKernels& kernels = cpu::decode_kernels();
  const auto count = static_cast<int64_t>(logits.size());
  COHORT_CHECK(logits.size() == weights_.size(), "sampler: logits are not one vocabulary row");
  const float best = kernels.row_max(logits.data(), count);
  float sum =
      kernels.exp_sum(logits.data(), count, best, 1.F, options.greedy ? nullptr : weights_.data());
  if (!std::isfinite(best) || !std::isfinite(sum)) return {};
  const float log_sum = std::log(sum);
  std::span<const float> drawn = logits;
  float drawn_best = best;
  if (options.repetition_penalty != 1.F) {
    drawn = penalised(logits, options.repetition_penalty, context);
    drawn_best = kernels.row_max(drawn.data(), count);
  }
  SampledToken result;
  if (options.greedy) {
    result.token = static_cast<int32_t>(kernels.index_of(drawn.data(), count, drawn_best));
  } else {
    if (options.temperature != 1.F || options.repetition_penalty != 1.F)
      sum = kernels.exp_sum(drawn.data(), count, drawn_best, 1.F / options.temperature,
                            weights_.data());
    double total = sum;
    if ((options.top_k > 0 && options.top_k < count) || options.top_p < 1.F) {
      filter(options);
      total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    }
    result.token = pick(total, uniform);
  }
  result.logp = (logits[static_cast<size_t>(result.token)] - best) - log_sum;
  return result;
}

/// Sets the weight of every token outside top_k and top_p to 0. Ties go to the smaller id.
void Sampler::filter(const SamplingOptions& options) {
  order_.resize(weights_.size());
  std::iota(order_.begin(), order_.end(), 0);
  auto weight = [this](int32_t id) { return weights_[static_cast<size_t>(id)]; };
  auto before = [&weight](int32_t a, int32_t b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a < b;
  };
  auto kept_end = order_.end();
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order_.size()) {
    kept_end = order_.begin() + options.top_k;
    std::nth_element(order_.begin(), kept_end - 1, order_.end(), before);
  }
  if (options.top_p < 1.F) {
    std::sort(order_.begin(), kept_end, before);
    double total = 0;
    for (auto it = order_.begin(); it != kept_end; ++it) total += weight(*it);
    const double wanted = total * static_cast<double>(options.top_p);
    double reached = 0;
    auto it = order_.begin();
    while (it != kept_end && (it == order_.begin() || reached < wanted)) reached += weight(*it++);
    kept_end = it;
  }
  for (auto it = kept_end; it != order_.end(); ++it) weights_[static_cast<size_t>(*it)] = 0.F;
}

/// Inverse of the cumulative distribution in order of token id. A large vocabulary is walked in
/// blocks, whose sums need no chain of additions, and then inside one block.
int32_t Sampler::pick(double total, double uniform) const {
  constexpr size_t k_block = 1024, k_small = 4 * k_block;
  const cpu::DecodeKernels& kernels = cpu::decode_kernels();
  const double target = uniform * total;
  double reached = 0;
  size_t i = 0;
  while (weights_.size() > k_small && i + k_block <= weights_.size()) {
    const double with_block = reached + kernels.wide_sum(weights_.data() + i, k_block);
    if (with_block > target) break;
    reached = with_block;
    i += k_block;
  }
  int32_t last = -1;
  for (; i < weights_.size(); ++i) {
    if (weights_[i] == 0.F) continue;
    reached += weights_[i];
    last = static_cast<int32_t>(i);
    if (reached > target) break;
  }
  // Rounding may leave `reached` a hair below `target`: then the last token with weight.
  for (i = weights_.size(); last < 0 && i > 0; --i)
    if (weights_[i - 1] != 0.F) last = static_cast<int32_t>(i - 1);
  return last;
}

}  // namespace cohort::compute
