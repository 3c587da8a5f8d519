#include "actors/roles/sample_masks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace cohort::actors {
namespace {

/// The mean score of each trajectory's group.
std::vector<double> group_means(std::span<const double> scores,
                                std::span<const uint32_t> group_of) {
  std::map<uint32_t, std::pair<double, double>> sums;  // sum, count
  for (size_t i = 0; i < scores.size(); ++i) {
    sums[group_of[i]].first += scores[i];
    ++sums[group_of[i]].second;
  }
  std::vector<double> means;
  for (uint32_t group : group_of) means.push_back(sums.at(group).first / sums.at(group).second);
  return means;
}

}  // namespace

bool has_sample_masks(const config::RunConfig& config) {
  const config::RlvrSection& x = config.rlvr;
  return config.pipeline == config::Pipeline::rlvr &&
         (x.max_len_mask || x.difficulty_mask || x.error_max_len_clip);
}

std::vector<double> length_weights(std::span<const uint32_t> tokens) {
  if (tokens.empty()) return {};
  const auto [least, most] = std::ranges::minmax(tokens);
  const double range = most > least ? most - least : 1;
  std::vector<double> weights;
  for (const uint32_t count : tokens) weights.push_back(1.5 - (count - least) / range);
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  for (double& weight : weights) weight /= mean;
  return weights;
}

std::vector<uint8_t> trained_samples(const config::RlvrSection& asked,
                                     std::span<const proto::Trajectory> batch,
                                     std::span<const double> scores,
                                     std::span<const uint32_t> group_of) {
  const std::vector<double> means = group_means(scores, group_of);
  std::vector<uint8_t> trained(batch.size(), 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool is_cut = asked.max_len_mask && batch[i].stop_reason == "length";
    const bool is_outside = asked.difficulty_mask && !(asked.difficulty_low_threshold < means[i] &&
                                                       means[i] < asked.difficulty_high_threshold);
    const auto tokens = std::ranges::count(batch[i].response_mask, uint8_t{1});
    const bool is_long_error =
        asked.error_max_len_clip && scores[i] <= 0 && tokens > asked.error_max_len_threshold;
    if (is_cut || is_outside || is_long_error) trained[i] = 0;
  }
  return trained;
}

}  // namespace cohort::actors
