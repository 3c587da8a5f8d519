#include "runtime/catalog/correction_rules.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace cohort::catalog {
namespace {

constexpr std::string_view k_over[] = {"token", "seq_sum", "seq_mean", "seq_max"};

std::vector<std::string_view> by_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

Expected<Rejection> option(std::string_view text) {
  for (size_t i = 0; i < std::size(k_over); ++i) {
    if (!text.starts_with(k_over[i]) || text.size() != k_over[i].size() + 3) continue;
    const std::string_view k = text.substr(k_over[i].size());
    Rejection rule{static_cast<Rejection::Over>(i), k[2] - '0'};
    const bool is_k = k.starts_with("_k") && rule.k >= 1 && rule.k <= 3;
    if (is_k && (rule.over != Rejection::Over::seq_max || rule.k > 1)) return rule;
  }
  return Error{Errc::config,
               fmt::format("'{}' is not a rejection: use token_, seq_sum_, seq_mean_ k1, k2 or k3, "
                           "or seq_max_ k2 or k3",
                           text)};
}

Expected<void> set_threshold(Rejection& rule, std::string_view text) {
  const size_t bar = text.find('_');
  const auto first = number(text.substr(0, bar));
  const auto second = bar == std::string_view::npos ? first : number(text.substr(bar + 1));
  const bool is_pair = bar != std::string_view::npos;
  if (!first || !second || *second <= 0 || (rule.k == 1 && *first <= 0) ||
      (is_pair && (*first > *second || rule.k != 1)))
    return Error{Errc::config, fmt::format("'{}' is no threshold of {}: {}", text, rule.name(),
                                           rule.k == 1 ? "a ratio above 0, or two as 0.5_2.0"
                                                       : "a number above 0")};
  rule.high = *second;
  if (rule.k == 1) rule.low = is_pair ? *first : 1 / *second;
  return {};
}

}  // namespace

std::string Rejection::name() const {
  return fmt::format("{}_k{}", k_over[static_cast<size_t>(over)], k);
}

Expected<std::vector<Rejection>> parse_rejections(std::string_view options,
                                                  std::string_view thresholds) {
  std::vector<Rejection> rules;
  if (options.empty()) return rules;
  if (thresholds.empty())
    return Error{Errc::config, fmt::format("'{}' needs thresholds, by commas", options)};
  const auto names = by_commas(options), limits = by_commas(thresholds);
  if (limits.size() != 1 && limits.size() != names.size())
    return Error{Errc::config, fmt::format("{} thresholds for {} rejections: give one for all, or "
                                           "one each",
                                           limits.size(), names.size())};
  for (size_t i = 0; i < names.size(); ++i) {
    COHORT_ASSIGN(Rejection rule, option(names[i]));
    COHORT_TRY(set_threshold(rule, limits[limits.size() == 1 ? 0 : i]));
    rules.push_back(rule);
  }
  return rules;
}

Expected<void> read_weight_bound(std::string_view threshold, Correction& rules) {
  const size_t bar = threshold.find('_');
  const auto low = number(threshold.substr(0, bar));
  const auto high = bar == std::string_view::npos ? low : number(threshold.substr(bar + 1));
  const bool is_pair = bar != std::string_view::npos;
  if (!low || !high || *high <= 0 || (is_pair && (*low < 0 || *low > *high)))
    return Error{Errc::config, fmt::format("'{}' is no bound of weights: give a number above 0, or "
                                           "two as 0.5_5.0",
                                           threshold)};
  rules.bound = is_pair ? CorrectionBound::mask : CorrectionBound::truncate;
  rules.low = is_pair ? low : std::nullopt;
  rules.high = high;
  return {};
}

}  // namespace cohort::catalog
