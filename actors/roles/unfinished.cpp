#include "actors/roles/unfinished.hpp"

#include <algorithm>
#include <utility>

namespace cohort::actors {

using compute::TurnOutput;

void join(TurnOutput& before, TurnOutput later) {
  later.tokens.insert(later.tokens.begin(), before.tokens.begin(), before.tokens.end());
  later.logp.insert(later.logp.begin(), before.logp.begin(), before.logp.end());
  later.versions.insert(later.versions.begin(), before.versions.begin(), before.versions.end());
  later.seconds += before.seconds;
  before = std::move(later);
}

proto::Trajectory unfinished_of(const proto::Trajectory& so_far, std::span<const int32_t> prompt,
                                const TurnOutput& partial) {
  proto::Trajectory t = so_far;
  t.stop_reason = "unfinished";
  t.tokens.insert(t.tokens.end(), prompt.begin(), prompt.end());
  t.response_mask.resize(t.tokens.size(), 0);
  t.behavior_logp.resize(t.tokens.size(), 0.F);
  t.token_versions.resize(t.tokens.size(), partial.versions.empty() ? 0 : partial.versions.front());
  t.tokens.insert(t.tokens.end(), partial.tokens.begin(), partial.tokens.end());
  t.response_mask.resize(t.tokens.size(), 1);
  t.behavior_logp.insert(t.behavior_logp.end(), partial.logp.begin(), partial.logp.end());
  t.token_versions.insert(t.token_versions.end(), partial.versions.begin(), partial.versions.end());
  return t;
}

std::optional<Recalled> recall(const proto::Trajectory& unfinished, const proto::Trajectory& so_far,
                               std::span<const int32_t> prompt) {
  const size_t done = so_far.tokens.size();
  const size_t begin = done + prompt.size();
  const auto& tokens = unfinished.tokens;
  if (tokens.size() < begin ||
      !std::equal(so_far.tokens.begin(), so_far.tokens.end(), tokens.begin()))
    return std::nullopt;
  const auto at = [](const auto& column, size_t position) {
    return column.begin() + static_cast<ptrdiff_t>(position);
  };
  if (!std::ranges::equal(prompt, std::span(tokens).subspan(done, prompt.size())) ||
      std::any_of(at(unfinished.response_mask, done), at(unfinished.response_mask, begin),
                  [](uint8_t mask) { return mask != 0; }))
    return std::nullopt;
  const size_t turn = so_far.turns.size();
  Recalled recalled;
  recalled.is_whole = turn < unfinished.turns.size();
  const size_t end = recalled.is_whole ? unfinished.turns[turn].response_end : tokens.size();
  if (end < begin || end > tokens.size()) return std::nullopt;
  recalled.output.tokens.assign(at(tokens, begin), at(tokens, end));
  recalled.output.logp.assign(at(unfinished.behavior_logp, begin),
                              at(unfinished.behavior_logp, end));
  recalled.output.versions.assign(at(unfinished.token_versions, begin),
                                  at(unfinished.token_versions, end));
  if (recalled.is_whole && recalled.output.tokens.empty()) return std::nullopt;
  return recalled;
}

}  // namespace cohort::actors
