#pragma once
/// Held-out metrics of prompts that were answered several times, under verl's names. Pure.
///   mean@N, std@N       over the N answers of a prompt (std unbiased)
///   best@k, worst@k     mean and std of the best and the worst of k draws with replacement
///   maj@k               mean and std of the score of the answer that k draws give most often
/// for k = 2, 4, 8, … below N, and N; each a mean over the prompts of one data source. verl
/// estimates all of them by 1,000 bootstrap draws; best and worst are exact here: with the scores
/// sorted, P(max <= x_i) = (i/N)^k. maj stays an estimate by k_majority_draws draws of a fixed
/// generator; on equal counts the answer drawn first wins, as in verl.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cohort::algorithms {

inline constexpr int k_majority_draws = 1000;

/// The answers to one prompt.
struct PromptScores {
  std::string source;                // verl's data_source
  std::vector<double> scores;        // at least one
  std::vector<std::string> answers;  // normalised, as long as `scores`; empty: there are none
};

/// Mean and deviation of the best (worst: of the least) of k draws with replacement.
struct DrawMoments {
  double mean = 0;
  double std = 0;
};
DrawMoments best_of(std::vector<double> scores, uint32_t k);
DrawMoments worst_of(std::vector<double> scores, uint32_t k);
DrawMoments majority_of(const PromptScores& prompt, uint32_t k);

/// Returns (name, value) pairs: "val-core/<source>/<variable>/mean@N", best and maj at N there too;
/// all else under val-aux/. N is the largest number of answers of a source's prompts.
std::vector<std::pair<std::string, double>> sample_metrics(const std::vector<PromptScores>& prompts,
                                                           const std::string& variable);

}  // namespace cohort::algorithms
