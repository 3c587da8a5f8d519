#pragma once
/// What corrects an update for the gap between the policy that sampled (beh) and the one that
/// begins the update (old), as a config says it: a weight on the loss of each token, and rules that
/// take tokens out of it. algorithms/correction.hpp computes it. x_t = old_t - beh_t. Pure: values
/// and a parser.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::catalog {

/// What one ratio covers: e^x of a token, e^(mean x) of a run of sampled tokens (segment) or of the
/// sequence (geometric), e^(sum x) of the sequence.
enum class CorrectionLevel : uint8_t { token, segment, geometric, sequence };
constexpr std::string_view names_of(CorrectionLevel) { return "token segment geometric sequence"; }

/// What becomes of a ratio outside [low, high]: it is set to the bound (truncate: TIS), to 0
/// (mask: icepop, MIS), or the sequence is left out if its geometric ratio lies outside and its
/// ratios stay as they are else (gate: OpenRLHF's seq-mask-tis).
enum class CorrectionBound : uint8_t { truncate, mask, gate };
constexpr std::string_view names_of(CorrectionBound) { return "truncate mask gate"; }

/// ROLL's: a token stays where the ratio, and the difference of probabilities e^old - e^beh, of
/// its level lie inside (the sequence's difference is a sum, others are means).
struct CorrectionFilter {
  CorrectionLevel level = CorrectionLevel::token;
  bool has_ratio = true;
  double ratio_low = 0.8, ratio_high = 1.2;
  bool has_difference = false;
  double difference_low = -0.2, difference_high = 0.2;
  bool operator==(const CorrectionFilter&) const = default;
};

/// verl's: of k1 = -x, k2 = x^2/2 or k3 = e^x - 1 - x a token's own value, or the sum, mean or
/// maximum of its sequence. It stays where ln low <= k1 <= ln high; where k2, k3 <= high.
struct Rejection {
  enum class Over : uint8_t { token, seq_sum, seq_mean, seq_max };
  Over over = Over::token;
  int k = 1;  // 1, 2 or 3
  double low = 0, high = 0;
  std::string name() const;  // "seq_mean_k3"
  bool operator==(const Rejection&) const = default;
};

/// Reads verl's rollout_rs and rollout_rs_threshold: "token_k1,seq_mean_k3" and "0.6_1.6,0.06"; one
/// threshold counts for all options, one number u is 1/u_u for k1. Returns Errc::config naming the
/// option or the threshold.
Expected<std::vector<Rejection>> parse_rejections(std::string_view options,
                                                  std::string_view thresholds);

struct Correction {
  bool is_weighted = false;
  CorrectionLevel level = CorrectionLevel::token;
  CorrectionBound bound = CorrectionBound::truncate;
  std::optional<double> low, high = 1.2;
  bool is_normalized = false;  // weights are divided by their mean over tokens, or over sequences
  std::vector<CorrectionFilter> filters;
  std::vector<Rejection> rejections;
  bool is_asked() const { return is_weighted || !filters.empty() || !rejections.empty(); }
  bool operator==(const Correction&) const = default;
};

/// Reads verl's rollout_is_threshold: a number bounds weights from above; "lo_hi" sets those
/// outside to 0. Returns Errc::config naming it.
Expected<void> read_weight_bound(std::string_view threshold, Correction& rules);

}  // namespace cohort::catalog
