#include "algorithms/correction.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

using catalog::CorrectionBound;
using catalog::CorrectionFilter;
using catalog::CorrectionLevel;
using catalog::Rejection;

constexpr double k_least_mean = 1e-8;  // verl's

double clamped(double x) { return std::clamp(x, -k_log_ratio_clamp, k_log_ratio_clamp); }

/// The live tokens of a batch, sequence by sequence.
class Tokens {
 public:
  explicit Tokens(const CorrectionInput& in) : in_(in) {
    const size_t size = in.layout.mask.size();
    COHORT_CHECK(in.old_logp.size() == size && in.behavior_logp.size() == size,
                 "ALG-2: log-probs of a correction have an entry per token");
  }
  size_t size() const { return in_.layout.mask.size(); }
  size_t sequences() const { return in_.layout.cu_seqlens.size() - 1; }
  double gap(size_t t) const { return in_.old_logp[t] - in_.behavior_logp[t]; }
  double old_logp(size_t t) const { return in_.old_logp[t]; }
  double behavior_logp(size_t t) const { return in_.behavior_logp[t]; }
  bool is_live(size_t t) const { return in_.layout.mask[t] != 0; }

  /// Calls visit(t) for the live tokens of a sequence; returns how many.
  template <class Visit>
  size_t each(size_t sequence, Visit visit) const {
    size_t count = 0;
    const auto end = static_cast<size_t>(in_.layout.cu_seqlens[sequence + 1]);
    for (auto t = static_cast<size_t>(in_.layout.cu_seqlens[sequence]); t < end; ++t) {
      if (!is_live(t)) continue;
      visit(t);
      ++count;
    }
    return count;
  }
  template <class Visit>
  size_t each(Visit visit) const {
    size_t count = 0;
    for (size_t s = 0; s < sequences(); ++s) count += each(s, visit);
    return count;
  }

 private:
  const CorrectionInput& in_;
};

/// Returns of each live token the value of its group at `level`: its own, the mean of its run or
/// sequence, the sum of its sequence.
template <class Value>
std::vector<double> grouped(const Tokens& tokens, CorrectionLevel level, Value value) {
  std::vector<double> out(tokens.size());
  if (level == CorrectionLevel::token) {
    tokens.each([&](size_t t) { out[t] = value(t); });
    return out;
  }
  std::vector<size_t> group;
  auto close = [&] {
    double sum = 0;
    for (size_t t : group) sum += value(t);
    if (level != CorrectionLevel::sequence)
      sum /= std::max<double>(1, static_cast<double>(group.size()));
    for (size_t t : group) out[t] = sum;
    group.clear();
  };
  for (size_t s = 0; s < tokens.sequences(); ++s) {
    tokens.each(s, [&](size_t t) {
      if (level == CorrectionLevel::segment && !group.empty() && group.back() + 1 != t) close();
      group.push_back(t);
    });
    close();
  }
  return out;
}

std::vector<double> ratios(const Tokens& tokens, CorrectionLevel level) {
  std::vector<double> x = grouped(tokens, level, [&](size_t t) { return tokens.gap(t); });
  tokens.each([&](size_t t) { x[t] = std::exp(clamped(x[t])); });
  return x;
}

struct Bounded {
  std::vector<double> weights;
  size_t clipped = 0;  // tokens whose ratio lay outside
};

Bounded bounded_weights(const Tokens& tokens, const catalog::Correction& rules) {
  Bounded result{ratios(tokens, rules.level)};
  const double low = rules.low.value_or(0);
  const double high = rules.high.value_or(std::numeric_limits<double>::infinity());
  std::vector<double> gate;
  if (rules.bound == CorrectionBound::gate) gate = ratios(tokens, CorrectionLevel::geometric);
  tokens.each([&](size_t t) {
    double& w = result.weights[t];
    const double judged = gate.empty() ? w : gate[t];
    const bool is_inside = judged >= low && judged <= high;
    result.clipped += is_inside ? 0 : 1;
    if (!is_inside) w = rules.bound == CorrectionBound::truncate ? std::clamp(w, low, high) : 0;
  });
  return result;
}

void add_weight_numbers(const Tokens& tokens, const Bounded& bounded, Correction& out) {
  double sum = 0, squares = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  const size_t live = tokens.each([&](size_t t) {
    const double w = bounded.weights[t];
    sum += w;
    squares += w * w;
    least = std::min(least, w);
    most = std::max(most, w);
  });
  if (live == 0) return;
  const auto n = static_cast<double>(live);
  const double mean = sum / n;
  const auto add = [&](const char* name, double value) {
    out.numbers.emplace_back(std::string("rollout_corr/rollout_is_") + name, value);
  };
  add("mean", mean);
  add("std", std::sqrt(std::max(0.0, squares / n - mean * mean)));
  add("max", most);
  add("min", least);
  add("eff_sample_size", squares > 0 ? sum * sum / (n * squares) : 0);
  add("clipped_fraction", static_cast<double>(bounded.clipped) / n);
}

