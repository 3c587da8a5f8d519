#include "actors/roles/score_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/roles/reward_actor.hpp"
#include "actors/roles/scored_tokens.hpp"

namespace cohort::actors {
namespace {

using proto::Trajectory;

Expected<ScoredTokens> tokens_of(const ScoreModelOptions& options, const Trajectory& t) {
  if (t.turns.empty()) return Error{Errc::invalid_argument, "the trajectory has no answer"};
  tasks::SftRow row;
  for (const tasks::ChatMessage& each :
       options.prompts->dialogue(*options.prompts->at(t.seed).sample))
    row.messages.push_back({{"role", each.role}, {"content", each.content}});
  row.messages.push_back(
      {{"role", "assistant"}, {"content", options.chat->without_end(t.turns.back().response)}});
  COHORT_ASSIGN(const tasks::MaskedTokens dialogue, options.encode(row));
  if (static_cast<int64_t>(dialogue.tokens.size()) > options.tokens_max)
    return Error{Errc::invalid_argument, fmt::format("{} tokens, the reward model reads {}",
                                                     dialogue.tokens.size(), options.tokens_max)};
  return scored_tokens(dialogue.tokens, dialogue.mask, options.pad_id);
}

Expected<void> score(const ScoreModelOptions& options, compute::TrainEngine& engine,
                     const std::vector<Trajectory*>& wanted) {
  const RewardFunction reward{options.name, options.weight, {}, nullptr, {}};
  std::vector<ScoredTokens> rows;
  std::vector<Trajectory*> read;  // those with tokens
  for (Trajectory* t : wanted) {
    auto tokens = tokens_of(options, *t);
    if (!tokens) {
      add_result(reward, tasks::without_score(tokens.error().detail), *t);
      continue;
    }
    rows.push_back(std::move(*tokens));
    read.push_back(t);
  }
  std::vector<compute::TrainSample> samples;
  for (const ScoredTokens& row : rows) samples.push_back(row.sample());
  std::vector<std::vector<float>> values;
  if (!samples.empty()) COHORT_TRY(engine.log_probs(samples, values));
  for (size_t i = 0; i < read.size(); ++i) {
    tasks::RewardResult result;
    result.score = static_cast<double>(values[i].back());
    add_result(reward, result, *read[i]);
  }
  for (Trajectory* t : wanted) finish_score(*t, true);
  return {};
}

}  // namespace

FrozenWork score_work(ScoreModelOptions options) {
  const auto shared = std::make_shared<const ScoreModelOptions>(std::move(options));
  FrozenWork work;
  work.wants = [shared](const Trajectory& t) {
    const auto& scorers = shared->prompts->at(t.seed).scorers;
    return t.key.kind != TrajectoryKind::warm_start && t.mask_reason.empty() &&
           std::ranges::find(scorers, shared->name) != scorers.end();
  };
  work.read = [shared](compute::TrainEngine& engine, const std::vector<Trajectory*>& wanted) {
    return score(*shared, engine, wanted);
  };
  return work;
}

}  // namespace cohort::actors
