#include "tools/traj/recompute/html_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/job/policy.hpp"
#include "runtime/observe/token_page.hpp"
#include "tools/traj/open_run.hpp"
#include "tools/traj/recompute/recorded_step.hpp"
#include "tools/traj/recompute/step_advantages.hpp"
#include "tools/traj/text_output.hpp"

namespace cohort::traj {
namespace {

using observe::Fact;
using observe::TokenPage;
using TokenizerPointer = std::shared_ptr<const tasks::Tokenizer>;

/// Why it is not there is a note of the page: a record is worth a look without its tokenizer.
Expected<TokenizerPointer> tokenizer_of(stream::Reader& reader, const std::string& run) {
  COHORT_ASSIGN(const bool is_foreign, is_imported(reader, run));
  if (is_foreign) return Error{Errc::not_found, "the run was imported without its tokenizer"};
  COHORT_ASSIGN(const config::RunConfig config, recorded_config(reader, run));
  COHORT_ASSIGN(const job::Policy policy, job::policy_of(config));
  return policy.tokenizer;
}

/// One per token, NaN where nothing was sampled.
Expected<std::vector<double>> advantages_of_key(const std::string& run,
                                                const proto::TrajectoryKey& key,
                                                std::vector<std::string>& notes) {
  COHORT_ASSIGN(const RecordedStep step, read_step({run, key.step, "", "", {}}));
  COHORT_ASSIGN(
      const StepAdvantages own,
      advantages_of({step.own, step.kl_coefficient(), nullptr, step.earlier}, step.batch()));
  for (std::string& part : missing_parts(step.own, own, false)) notes.push_back(std::move(part));
  const auto found = std::ranges::find(own.trajectories(), key, &proto::Trajectory::key);
  if (found == own.trajectories().end())
    return Error{Errc::not_found, "no update was given this trajectory: it has no advantage"};
  const auto place = static_cast<size_t>(found - own.trajectories().begin());
  const auto first = static_cast<size_t>(own.packed.cu_seqlens[place]);
  std::vector<double> values(found->tokens.size(), observe::k_not_measured);
  for (size_t i = 0; i < values.size(); ++i)
    if (found->response_mask[i] == 1) values[i] = double{own.packed.advantages[first + i]};
  return values;
}

/// An error of a config has a line for each of its faults.
std::string first_line(const Error& error) {
  return error.detail.substr(0, error.detail.find('\n'));
}

std::vector<Fact> facts_of(const stream::RecordInfo& info, const proto::Trajectory& x) {
  const auto sampled = std::ranges::count(x.response_mask, uint8_t{1});
  std::vector<Fact> facts = {
      {"score", fmt::format("{:.4f}", x.score)},
      {"stopped by", x.stop_reason},
      {"tokens", fmt::format("{}, {} of them sampled", x.tokens.size(), sampled)},
      {"weights", x.weight_version_min == x.weight_version_max
                      ? fmt::to_string(x.weight_version_max)
                      : fmt::format("{} to {}", x.weight_version_min, x.weight_version_max)},
      {"fate", std::string(fate_of(x))},
      {"masked", x.mask_reason},
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

std::vector<Fact> scores_of(const proto::Trajectory& x) {
  std::vector<Fact> scores;
  for (const proto::RewardPart& part : x.reward_parts)
    scores.push_back(
        {"reward " + part.name, fmt::format("{:.4f} × {:.3g}{}{}", part.value, part.weight,
                                            part.detail.empty() ? "" : "  ", part.detail)});
  for (const auto& [name, value] : x.metrics)
    scores.push_back({name, fmt::format("{:.4g}", value)});
  return scores;
}

std::vector<observe::TokenLine> tokens_of(const proto::Trajectory& x,
                                          const tasks::Tokenizer* tokenizer) {
  std::vector<observe::TokenLine> tokens(x.tokens.size());
  const auto at = [](const std::vector<float>& column, size_t i) {
    return column.empty() ? observe::k_not_measured : double{column[i]};
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    observe::TokenLine& token = tokens[i];
    token.id = x.tokens[i];
    if (tokenizer != nullptr) token.text = tokenizer->decode({&x.tokens[i], 1});
    token.is_sampled = !x.response_mask.empty() && x.response_mask[i] == 1;
    token.logp = at(x.behavior_logp, i);
    token.ref_logp = at(x.ref_logp, i);
    token.value = at(x.values, i);
    token.reward = at(x.token_rewards, i);
    token.version = x.token_versions.empty() ? x.weight_version_max : x.token_versions[i];
  }
  return tokens;
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
    parts.push_back({fmt::format("turn {}, {}", i, i == 0 ? "prompt" : "observation"), false, at,
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

std::string file_of(const HtmlOptions& options, const proto::TrajectoryKey& key) {
  if (!options.file.empty()) return options.file;
  return fmt::format("{}-{}-{}-{}.html", proto::to_string(key.kind), key.step, key.group,
                     key.index);
}

}  // namespace

Expected<void> html(const HtmlOptions& options) {
  COHORT_ASSIGN(const proto::TrajectoryKey key, parse_key(options.key, options.kind));
  COHORT_ASSIGN(stream::Reader reader, open_run(options.run));
  COHORT_ASSIGN(const stream::Record record, find_trajectory(reader, key, options.run));
  COHORT_ASSIGN(const proto::Trajectory x, record.trajectory());
  TokenPage page;
  page.title =
      fmt::format("{} {}/{}/{}", proto::to_string(key.kind), key.step, key.group, key.index);
  page.facts = facts_of(record.info, x);
  page.scores = scores_of(x);
  const auto tokenizer = tokenizer_of(reader, options.run);
  if (!tokenizer)
    page.notes.push_back("no texts of tokens, their ids instead: " + first_line(tokenizer.error()));
  page.tokens = tokens_of(x, tokenizer ? tokenizer->get() : nullptr);
  page.parts = parts_of(x, !tokenizer);
  if (key.kind == TrajectoryKind::train) {
    auto advantages = advantages_of_key(options.run, key, page.notes);
    if (advantages)
      page.advantages = std::move(*advantages);
    else
      page.notes.push_back("no advantages: " + first_line(advantages.error()));
  }
  const std::string file = file_of(options, key);
  COHORT_ASSIGN(TextOutput out, TextOutput::open(file));
  COHORT_TRY(out.write(observe::token_page(page)));
  COHORT_TRY(out.finish());
  for (const std::string& note : page.notes) fmt::print(stderr, "note: {}\n", note);
  if (!out.is_stdout()) fmt::print("{}\n", file);
  return {};
}

}  // namespace cohort::traj
