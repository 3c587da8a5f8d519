// What is told of a finished batch, and what is checked of one before it trains.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "actors/roles/trainer_actor.hpp"
#include "actors/run/row_set.hpp"
#include "algorithms/sample_metrics.hpp"

namespace cohort::actors {

Expected<void> check_staleness(const std::vector<proto::Trajectory>& batch, uint64_t policy_version,
                               uint64_t bound) {
  for (const proto::Trajectory& t : batch)
    if (t.weight_version_min + bound < policy_version)
      return Error{Errc::protocol,
                   fmt::format("FLOW-3: trajectory of step {}, group {}, index {} has tokens of "
                               "version {}; the policy is at {} and the bound is {}",
                               t.key.step, t.key.group, t.key.index, t.weight_version_min,
                               policy_version, bound)};
  return {};
}

namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / std::max<double>(1, static_cast<double>(values.size()));
}

/// Mean, greatest and least of some numbers.
struct Spread {
  double sum = 0, least = 0, greatest = 0;
  uint64_t count = 0;
  void add(double x) {
    least = count == 0 ? x : std::min(least, x);
    greatest = count == 0 ? x : std::max(greatest, x);
    sum += x;
    ++count;
  }
  void write(const std::string& name, std::vector<std::pair<std::string, double>>& metrics) const {
    metrics.emplace_back(name + "/mean", sum / std::max<double>(1, static_cast<double>(count)));
    metrics.emplace_back(name + "/max", greatest);
    metrics.emplace_back(name + "/min", least);
  }
};

/// verl's metrics of rows: `acc` where a scorer gives it, else the score. Masked answers are left
/// out.
std::vector<std::pair<std::string, double>> held_out_metrics(
    const std::vector<proto::Trajectory>& batch) {
  std::map<uint32_t, algorithms::PromptScores> prompts;
  bool has_acc = false;
  for (const proto::Trajectory& t : batch) {
    if (t.data_source.empty() || !t.mask_reason.empty()) continue;
    algorithms::PromptScores& prompt = prompts[t.key.group];
    prompt.source = t.data_source;
    const std::optional<double> accuracy = proto::accuracy_of(t);
    has_acc = has_acc || accuracy;
    std::string answer;
    for (const proto::RewardPart& part : t.reward_parts)
      if (answer.empty() && part.detail.starts_with("pred ")) answer = part.detail;
    prompt.scores.push_back(accuracy.value_or(t.score));
    prompt.answers.push_back(std::move(answer));
  }
  std::vector<algorithms::PromptScores> list;
  for (auto& [group, prompt] : prompts) list.push_back(std::move(prompt));
  return algorithms::sample_metrics(list, has_acc ? std::string(proto::k_accuracy) : "reward");
}

}  // namespace

std::vector<std::pair<std::string, double>> staleness_metrics(
    const std::vector<proto::Trajectory>& batch, uint64_t policy_version) {
  double sum = 0, tokens = 0, spans = 0, sampled = 0;
  uint64_t oldest = policy_version, newest = 0;
  for (const proto::Trajectory& t : batch) {
    std::set<uint32_t> versions;
    for (size_t i = 0; i < t.token_versions.size(); ++i) {
      if (t.response_mask[i] == 0) continue;
      versions.insert(t.token_versions[i]);
      sum += static_cast<double>(policy_version) - t.token_versions[i];
      ++tokens;
    }
    if (versions.empty()) continue;
    spans += static_cast<double>(versions.size());
    ++sampled;
    oldest = std::min<uint64_t>(oldest, *versions.begin());
    newest = std::max<uint64_t>(newest, *versions.rbegin());
  }
  if (tokens == 0) return {};
  return {{"staleness/mean", sum / tokens},
          {"staleness/max", static_cast<double>(policy_version - oldest)},
          {"staleness/min", static_cast<double>(policy_version) - static_cast<double>(newest)},
          {"staleness/spans", spans / sampled}};
}

