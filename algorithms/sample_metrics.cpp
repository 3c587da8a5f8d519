#include "algorithms/sample_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/base/rng.hpp"

namespace cohort::algorithms {
namespace {

DrawMoments moments(double mean, double square) {
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

std::vector<uint32_t> draw_counts(uint32_t n) {
  std::vector<uint32_t> counts;
  for (uint32_t k = 2; k < n; k *= 2) counts.push_back(k);
  if (n > 1) counts.push_back(n);
  return counts;
}

/// Sums over the prompts of a source, by metric.
using Sums = std::vector<std::pair<std::string, double>>;

void add(Sums& sums, const std::string& name, double value) {
  auto found = std::ranges::find(sums, name, &Sums::value_type::first);
  if (found == sums.end())
    sums.emplace_back(name, value);
  else
    found->second += value;
}

void add_prompt(Sums& sums, const PromptScores& prompt, uint32_t n) {
  const auto count = static_cast<double>(prompt.scores.size());
  double mean = 0;
  for (double score : prompt.scores) mean += score / count;
  double spread = 0;
  for (double score : prompt.scores) spread += (score - mean) * (score - mean);
  const std::string at = "@" + std::to_string(n);
  add(sums, "mean" + at, mean);
  if (n == 1) return;
  add(sums, "std" + at, std::sqrt(spread / std::max(1.0, count - 1)));
  auto put = [&](const std::string& name, uint32_t k, const DrawMoments& of) {
    add(sums, name + "@" + std::to_string(k) + "/mean", of.mean);
    add(sums, name + "@" + std::to_string(k) + "/std", of.std);
  };
  for (uint32_t k : draw_counts(n)) {
    put("best", k, best_of(prompt.scores, k));
    put("worst", k, worst_of(prompt.scores, k));
    if (!prompt.answers.empty()) put("maj", k, majority_of(prompt, k));
  }
}

bool is_core(const std::string& name, uint32_t n) {
  const std::string at = "@" + std::to_string(n);
  return name == "mean" + at || name == "best" + at + "/mean" || name == "maj" + at + "/mean";
}

}  // namespace

DrawMoments best_of(std::vector<double> scores, uint32_t k) {
  std::sort(scores.begin(), scores.end());
  const auto n = static_cast<double>(scores.size());
  double mean = 0;
  double square = 0;
  double below = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    double up_to = std::pow(static_cast<double>(i + 1) / n, k);
    mean += scores[i] * (up_to - below);
    square += scores[i] * scores[i] * (up_to - below);
    below = up_to;
  }
  return moments(mean, square);
}

DrawMoments worst_of(std::vector<double> scores, uint32_t k) {
  for (double& score : scores) score = -score;
  DrawMoments best = best_of(std::move(scores), k);
  return {-best.mean, best.std};
}

DrawMoments majority_of(const PromptScores& prompt, uint32_t k) {
  Rng rng(42);
  double mean = 0;
  double square = 0;
  std::vector<size_t> drawn(k);
  for (int draw = 0; draw < k_majority_draws; ++draw) {
    for (size_t& at : drawn) at = rng.below(prompt.scores.size());
    size_t winner = 0;
    size_t most = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const std::string& answer = prompt.answers[drawn[i]];
      auto votes = static_cast<size_t>(std::ranges::count_if(
          drawn, [&](size_t other) { return prompt.answers[other] == answer; }));
      if (votes > most) {
        most = votes;
        winner = drawn[i];
      }
    }
    double score = prompt.scores[winner];
    mean += score / k_majority_draws;
    square += score * score / k_majority_draws;
  }
  return moments(mean, square);
}

std::vector<std::pair<std::string, double>> sample_metrics(const std::vector<PromptScores>& prompts,
                                                           const std::string& variable) {
  std::map<std::string, std::vector<const PromptScores*>> sources;
  for (const PromptScores& prompt : prompts)
    if (!prompt.scores.empty()) sources[prompt.source].push_back(&prompt);
  std::vector<std::pair<std::string, double>> metrics;
  for (const auto& [source, members] : sources) {
    size_t n = 1;
    for (const PromptScores* prompt : members) n = std::max(n, prompt->scores.size());
    Sums sums;
    for (const PromptScores* prompt : members) add_prompt(sums, *prompt, static_cast<uint32_t>(n));
    for (const auto& [name, sum] : sums)
      metrics.emplace_back((is_core(name, static_cast<uint32_t>(n)) ? "val-core/" : "val-aux/") +
                               source + "/" + variable + "/" + name,
                           sum / static_cast<double>(members.size()));
  }
  return metrics;
}

}  // namespace cohort::algorithms
