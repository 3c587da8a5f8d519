#include "actors/roles/batch_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "runtime/base/text.hpp"

namespace cohort::actors {
namespace {

using proto::Trajectory;

/// The policy sampled it, and not to have a baseline.
bool is_own_answer(const Trajectory& t) { return !t.is_greedy && !proto::is_demonstration(t); }

/// A fence that no run of backticks in `text` can end.
std::string fenced(std::string_view text) {
  size_t longest = 0, run = 0;
  for (char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(std::max<size_t>(3, longest + 1), '`');
  return fmt::format("{}\n{}\n{}\n", fence, text, fence);
}

/// A turn's text, whole or its beginning.
std::string shown(std::string_view title, std::string_view text, size_t bytes_max) {
  const std::string_view part = beginning_of(text, bytes_max);
  return fmt::format("\n**{}**{}\n\n{}", title,
                     part.size() < text.size()
                         ? fmt::format(" (the first {} of {} bytes)", part.size(), text.size())
                         : "",
                     fenced(part));
}

}  // namespace

NamedHistograms batch_histograms(const std::vector<Trajectory>& batch) {
  std::vector<double> scores, answers, prompts;
  std::map<std::string, std::vector<double>> parts;
  for (const Trajectory& t : batch) {
    if (!is_own_answer(t)) continue;
    const auto sampled = std::ranges::count(t.response_mask, uint8_t{1});
    answers.push_back(static_cast<double>(sampled));
    prompts.push_back(static_cast<double>(t.tokens.size()) - static_cast<double>(sampled));
    if (!t.mask_reason.empty() && !proto::is_left_out(t)) continue;
    scores.push_back(t.score);
    for (const proto::RewardPart& part : t.reward_parts) parts[part.name].push_back(part.value);
  }
  NamedHistograms found;
  const auto add = [&](std::string name, const std::vector<double>& values) {
    add_histogram(found, std::move(name), std::span<const double>(values));
  };
  add("rollout/score", scores);
  add("rollout/response_length", answers);
  add("rollout/prompt_length", prompts);
  size_t shown_parts = 0;
  for (const auto& [name, values] : parts)
    if (shown_parts++ < k_part_histograms_max) add("rewards/" + name, values);
  return found;
}

std::string shown_answer(const std::vector<Trajectory>& batch) {
  constexpr size_t k_head_max = 1000, k_text_max = 2000;
  const auto t = std::ranges::find_if(
      batch, [](const Trajectory& each) { return is_own_answer(each) && !each.turns.empty(); });
  if (t == batch.end()) return "";
  std::string out = fmt::format("Trajectory {}/{}/{}: reward **{}**, ended by {}", t->key.step,
                                t->key.group, t->key.index, t->score,
                                t->stop_reason.empty() ? "-" : beginning_of(t->stop_reason, 256));
  for (const proto::RewardPart& part : t->reward_parts)
    if (out.size() < k_head_max)
      out +=
          fmt::format(", {} {} (weight {})", beginning_of(part.name, 64), part.value, part.weight);
  if (!t->mask_reason.empty())
    out += fmt::format("; not trained on: {}", beginning_of(t->mask_reason, 256));
  out += '\n';
  size_t told = 0;
  for (const proto::Turn& turn : t->turns) {
    std::string text = shown("prompt", turn.observation, k_text_max) +
                       shown("response", turn.response, k_text_max);
    if (out.size() + text.size() + 64 > k_shown_answer_bytes_max) break;
    out += text;
    ++told;
  }
  if (told < t->turns.size()) out += fmt::format("\n({} more turns)\n", t->turns.size() - told);
  return out;
}

NamedHistograms update_histograms(config::OldLogProbs old, const std::vector<Trajectory>& batch,
                                  const PackedBatch& packed) {
  NamedHistograms found;
  const auto add = [&](std::string_view name, const std::vector<float>& column,
                       const std::vector<uint8_t>& mask) {
    add_histogram(found, std::string(name), std::span<const float>(column), mask);
  };
  add(k_advantages, packed.advantages, packed.mask);
  if (packed.old_logp.size() != packed.mask.size()) return found;  // nothing was recorded
  std::vector<float> recorded, ratio(packed.mask.size());
  std::vector<uint8_t> sampled = packed.mask;
  for (size_t i = 0; i < batch.size(); ++i) {
    recorded.insert(recorded.end(), batch[i].behavior_logp.begin(), batch[i].behavior_logp.end());
    if (proto::is_demonstration(batch[i]))
      std::fill(sampled.begin() + packed.cu_seqlens[i], sampled.begin() + packed.cu_seqlens[i + 1],
                uint8_t{0});
  }
  add("rollout/logp", recorded, sampled);
  const auto add_ratio = [&](const char* name, const std::vector<float>& to,
                             const std::vector<uint8_t>& mask) {
    std::ranges::transform(packed.old_logp, to, ratio.begin(), std::minus<float>());
    add(name, ratio, mask);
  };
  if (old == config::OldLogProbs::recomputed)
    add_ratio("old_log_probs/log_ratio", recorded, sampled);
  if (!packed.ref_logp.empty()) add_ratio("critic/ref_log_ratio", packed.ref_logp, packed.mask);
  return found;
}

}  // namespace cohort::actors
