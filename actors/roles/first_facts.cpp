#include "actors/roles/first_facts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/roles/context_samples.hpp"
#include "actors/run/row_set.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/model/hf_folder.hpp"

namespace cohort::actors {
namespace {

namespace number = plan::first_number;
using proto::Trajectory;

/// A share, and the first trajectory that is in it.
struct Share {
  double hits = 0;
  const Trajectory* first = nullptr;
  void hit(const Trajectory& t) {
    ++hits;
    if (first == nullptr) first = &t;
  }
};

void add(plan::FirstFacts& facts, std::string_view name, const Share& share, double of) {
  if (of == 0) return;
  if (share.first == nullptr) return facts.add(name, 0);
  facts.add(name, share.hits / of, share.first->key.group, share.first->key.index);
}

/// The number of a mean over all samples, and the sample where it is greatest.
struct Mean {
  double sum = 0, tokens = 0, worst = -1;
  const Trajectory* at = nullptr;
  void add(const Trajectory& t, double its_sum, double its_tokens) {
    if (its_tokens == 0) return;
    sum += its_sum;
    tokens += its_tokens;
    if (const double mean = its_sum / its_tokens; mean > worst || !std::isfinite(mean)) {
      worst = mean;
      at = &t;
    }
  }
  void write(plan::FirstFacts& facts, std::string_view name) const {
    if (at != nullptr) facts.add(name, sum / tokens, at->key.group, at->key.index);
  }
};

/// Who has masked it: "rewards.math", "environment".
std::string masked_by(const Trajectory& t) {
  return t.mask_reason.substr(0, t.mask_reason.find(':'));
}

bool is_played(const Trajectory& t) { return !t.is_greedy && !proto::is_demonstration(t); }
bool has_score(const Trajectory& t) { return t.mask_reason.empty() || proto::is_left_out(t); }

struct Range {
  double least = 0, greatest = 0;
  size_t count = 0;
  void add(double x) {
    least = count == 0 ? x : std::min(least, x);
    greatest = count == 0 ? x : std::max(greatest, x);
    ++count;
  }
  double width() const { return greatest - least; }
};

/// Of a step's scores: who failed, and which of them tell answers apart.
void add_scores(const std::vector<const Trajectory*>& played, plan::FirstFacts& facts) {
  std::map<std::string, Share> failed;
  std::map<std::string, Range> parts;
  Range scores;
  const Trajectory* first = nullptr;
  double weight_max = 0;
  for (const Trajectory* t : played) {
    if (!has_score(*t)) {
      failed[masked_by(*t)].hit(*t);
      continue;
    }
    scores.add(t->score);
    if (first == nullptr) first = t;
    for (const proto::RewardPart& part : t->reward_parts)
      weight_max = std::max(weight_max, std::abs(part.weight));
  }
  std::set<std::string> weighted;
  for (const Trajectory* t : played)
    for (const proto::RewardPart& part : t->reward_parts) {
      if (part.weight == 0 || !has_score(*t)) continue;
      weighted.insert(part.name);
      if (std::abs(part.weight) >= weight_max) parts[part.name].add(part.value);
    }
  for (const auto& [who, share] : failed)
    add(facts, std::string(number::failed) + who, share, static_cast<double>(played.size()));
  if (scores.count < 2) return;
  facts.add(number::score_range, scores.width(), first->key.group, first->key.index);
  if (weighted.size() < 2) return;
  for (const auto& [name, range] : parts)
    if (range.count > 1) facts.add(std::string(number::part_range) + name, range.width());
}

std::vector<int32_t> prompt_of(const Trajectory& t) {
  const auto answer = std::ranges::find(t.response_mask, uint8_t{1}) - t.response_mask.begin();
  return {t.tokens.begin(), t.tokens.begin() + answer};
}

/// Of groups with two scores or more.
void add_groups(const std::vector<const Trajectory*>& played, plan::FirstFacts& facts) {
  std::map<uint32_t, std::vector<const Trajectory*>> groups;
  std::set<std::vector<int32_t>> prompts;
  for (const Trajectory* t : played) {
    prompts.insert(prompt_of(*t));
    if (has_score(*t)) groups[t->key.group].push_back(t);
  }
  Share flat, same;
  double compared = 0;
  for (const auto& [group, members] : groups) {
    if (members.size() < 2) continue;
    ++compared;
    const Trajectory& one = *members.front();
    const auto all = [&](auto is_like) { return std::ranges::all_of(members, is_like); };
    if (all([&](const Trajectory* t) { return t->score == one.score; })) flat.hit(one);
    if (all([&](const Trajectory* t) { return t->tokens == one.tokens; })) same.hit(one);
  }
  if (compared > 1) {
    add(facts, number::flat_groups, flat, compared);
    add(facts, number::same_answers, same, compared);
  }
  constexpr size_t k_few = 4;  // that many groups of one prompt are no accident
  if (groups.size() >= k_few)
    facts.add(number::prompts, static_cast<double>(prompts.size()), played.front()->key.group,
              played.front()->key.index);
}

bool is_cut(const Trajectory& t) {
  return t.stop_reason == "length" || std::ranges::any_of(t.metrics, [](const auto& x) {
           return x.first == k_row_truncated && x.second > 0;
         });
}

/// Of the tokens: where answers are, how they end, what the environment makes of them.
void add_forms(const std::vector<const Trajectory*>& played, std::span<const int32_t> ends,
               plan::FirstFacts& facts) {
  Share cut, unasked, empty;
  double turns = 0, ended = 0, valid = 0, answered = 0;
  const Trajectory* shown = nullptr;
  for (const Trajectory* t : played) {
    if (t->tokens.empty() && !t->mask_reason.empty()) continue;  // nobody has played it
    ++answered;
    if (is_cut(*t)) cut.hit(*t);
    if (!t->response_mask.empty() && t->response_mask.front() != 0) unasked.hit(*t);
    if (std::ranges::count(t->response_mask, uint8_t{1}) == 0) empty.hit(*t);
    for (const proto::Turn& turn : t->turns) {
      if (turn.response_end <= turn.response_begin) continue;
      ++turns;
      if (shown == nullptr) shown = t;
      const int32_t last = t->tokens[turn.response_end - 1];
      // The mask of a row may leave out the token that ends the answer, which then follows.
      const bool has_next = turn.response_end < t->tokens.size();
      const auto is_end = [&](int32_t id) { return std::ranges::find(ends, id) != ends.end(); };
      ended += is_end(last) || (has_next && is_end(t->tokens[turn.response_end])) ? 1 : 0;
      valid += turn.is_valid ? 1 : 0;
    }
  }
  add(facts, number::truncated, cut, answered);
  add(facts, number::empty_prompts, unasked, answered);
  add(facts, number::empty_answers, empty, answered);
  if (turns == 0) return;
  facts.add(number::valid_turns, valid / turns, shown->key.group, shown->key.index);
  if (!ends.empty())
    facts.add(number::ended_turns, ended / turns, shown->key.group, shown->key.index);
}

}  // namespace

plan::FirstFacts answer_facts(const std::vector<Trajectory>& batch, std::span<const int32_t> ends) {
  plan::FirstFacts facts;
  std::vector<const Trajectory*> played;
  bool has_scores = false;  // rows of files have none
  for (const Trajectory& t : batch) {
    if (!is_played(t)) continue;
    played.push_back(&t);
    has_scores = has_scores || !t.reward_parts.empty() || !t.mask_reason.empty();
  }
  if (has_scores) {
    add_scores(played, facts);
    add_groups(played, facts);
  }
  add_forms(played, ends, facts);
  return facts;
}

namespace {

double greatest_rate(const algorithms::ScheduleOptions& schedule) {
  constexpr uint64_t k_most = 100'000;  // rates to look at; a schedule that is 0 so far stays so
  const uint64_t last = std::min(std::max(schedule.total_steps, schedule.warmup_steps + 1), k_most);
  double most = 0;
  for (uint64_t step = 0; step <= last; ++step)
    most = std::max(most, algorithms::learning_rate(schedule, step));
  return most;
}

}  // namespace

plan::FirstFacts critic_facts(const algorithms::ScheduleOptions& schedule,
                              const compute::StepReport& first) {
  plan::FirstFacts facts;
  facts.add(number::critic_rate_max, greatest_rate(schedule));
  facts.add(number::critic_grad_norm, first.grad_norm);
  return facts;
}

plan::FirstStep first_step_of(const config::RunConfig& config) {
  plan::FirstStep step;
  const auto is_half = [](const config::WorkerConfig& role) {
    return role.model_args.dtype == config::ModelDtype::bf16;
  };
  const config::ModelArgs& policy = config.actor_train.model_args;
  const std::string& folder =
      policy.model_name_or_path.empty() ? config.pretrain : policy.model_name_or_path;
  step.is_on_policy = config.from_stream.empty();
  step.is_half = is_half(config.actor_train) ||
                 (!config::is_supervised(config.pipeline) && is_half(config.actor_infer));
  step.compares_groups = !config::is_supervised(config.pipeline) && compares_groups(config);
  step.has_weights = !folder.empty() && !folder.starts_with(model::k_random);
  step.has_stop_strings = !config.actor_infer.generating_args.stop_strings.empty();
  step.reads_rows = config.pipeline == config::Pipeline::rlvr;
  step.has_own_reference = !config::own_reference(config).empty();
  step.starts_at_reference = !step.has_own_reference && policy.adapter_name_or_path.empty();
  return step;
}

Expected<void> FirstUpdate::look(compute::TrainEngine& engine,
                                 const std::vector<FirstSample>& samples) {
  if (std::exchange(has_looked_, true) || samples.empty()) return {};
  std::vector<const Trajectory*> asked;
  for (const FirstSample& sample : samples) asked.push_back(sample.trajectory);
  COHORT_ASSIGN(const auto found, log_probs_of(engine, asked));
  Mean drift, ratio, kl, reference, nll;
  for (size_t i = 0; i < samples.size(); ++i) {
    const FirstSample& sample = samples[i];
    const Trajectory& t = *sample.trajectory;
    const bool is_sampled = !proto::is_demonstration(t);
    double tokens = 0, gap = 0, off = 0, k3 = 0, apart = 0, surprise = 0;
    for (size_t k = 0; k < t.tokens.size(); ++k) {
      if (t.response_mask[k] == 0) continue;
      ++tokens;
      const auto now = static_cast<double>(found[i][k]);
      surprise -= now;
      if (!t.behavior_logp.empty()) gap += std::abs(now - t.behavior_logp[k]);
      if (!sample.ref_logp.empty()) apart += std::abs(now - sample.ref_logp[k]);
      if (sample.old_logp.empty()) continue;
      const double moved = now - sample.old_logp[k];
      off += std::abs(std::expm1(moved));
      k3 += std::expm1(moved) - moved;
    }
    nll.add(t, surprise, tokens);
    if (!sample.ref_logp.empty()) reference.add(t, apart, tokens);
    if (!is_sampled) continue;
    if (!t.behavior_logp.empty()) drift.add(t, gap, tokens);
    if (sample.old_logp.empty()) continue;
    ratio.add(t, off, tokens);
    kl.add(t, k3, tokens);
  }
  drift.write(facts_, number::logprob_gap);
  ratio.write(facts_, number::ratio_gap);
  kl.write(facts_, number::policy_kl);
  reference.write(facts_, number::reference_gap);
  if (nll.tokens > 0) surprise(nll.sum / nll.tokens, engine.config().vocab_size);
  return {};
}

void FirstUpdate::surprise(double nll, int64_t vocabulary) {
  if (vocabulary > 1) facts_.add(number::surprise, nll / std::log(static_cast<double>(vocabulary)));
}

void FirstUpdate::advantages(std::span<const float> advantages) {
  if (advantages.empty()) return;  // all is masked
  double most = 0;
  for (const float x : advantages)
    if (const auto size = std::abs(static_cast<double>(x)); !(size <= most)) most = size;
  facts_.add(number::advantage, most);
}

void FirstUpdate::schedule(const algorithms::ScheduleOptions& schedule) {
  facts_.add(number::rate, algorithms::learning_rate(schedule, 0));
  facts_.add(number::rate_max, greatest_rate(schedule));
}

void FirstUpdate::stepped(const compute::StepReport& report,
                          std::span<const compute::TrainSample> samples) {
  if (!std::exchange(has_stepped_, true)) facts_.add(number::finite, report.is_finite ? 1 : 0);
  const bool has_signal = std::ranges::any_of(samples, [](const compute::TrainSample& sample) {
    return sample.advantages.empty() ||
           std::ranges::any_of(sample.advantages, [](float x) { return x != 0; });
  });
  if (!has_signal || !report.is_finite || std::exchange(has_gradient_, true)) return;
  facts_.add(number::grad_norm, report.grad_norm);
}

void FirstUpdate::close(const compute::TrainEngine& engine, control::UpdateReport& report) {
  if (has_stepped_) facts_.add(number::moved, engine.param_hash() == hash_before_ ? 0 : 1);
  facts_.append_to(report.metrics);
}

}  // namespace cohort::actors
