#include "tools/traj/trajectory_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/observe/browse_page.hpp"
#include "tools/traj/open_run.hpp"

namespace cohort::traj {
namespace {

using observe::Fact;

uint32_t sampled_tokens(const proto::Trajectory& x) {
  return static_cast<uint32_t>(std::ranges::count(x.response_mask, uint8_t{1}));
}

std::string versions_of(const proto::Trajectory& x) {
  return x.weight_version_min == x.weight_version_max
             ? fmt::to_string(x.weight_version_max)
             : fmt::format("{} to {}", x.weight_version_min, x.weight_version_max);
}

std::vector<Fact> facts_of(const stream::RecordInfo& info, const proto::Trajectory& x) {
  std::vector<Fact> facts = {
      {"score", fmt::format("{:.4f}", x.score)},
      {"ended by", x.stop_reason},
      {"fate", std::string(fate_of(x))},
      {"masked", x.mask_reason},
      {"tokens", fmt::format("{}, {} of them sampled", x.tokens.size(), sampled_tokens(x))},
      {"weights", versions_of(x)},
      {"run", x.run_id},
      {"tag", x.tag},
      {"seed", fmt::to_string(x.seed)},
      {"attempt", fmt::to_string(x.attempt)},
      {"prompt", x.prompt_id},
      {"data source", x.data_source},
      {"ground truth", x.ground_truth},
      {"time",
       fmt::format("{:.3f} s generation, {:.3f} s environment", x.generate_seconds, x.env_seconds)},
      {"record",
       fmt::format("{} in segment {} at {}", info.number, info.id.segment, info.id.offset)}};
  std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });
  return facts;
}

std::vector<Fact> rewards_of(const proto::Trajectory& x) {
  std::vector<Fact> rewards;
  for (const proto::RewardPart& part : x.reward_parts)
    rewards.push_back(
        {"reward " + part.name, fmt::format("{:.4f} × {:.3g}{}{}", part.value, part.weight,
                                            part.detail.empty() ? "" : "  ", part.detail)});
  for (const auto& [name, value] : x.metrics)
    rewards.push_back({name, fmt::format("{:.4g}", value)});
  return rewards;
}

double at(const std::vector<float>& column, size_t i) {
  return column.empty() ? observe::k_not_measured : double{column[i]};
}

observe::TokenLine token_of(const proto::Trajectory& x, const tasks::Tokenizer* tokenizer,
                            size_t i) {
  observe::TokenLine token;
  token.id = x.tokens[i];
  if (tokenizer != nullptr) token.text = tokenizer->decode({&x.tokens[i], 1});
  token.is_sampled = !x.response_mask.empty() && x.response_mask[i] == 1;
  token.logp = at(x.behavior_logp, i);
  token.ref_logp = at(x.ref_logp, i);
  token.value = at(x.values, i);
  token.reward = at(x.token_rewards, i);
  token.version = x.token_versions.empty() ? x.weight_version_max : x.token_versions[i];
  return token;
}

observe::TrajectoryView view_of(const proto::Trajectory& x, const tasks::Tokenizer* tokenizer) {
  observe::TrajectoryView view;
  view.title =
      fmt::format("step {}, group {}, trajectory {}", x.key.step, x.key.group, x.key.index);
  view.kind = proto::to_string(x.key.kind);
  view.seed = x.seed;
  view.score = x.score;
  view.stop_reason = x.stop_reason;
  size_t drawn = 0;
  for (const proto::Turn& turn : x.turns) {
    observe::TurnView shown;
    shown.observation = turn.observation;
    shown.answer = turn.response;
    shown.reward = double{turn.env_reward};
    shown.is_valid = turn.is_valid;
    shown.is_effective = turn.is_effective;
    shown.first_token = turn.response_begin;
    const size_t count = turn.response_end - turn.response_begin;
    const bool is_drawn = tokenizer != nullptr && drawn + count <= observe::k_coloured_tokens;
    if (is_drawn) drawn += count;
    for (uint32_t i = turn.response_begin; is_drawn && i < turn.response_end; ++i)
      shown.tokens.push_back({tokenizer->decode({&x.tokens[i], 1}), at(x.behavior_logp, i)});
    view.turns.push_back(std::move(shown));
  }
  return view;
}