std::vector<std::pair<std::string, double>> rollout_metrics(
    const std::vector<proto::Trajectory>& batch) {
  std::map<std::string, double> sums;
  std::map<std::string, std::vector<double>> scores;  // by tag
  std::map<std::string, std::vector<double>> parts;
  Spread score, answers, prompts;
  double masked = 0;
  std::vector<double> greedy, demonstrated;
  for (const proto::Trajectory& t : batch) {
    if (t.is_greedy || proto::is_demonstration(t)) {
      (t.is_greedy ? greedy : demonstrated).push_back(t.score);
      continue;
    }
    masked += t.mask_reason.empty() || proto::is_left_out(t) ? 0 : 1;
    const auto sampled = static_cast<double>(std::ranges::count(t.response_mask, uint8_t{1}));
    score.add(t.score);
    answers.add(sampled);
    prompts.add(static_cast<double>(t.tokens.size()) - sampled);
    scores[t.tag].push_back(t.score);
    for (const auto& [name, value] : t.metrics) sums["env/" + t.tag + "/" + name] += value;
    for (const proto::RewardPart& part : t.reward_parts)
      if (t.mask_reason.empty()) parts["rewards/" + part.name + "/mean"].push_back(part.value);
  }
  const double count = std::max<double>(1, static_cast<double>(score.count));
  std::vector<std::pair<std::string, double>> metrics = {{"reward/mean", score.sum / count}};
  score.write("rollout/score", metrics);
  answers.write("rollout/response_length", metrics);
  prompts.write("rollout/prompt_length", metrics);
  metrics.emplace_back("reward/masked", masked / count);
  if (!greedy.empty()) metrics.emplace_back("reward/greedy/mean", mean_of(greedy));
  if (!demonstrated.empty()) {
    metrics.emplace_back("reward/demonstration/mean", mean_of(demonstrated));
    metrics.emplace_back("rollout/demonstrations", static_cast<double>(demonstrated.size()));
  }
  for (const auto& [name, sum] : sums) {
    const std::string tag = name.substr(4, name.rfind('/') - 4);  // behind "env/"
    metrics.emplace_back(name, sum / static_cast<double>(scores.at(tag).size()));
  }
  for (const auto& [name, values] : parts) metrics.emplace_back(name, mean_of(values));
  const bool is_held_out = !batch.empty() && batch.front().key.kind == TrajectoryKind::val;
  if (!is_held_out) return metrics;
  for (const auto& [tag, values] : scores) {
    metrics.emplace_back("val/" + tag + "/score/mean", mean_of(values));
    metrics.emplace_back("val/" + tag + "/score/max", *std::ranges::max_element(values));
    metrics.emplace_back("val/" + tag + "/score/min", *std::ranges::min_element(values));
  }
  for (auto& metric : held_out_metrics(batch)) metrics.push_back(std::move(metric));
  return metrics;
}

std::vector<std::pair<std::string, double>> row_metrics(
    const std::vector<proto::Trajectory>& batch) {
  const bool is_held_out = !batch.empty() && batch.front().key.kind != TrajectoryKind::train;
  const std::string prefix = is_held_out || batch.empty() ? "val/" : batch.front().tag + "/";
  double truncated = 0, without_end = 0, uncounted = 0;
  std::set<uint32_t> rows;  // of a pair both answers are there
  for (const proto::Trajectory& t : batch) {
    rows.insert(t.key.group);
    uncounted += std::ranges::count(t.response_mask, uint8_t{1}) == 0 ? 1 : 0;
    for (const auto& [name, value] : t.metrics) {
      if (name == k_row_truncated) truncated += value;
      if (name == k_row_without_end) without_end += value;
    }
  }
  return {{prefix + "rows", static_cast<double>(rows.size())},
          {prefix + "truncated_rows", truncated},
          {prefix + "rows_without_end", without_end},
          {prefix + "rows_without_answer", uncounted}};
}

std::vector<std::pair<std::string, double>> success_by_tag(
    const std::vector<proto::Trajectory>& batch) {
  std::map<std::string, double> sums, counts;
  for (const proto::Trajectory& t : batch) {
    if (t.is_greedy) continue;
    ++counts[t.tag];
    for (const auto& [name, value] : t.metrics)
      if (name == proto::k_success) sums[t.tag] += value;
  }
  std::vector<std::pair<std::string, double>> success;
  for (const auto& [tag, sum] : sums) success.emplace_back(tag, sum / counts.at(tag));
  return success;
}

}  // namespace cohort::actors
