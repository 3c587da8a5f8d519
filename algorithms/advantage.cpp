#include "algorithms/advantage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

constexpr double k_variance_epsilon = 1e-8;  // ROLL's and verl's masked_whiten
constexpr double k_count_epsilon = 1e-8;     // of their masked_mean, which it divides by

size_t begin_of(std::span<const int32_t> cu_seqlens, size_t s) {
  return static_cast<size_t>(cu_seqlens[s]);
}

Expected<void> check_layout(const PackedLayout& layout) {
  const auto& [cu_seqlens, mask] = layout;
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 ||
      static_cast<size_t>(cu_seqlens.back()) != mask.size() ||
      !std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()))
    return Error{
        Errc::invalid_argument,
        fmt::format("advantages: cu_seqlens does not run from 0 to {} tokens", mask.size())};
  return {};
}

/// `x` has one entry per token, finite where the mask is 1.
Expected<void> check_tokens(std::string_view name, std::span<const double> x,
                            std::span<const uint8_t> mask) {
  if (x.size() != mask.size())
    return Error{Errc::invalid_argument,
                 fmt::format("advantages: {} {}s for {} tokens", x.size(), name, mask.size())};
  for (size_t t = 0; t < x.size(); ++t)
    if (mask[t] != 0 && !std::isfinite(x[t]))
      return Error{Errc::invalid_argument,
                   fmt::format("advantages: the {} of token {} is not finite", name, t)};
  return {};
}

Expected<void> validate(const AdvantageInput& input, const AdvantageOptions& options) {
  const auto& [cu_seqlens, mask] = input.layout;
  COHORT_TRY(check_layout(input.layout));
  const bool has_turns = !input.turn_ends.empty();
  const size_t places = has_turns ? input.turn_ends.size() : cu_seqlens.size() - 1;
  if (input.rewards.size() != places)
    return Error{Errc::invalid_argument,
                 fmt::format("advantages: {} rewards for {} {}", input.rewards.size(), places,
                             has_turns ? "turns" : "sequences")};
  for (uint32_t end : input.turn_ends)
    if (end >= mask.size())
      return Error{Errc::invalid_argument,
                   fmt::format("advantages: a turn ends at token {} of {}", end, mask.size())};
  for (size_t s = 0; s < input.rewards.size(); ++s) {
    if (!std::isfinite(input.rewards[s]))
      return Error{Errc::invalid_argument, fmt::format("advantages: reward {} is not finite", s)};
  }
  if (!options.add_token_level_kl) return {};
  if (input.logp.size() != mask.size() || input.ref_logp.size() != mask.size())
    return Error{Errc::invalid_argument,
                 "advantages: add_token_level_kl needs the log-probs of policy and reference"};
  COHORT_TRY(check_tokens("log-prob", input.logp, mask));
  return check_tokens("log-prob", input.ref_logp, mask);
}

struct MaskedMoments {
  uint64_t count = 0;
  double mean = 0;
  double variance = 0;  // unbiased, 0 below two entries
};

/// `more` is added to what both sums are divided by.
MaskedMoments masked_moments(std::span<const double> x, std::span<const uint8_t> mask,
                             double more = 0) {
  MaskedMoments moments;
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] != 0) {
      moments.mean += x[t];
      ++moments.count;
    }
  }
  if (moments.count == 0) return moments;
  const auto count = static_cast<double>(moments.count);
  moments.mean /= count + more;
  if (moments.count < 2) return moments;
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] != 0) {
      const double deviation = x[t] - moments.mean;
      moments.variance += deviation * deviation;
    }
  }
  moments.variance /= (count + more) * (count - 1) / count;
  return moments;
}

/// Returns x without what stands behind the mask: 0 there, but where a recursion goes through holes
/// their finite values.
std::vector<double> visible(std::span<const double> x, std::span<const uint8_t> mask,
                            bool is_through) {
  std::vector<double> seen(x.begin(), x.end());
  for (size_t t = 0; t < seen.size(); ++t)
    if (mask[t] == 0 && !(is_through && std::isfinite(seen[t]))) seen[t] = 0;
  return seen;
}

}  // namespace