/// Divides by the mean: of tokens, or, where a sequence has one weight, of the sequences with a
/// token (verl 0.9.1, compute_rollout_correction_weights). A mean up to 1e-8 divides nothing there.
void normalize(const Tokens& tokens, CorrectionLevel level, std::vector<double>& weights) {
  const bool is_token = level == CorrectionLevel::token || level == CorrectionLevel::segment;
  double sum = 0, count = 0;
  for (size_t s = 0; s < tokens.sequences(); ++s) {
    double own = 0;
    const size_t live = tokens.each(s, [&](size_t t) { own += weights[t]; });
    sum += is_token || live == 0 ? own : own / static_cast<double>(live);
    count += is_token ? static_cast<double>(live) : live > 0 ? 1 : 0;
  }
  if (sum <= k_least_mean * count) return;
  tokens.each([&](size_t t) { weights[t] *= count / sum; });
}

void apply(const Tokens& tokens, const CorrectionFilter& filter, std::vector<uint8_t>& mask) {
  if (filter.has_ratio) {
    const std::vector<double> ratio = ratios(tokens, filter.level);
    tokens.each([&](size_t t) {
      if (ratio[t] < filter.ratio_low || ratio[t] > filter.ratio_high) mask[t] = 0;
    });
  }
  if (filter.has_difference) {
    const std::vector<double> difference = grouped(tokens, filter.level, [&](size_t t) {
      return std::exp(tokens.old_logp(t)) - std::exp(tokens.behavior_logp(t));
    });
    tokens.each([&](size_t t) {
      if (difference[t] < filter.difference_low || difference[t] > filter.difference_high)
        mask[t] = 0;
    });
  }
}

double divergence(int k, double x) {
  if (k == 1) return -x;
  return k == 2 ? 0.5 * x * x : std::expm1(x) - x;
}

void apply(const Tokens& tokens, const Rejection& rule, std::vector<uint8_t>& mask) {
  const auto value = [&](size_t t) { return divergence(rule.k, clamped(tokens.gap(t))); };
  const auto keeps = [&](double x) {
    return rule.k == 1 ? x >= std::log(rule.low) && x <= std::log(rule.high) : x <= rule.high;
  };
  for (size_t s = 0; s < tokens.sequences(); ++s) {
    if (rule.over == Rejection::Over::token) {
      tokens.each(s, [&](size_t t) { mask[t] = keeps(value(t)) ? mask[t] : 0; });
      continue;
    }
    double sum = 0, most = -std::numeric_limits<double>::infinity();
    const size_t live = tokens.each(s, [&](size_t t) {
      sum += value(t);
      most = std::max(most, value(t));
    });
    const double judged = rule.over == Rejection::Over::seq_max    ? most
                          : rule.over == Rejection::Over::seq_mean ? sum / static_cast<double>(live)
                                                                   : sum;
    if (live > 0 && !keeps(judged)) tokens.each(s, [&](size_t t) { mask[t] = 0; });
  }
}

}  // namespace

Correction correct(const CorrectionInput& input, const catalog::Correction& rules) {
  const Tokens tokens(input);
  Correction out;
  if (rules.is_weighted) {
    Bounded bounded = bounded_weights(tokens, rules);
    add_weight_numbers(tokens, bounded, out);
    if (rules.is_normalized) normalize(tokens, rules.level, bounded.weights);
    out.weights = std::move(bounded.weights);
  }
  if (rules.filters.empty() && rules.rejections.empty()) return out;
  out.mask.assign(input.layout.mask.begin(), input.layout.mask.end());
  for (const CorrectionFilter& filter : rules.filters) apply(tokens, filter, out.mask);
  for (const Rejection& rule : rules.rejections) apply(tokens, rule, out.mask);
  size_t left = 0;
  const size_t live = tokens.each([&](size_t t) { left += out.mask[t] != 0 ? 1 : 0; });
  if (live > 0)
    out.numbers.emplace_back("rollout_corr/masked_fraction",
                             1 - static_cast<double>(left) / static_cast<double>(live));
  return out;
}

std::vector<std::pair<std::string, double>> offpolicy_metrics(const CorrectionInput& input) {
  const Tokens tokens(input);
  double kl = 0, k3 = 0, chi2_token = 0, chi2_seq = 0;
  double training = 0, rollout = 0, difference = 0, ratio = 0;
  double live = 0;
  for (size_t s = 0; s < tokens.sequences(); ++s) {
    double behavior = 0, old = 0, gap = 0;
    const size_t count = tokens.each(s, [&](size_t t) {
      const double x = tokens.gap(t);
      behavior += tokens.behavior_logp(t);
      old += tokens.old_logp(t);
      gap += x;
      kl -= x;
      k3 += std::expm1(x) - x;
      chi2_token += std::exp(2 * clamped(x));
    });
    const double n = std::max<double>(1, static_cast<double>(count));
    training += std::exp(-old / n);
    rollout += std::exp(-behavior / n);
    difference += (behavior - old) / n;
    ratio += std::exp((behavior - old) / n);
    chi2_seq += std::exp(2 * clamped(gap));
    live += static_cast<double>(count);
  }
  const double tokens_n = std::max(1.0, live);
  const double rows = std::max<double>(1, static_cast<double>(tokens.sequences()));
  return {{"kl", kl / tokens_n},
          {"k3_kl", k3 / tokens_n},
          {"training_ppl", training / rows},
          {"rollout_ppl", rollout / rows},
          {"log_ppl_diff", difference / rows},
          {"ppl_ratio", ratio / rows},
          {"chi2_token", chi2_token / tokens_n - 1},
          {"chi2_seq", chi2_seq / rows - 1}};
}

}  // namespace cohort::algorithms