/// What was shown before each answer, the answers, and what follows the last one.
std::vector<observe::TokenPart> parts_of(const proto::Trajectory& x, bool with_texts) {
  std::vector<observe::TokenPart> parts;
  const auto count = static_cast<uint32_t>(x.tokens.size());
  uint32_t at = 0;
  for (size_t i = 0; i < x.turns.size(); ++i) {
    const proto::Turn& turn = x.turns[i];
    std::string note = fmt::format("reward {:.4g}", turn.env_reward);
    if (!turn.is_valid) note += ", invalid";
    if (turn.is_valid && !turn.is_effective) note += ", no effect";
    const bool is_prompt = i == 0 || turn.context_begin == at;  // all that the policy read
    parts.push_back({fmt::format("turn {}, {}", i, is_prompt ? "prompt" : "observation"), false, at,
                     turn.response_begin, "", false, with_texts ? turn.observation : ""});
    parts.push_back({fmt::format("turn {}, answer", i), true, turn.response_begin,
                     turn.response_end, std::move(note), !turn.is_valid,
                     with_texts ? turn.response : ""});
    at = turn.response_end;
  }
  if (at < count)
    parts.push_back(
        {x.turns.empty() ? "tokens" : "after the last answer", false, at, count, "", false, ""});
  return parts;
}

}  // namespace

observe::TrajectoryLine line_of(const proto::Trajectory& x) {
  observe::TrajectoryLine line;
  line.kind = proto::to_string(x.key.kind);
  line.group = x.key.group;
  line.index = x.key.index;
  line.score = x.score;
  line.tokens = static_cast<uint32_t>(x.tokens.size());
  line.sampled_tokens = sampled_tokens(x);
  line.turns = static_cast<uint32_t>(x.turns.size());
  line.version_min = x.weight_version_min;
  line.version_max = x.weight_version_max;
  line.fate = fate_of(x);
  line.stop_reason = x.stop_reason;
  return line;
}

observe::TrajectoryPage page_of(const stream::RecordInfo& info, const proto::Trajectory& x,
                                const tasks::Tokenizer* tokenizer, size_t page) {
  observe::TrajectoryPage shown;
  shown.record = info.number;
  shown.step = x.key.step;
  shown.kind = proto::to_string(x.key.kind);
  shown.group = x.key.group;
  shown.index = x.key.index;
  shown.facts = facts_of(info, x);
  shown.rewards = rewards_of(x);
  shown.view = view_of(x, tokenizer);
  shown.token_count = x.tokens.size();
  const size_t last = x.tokens.empty() ? 0 : (x.tokens.size() - 1) / observe::k_page_tokens;
  shown.first_token = std::min(page, last) * observe::k_page_tokens;
  const size_t end = std::min(x.tokens.size(), shown.first_token + observe::k_page_tokens);
  for (size_t i = shown.first_token; i < end; ++i)
    shown.tokens.push_back(token_of(x, tokenizer, i));
  return shown;
}

observe::TokenPage coloured_of(const stream::RecordInfo& info, const proto::Trajectory& x,
                               const tasks::Tokenizer* tokenizer, size_t tokens_max) {
  observe::TokenPage page;
  page.title = fmt::format("{} {}/{}/{}", proto::to_string(x.key.kind), x.key.step, x.key.group,
                           x.key.index);
  page.facts = facts_of(info, x);
  page.scores = rewards_of(x);
  const size_t count = std::min(x.tokens.size(), tokens_max);
  for (size_t i = 0; i < count; ++i) page.tokens.push_back(token_of(x, tokenizer, i));
  if (count < x.tokens.size())
    page.notes.push_back(fmt::format("The first {} of {} tokens.", count, x.tokens.size()));
  page.parts = parts_of(x, tokenizer == nullptr);
  return page;
}

}  // namespace cohort::traj