Expected<std::vector<double>> place_rewards(const AdvantageInput& input,
                                            const AdvantageOptions& options) {
  COHORT_TRY(validate(input, options));
  const auto& [cu_seqlens, mask] = input.layout;
  std::vector<double> rewards(mask.size(), 0);
  auto clipped = [&](double reward) {
    const double bound = options.reward_clip.value_or(0);
    return options.reward_clip ? std::clamp(reward, -bound, bound) : reward;
  };
  for (size_t k = 0; k < input.turn_ends.size(); ++k)
    if (const uint32_t end = input.turn_ends[k]; mask[end] != 0)
      rewards[end] = clipped(input.rewards[k]);
  for (size_t s = 0; input.turn_ends.empty() && s + 1 < cu_seqlens.size(); ++s) {
    size_t last = begin_of(cu_seqlens, s + 1);
    while (last > begin_of(cu_seqlens, s) && mask[last - 1] == 0) --last;
    if (last > begin_of(cu_seqlens, s)) rewards[last - 1] = clipped(input.rewards[s]);
  }
  if (options.add_token_level_kl) {
    for (size_t t = 0; t < rewards.size(); ++t) {
      if (mask[t] == 0) continue;
      const double kl = kl_estimate(options.kl_kind, input.logp[t], input.ref_logp[t]);
      rewards[t] = clipped(rewards[t] - options.kl_coef * kl);
    }
  }
  if (options.whiten_rewards) whiten(rewards, mask);
  return rewards;
}

Expected<TokenCredit> credit_tokens(const TokenRewards& in, const AdvantageOptions& options) {
  const std::span<const uint8_t> mask = in.layout.mask;
  COHORT_TRY(check_layout(in.layout));
  COHORT_TRY(check_tokens("reward", in.rewards, mask));
  if (!in.values.empty()) COHORT_TRY(check_tokens("value", in.values, mask));
  if (!in.leads.empty()) COHORT_TRY(check_tokens("lead", in.leads, mask));
  const std::vector<double> rewards = visible(in.rewards, mask, false);
  const std::vector<double> values = visible(in.values, mask, options.holes == Holes::through);
  TokenCredit credit;
  credit.raw = options.advantages(
      {rewards, in.layout, options.gamma, values, options.lambda, options.holes});
  for (size_t t = 0; t < mask.size(); ++t)
    if (mask[t] == 0) credit.raw[t] = 0;
  credit.returns = credit.raw;
  for (size_t t = 0; t < values.size(); ++t)
    if (mask[t] != 0) credit.returns[t] += values[t];
  credit.advantages = credit.raw;
  for (size_t t = 0; t < in.leads.size(); ++t)
    if (mask[t] != 0) credit.advantages[t] += in.leads[t];
  if (options.whiten) whiten(credit.advantages, mask);
  if (options.advantage_clip)
    for (double& advantage : credit.advantages)
      advantage = std::clamp(advantage, -*options.advantage_clip, *options.advantage_clip);
  const MaskedMoments moments = masked_moments(credit.advantages, mask);
  credit.summary = {moments.mean, std::sqrt(moments.variance), moments.count};
  return credit;
}

Expected<TokenCredit> compute_token_advantages(const AdvantageInput& input,
                                               const AdvantageOptions& options) {
  COHORT_ASSIGN(const std::vector<double> rewards, place_rewards(input, options));
  return credit_tokens(
      {.rewards = rewards, .layout = input.layout, .values = input.values, .leads = input.leads},
      options);
}

std::vector<double> discounted_returns(const TokenRewards& in) {
  const auto& [cu_seqlens, mask] = in.layout;
  std::vector<double> returns(in.rewards.size(), 0);
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    double next = 0;
    for (size_t t = begin_of(cu_seqlens, s + 1); t-- > begin_of(cu_seqlens, s);) {
      if (mask[t] != 0 || in.holes == Holes::through)
        returns[t] = next = in.rewards[t] + in.gamma * next;
      else if (in.holes == Holes::reset)
        next = 0;
    }
  }
  return returns;
}

std::vector<double> turn_returns(const TokenRewards& in) {
  TokenRewards turns = in;
  turns.holes = Holes::reset;
  return discounted_returns(turns);
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
  const MaskedMoments moments = masked_moments(x, mask, k_count_epsilon);
  const bool is_whitened = moments.count > 1;
  const double scale = 1 / std::sqrt(moments.variance + k_variance_epsilon);
  for (size_t t = 0; t < x.size(); ++t) {
    if (mask[t] == 0)
      x[t] = 0;
    else if (is_whitened)
      x[t] = (x[t] - moments.mean) * scale + (shift_mean ? 0 : moments.mean);
  }
}

double explained_variance(std::span<const double> values, std::span<const double> returns,
                          std::span<const uint8_t> mask) {
  COHORT_CHECK(values.size() == mask.size() && returns.size() == mask.size(),
               "explained variance: one value and one return per mask entry");
  std::vector<double> errors(mask.size(), 0);
  for (size_t t = 0; t < mask.size(); ++t)
    if (mask[t] != 0) errors[t] = returns[t] - values[t];
  const double spread = masked_moments(returns, mask).variance;
  return spread > 0 ? 1 - masked_moments(errors, mask).variance / spread : 0;
}

}  // namespace cohort::algorithms
