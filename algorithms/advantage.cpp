#include "algorithms/advantage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

constexpr double k_variance_epsilon = 1e-8;  // ROLL's and verl's masked_whiten

size_t begin_of(std::span<const int32_t> cu_seqlens, size_t s) {
  return static_cast<size_t>(cu_seqlens[s]);
}

Expected<void> validate(const AdvantageInput& input, const AdvantageOptions& options, size_t out) {
  const auto& [cu_seqlens, mask] = input.layout;
  const size_t tokens = mask.size();
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 ||
      static_cast<size_t>(cu_seqlens.back()) != tokens ||
      !std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()))
    return Error{Errc::invalid_argument,
                 fmt::format("advantages: cu_seqlens does not run from 0 to {} tokens", tokens)};
  if (!input.values.empty() && input.values.size() != tokens)
    return Error{Errc::invalid_argument,
                 fmt::format("advantages: {} values for {} tokens", input.values.size(), tokens)};
  if (input.rewards.size() + 1 != cu_seqlens.size() || out != tokens)
    return Error{Errc::invalid_argument,
                 fmt::format("advantages: {} rewards for {} sequences, room for {} of {} tokens",
                             input.rewards.size(), cu_seqlens.size() - 1, out, tokens)};
  for (size_t s = 0; s < input.rewards.size(); ++s) {
    if (!std::isfinite(input.rewards[s]))
      return Error{Errc::invalid_argument,
                   fmt::format("advantages: the reward of sequence {} is not finite", s)};
  }
  if (!options.add_token_level_kl) return {};
  if (input.logp.size() != tokens || input.ref_logp.size() != tokens)
    return Error{Errc::invalid_argument,
                 "advantages: add_token_level_kl needs the log-probs of policy and reference"};
  for (size_t t = 0; t < tokens; ++t) {
    if (mask[t] != 0 && !(std::isfinite(input.logp[t]) && std::isfinite(input.ref_logp[t])))
      return Error{Errc::invalid_argument,
                   fmt::format("advantages: the log-prob of token {} is not finite", t)};
  }
  return {};
}

std::vector<double> token_rewards_of(const AdvantageInput& input, const AdvantageOptions& options) {
  const auto& [cu_seqlens, mask] = input.layout;
  std::vector<double> rewards(mask.size(), 0);
  auto clipped = [&](double reward) {
    const double bound = options.reward_clip.value_or(0);
    return options.reward_clip ? std::clamp(reward, -bound, bound) : reward;
  };
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    size_t last = begin_of(cu_seqlens, s + 1);
    while (last > begin_of(cu_seqlens, s) && mask[last - 1] == 0) --last;
    if (last > begin_of(cu_seqlens, s)) rewards[last - 1] = clipped(input.rewards[s]);
  }
  if (!options.add_token_level_kl) return rewards;
  for (size_t t = 0; t < rewards.size(); ++t) {
    if (mask[t] != 0)
      rewards[t] =
          clipped(rewards[t] -
                  options.kl_coef * kl_estimate(options.kl_kind, static_cast<double>(input.logp[t]),
                                                static_cast<double>(input.ref_logp[t])));
  }
  return rewards;
}

struct MaskedMoments {
  uint64_t count = 0;
  double mean = 0;
  double variance = 0;  // unbiased, 0 below two entries
};

template <class T>
MaskedMoments masked_moments(std::span<const T> x, std::span<const uint8_t> mask) {
  MaskedMoments moments;
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] != 0) {
      moments.mean += static_cast<double>(x[t]);
      ++moments.count;
    }
  }
  if (moments.count == 0) return moments;
  moments.mean /= static_cast<double>(moments.count);
  if (moments.count < 2) return moments;
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] != 0) {
      const double deviation = static_cast<double>(x[t]) - moments.mean;
      moments.variance += deviation * deviation;
    }
  }
  moments.variance /= static_cast<double>(moments.count - 1);
  return moments;
}

}  // namespace

Expected<AdvantageSummary> compute_token_advantages(const AdvantageInput& input,
                                                    const AdvantageOptions& options,
                                                    std::span<float> advantages) {
  COHORT_TRY(validate(input, options, advantages.size()));
  const std::span<const uint8_t> mask = input.layout.mask;
  const std::vector<double> rewards = token_rewards_of(input, options);
  const std::vector<double> values(input.values.begin(), input.values.end());
  std::vector<double> raw =
      options.advantages({rewards, input.layout, options.gamma, values, options.lambda});
  if (options.whiten) whiten(raw, mask);
  for (size_t t = 0; t < raw.size(); ++t) {
    double value = mask[t] != 0 ? raw[t] : 0;
    if (options.advantage_clip)
      value = std::clamp(value, -*options.advantage_clip, *options.advantage_clip);
    advantages[t] = static_cast<float>(value);
  }
  const MaskedMoments moments = masked_moments<float>(advantages, mask);
  return AdvantageSummary{moments.mean, std::sqrt(moments.variance), moments.count};
}

std::vector<double> discounted_returns(const TokenRewards& in) {
  const std::span<const int32_t> cu_seqlens = in.layout.cu_seqlens;
  std::vector<double> returns(in.rewards.size(), 0);
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    double next = 0;
    for (size_t t = begin_of(cu_seqlens, s + 1); t-- > begin_of(cu_seqlens, s);) {
      next = in.rewards[t] + in.gamma * next;
      returns[t] = next;
    }
  }
  return returns;
}

std::vector<double> segment_returns(const TokenRewards& in) {
  const auto& [cu_seqlens, mask] = in.layout;
  std::vector<double> returns(in.rewards.size(), 0);
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    double carry = 0;
    bool is_inside = false;
    for (size_t t = begin_of(cu_seqlens, s + 1); t-- > begin_of(cu_seqlens, s);) {
      if (mask[t] != 0 && !is_inside) carry = in.rewards[t] + in.gamma * carry;
      is_inside = mask[t] != 0;
      returns[t] = is_inside ? carry : 0;
    }
  }
  return returns;
}

void whiten(std::span<double> x, std::span<const uint8_t> mask, bool shift_mean) {
  COHORT_CHECK(x.size() == mask.size(), "whiten: one mask entry per value");
  const MaskedMoments moments = masked_moments<double>(x, mask);
  const bool is_whitened = moments.count > 1;
  const double scale = 1 / std::sqrt(moments.variance + k_variance_epsilon);
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] == 0)
      x[t] = 0;
    else if (is_whitened)
      x[t] = (x[t] - moments.mean) * scale + (shift_mean ? 0 : moments.mean);
  }
}

}  // namespace cohort::algorithms
