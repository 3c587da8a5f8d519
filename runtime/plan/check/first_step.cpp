#include "runtime/plan/check/first_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace cohort::plan {
namespace {

constexpr std::string_view k_place_prefix = "at/";
constexpr uint64_t k_group = uint64_t{1} << 20;  // a place is group * k_group + index, below 2^53

using Names = std::array<std::string_view, 4>;
constexpr Names k_no_signal = {"reward_constant", "answers_same", "groups_flat", ""};
constexpr Names k_cut = {"answers_truncated", "answers_empty", "", ""};
constexpr Names k_form = {"answers_truncated", "answers_empty", "end_never", ""};
constexpr Names k_no_prompt = {"prompts_empty", "", "", ""};
constexpr Names k_of_drift = {"logprob_drift", "", "", ""};
constexpr Names k_of_ratio = {"logprob_drift", "ratio_not_one", "", ""};
constexpr Names k_no_gradient = {"reward_constant", "groups_flat", "advantage_zero",
                                 k_nonfinite_check};
constexpr Names k_no_move = {k_nonfinite_check, "gradient_zero", "learning_rate_zero",
                             "advantage_zero"};

bool on_policy(const FirstStep& x) { return x.is_on_policy; }
bool in_groups(const FirstStep& x) { return x.compares_groups; }
bool without_stop_strings(const FirstStep& x) { return !x.has_stop_strings; }
bool reads_rows(const FirstStep& x) { return x.reads_rows; }
bool from_folder(const FirstStep& x) { return x.has_weights; }
bool has_own_reference(const FirstStep& x) { return x.has_own_reference; }
bool starts_at_reference(const FirstStep& x) { return x.starts_at_reference; }
/// A rate of 0 that the warm-up begins with is no fault: the rate of the whole run is 0, or there
/// is no warm-up to come.
bool stays_at_zero(const FirstStep& x) {
  const auto most = x.numbers.find(first_number::rate_max);
  return most == x.numbers.end() || most->second <= 0;
}

constexpr double k_nearly_all = 0.95, k_hardly_any = 0.05;

// Limits of log-probabilities: in 32 bits two engines agree to about 1e-5 a token; bf16 has 8 bits
// of mantissa, and two engines on it differ by 0.005 to 0.03.
constexpr FirstStepCheck k_checks[] = {
    {"reward_failed", first_number::failed, FaultSide::above, 0.05, 0.05,
     "trajectories are masked because it failed or gave no number",
     "a masked trajectory trains nothing, and its group compares fewer answers",
     "read the reason (mask) of the trajectory; run the reward on its answer alone with "
     "actor-node score"},
    {"reward_constant", first_number::score_range, FaultSide::at_most, 0, 0,
     "all trajectories of the step have the same score",
     "advantages are differences of scores: there are none",
     "read an answer beside its ground truth; a task too hard for this policy needs easier prompts "
     "or a warm start"},
    {"reward_part_constant", first_number::part_range, FaultSide::at_most, 0, 0,
     "gives every answer the same value, though no reward weighs more",
     "the other rewards alone decide what is learnt",
     "score a right and a wrong answer by hand with actor-node score", nullptr,
     std::span(k_no_signal).first(1)},
    {"answers_empty", first_number::empty_answers, FaultSide::above, 0.05, 0.05,
     "trajectories have no token that the policy sampled or that counts", "they train nothing",
     "is the prompt as long as the sequence may be, or does the response mask cover the wrong "
     "part?"},
    {"prompts_empty", first_number::empty_prompts, FaultSide::above, 0, 0,
     "trajectories have no prompt token", "the policy answers a question that it was not asked",
     "check the prompt's column and the chat template: actor-node tokenize shows its ids"},
    {"answers_truncated", first_number::truncated, FaultSide::at_least, k_nearly_all, k_nearly_all,
     "nearly all answers end at the length limit",
     "an answer without its end has no final result to score, and the policy learns to go on",
     "raise response_length (rows: sequence_length), or check that the policy knows the token that "
     "ends an answer"},
    {"end_never", first_number::ended_turns, FaultSide::at_most, k_hardly_any, k_hardly_any,
     "hardly any turn ends with a token that ends an answer",
     "each turn runs into its limit; the template or eos_token_id is not what the policy learnt",
     "compare eos_token_id and the chat template with those the policy was trained on; actor-node "
     "chat shows how it ends",
     without_stop_strings, std::span(k_cut).first(2)},
    {"turns_invalid", first_number::valid_turns, FaultSide::at_most, k_hardly_any, k_hardly_any,
     "the environment understands hardly any turn",
     "without an action the world stands still and pays nothing",
     "compare an answer with the form that the instructions ask for", nullptr,
     std::span(k_form).first(3)},
    {"answers_same", first_number::same_answers, FaultSide::at_least, k_nearly_all, k_nearly_all,
     "in nearly all groups all answers are the same, token for token",
     "a group compares its answers: equal ones have no advantage",
     "temperature 0, or top_k 1? Set generating_args for sampling", in_groups},
    {"prompts_same", first_number::prompts, FaultSide::at_most, 1, 1,
     "all groups of the step have the same prompt", "the step learns one question by heart",
     "check the data's rows, their filter and shuffle", reads_rows,
     std::span(k_no_prompt).first(1)},
    {"groups_flat", first_number::flat_groups, FaultSide::at_least, k_nearly_all, k_nearly_all,
     "in nearly all groups all scores are equal",
     "advantages compare the scores of a group: there is nothing to compare",
     "raise the temperature or the answers a group has, choose prompts of middle difficulty, or "
     "set "
     "dynamic sampling",
     in_groups, std::span(k_no_signal).first(2)},
    {"policy_untrained", first_number::surprise, FaultSide::above, 0.9, 0.9,
     "the policy is about as surprised as one that guesses every token",
     "its weights were to come from a folder and behave as random ones",
     "check pretrain (actor-node logprobs FOLDER), the tokenizer's ids and the weight names that "
     "the folder has",
     from_folder},
    {"logprob_drift", first_number::logprob_gap, FaultSide::above, 0.005, 0.05,
     "trainer and engine disagree on the log-probabilities of the same tokens",
     "every importance ratio is off by this, and the update is off-policy from the first step",
     "same weights, dtype, chat ids and temperature on both sides? traj show --tokens shows both "
     "columns; train_infer_correction bounds what is left",
     on_policy},
    {"ratio_not_one", first_number::ratio_gap, FaultSide::above, 0.01, 0.1,
     "the importance ratio of the first optimizer step is not 1",
     "the policy that trains is the one that sampled: the ratio of any token is 1",
     "old log-probs of another policy or mask, or dropout that is on in one of the two passes?",
     on_policy, std::span(k_of_drift).first(1)},
    {"policy_kl_not_zero", first_number::policy_kl, FaultSide::above, 1e-3, 1e-2,
     "the policy is away from the one that sampled before its first optimizer step",
     "before a step the two are one policy: their KL is 0",
     "a few tokens are far off: traj show --tokens", on_policy, std::span(k_of_ratio).first(2)},
    {"reference_is_policy", first_number::reference_gap, FaultSide::at_most, 1e-6, 1e-6,
     "the reference gives the policy's own log-probabilities",
     "it has a folder of its own, so that the KL holds the policy near another model",
     "check reference.model_args.model_name_or_path: is it a copy of pretrain?", has_own_reference},
    {"reference_differs", first_number::reference_gap, FaultSide::above, 0.005, 0.05,
     "the reference differs from the policy before the first optimizer step",
     "it is the policy of step 0: their KL begins at 0",
     "another dtype, adapter or template at the reference? traj show --tokens shows both columns",
     starts_at_reference},
    {"advantage_zero", first_number::advantage, FaultSide::at_most, 0, 0,
     "every advantage is 0 although scores differ", "the policy loss has no gradient",
     "check adv_estimator, the reward's normalisation and clip, and advantage_clip", nullptr,
     std::span(k_no_signal).first(3)},
    {k_nonfinite_check, first_number::finite, FaultSide::at_most, 0, 0,
     "the loss or the gradient of the first optimizer step is not finite",
     "the step is left out (TRAIN-2); several in a row end the run",
     "train in fp32 once; look for a reward, advantage or log-prob that is no number"},
    {"gradient_zero", first_number::grad_norm, FaultSide::at_most, 0, 0,
     "the gradient of the first optimizer step is 0", "nothing is learnt",
     "frozen weights, a mask without a token, loss coefficients of 0?", nullptr,
     std::span(k_no_gradient)},
    {"learning_rate_zero", first_number::rate, FaultSide::at_most, 0, 0,
     "the learning rate is 0 in the first optimizer step and in all that follow",
     "no weight will change",
     "check learning_rate and lr_scheduler_type: numbers such as 1e-6 need no quotes",
     stays_at_zero},
    {"learning_rate_high", first_number::rate_max, FaultSide::above, 0.01, 0.01,
     "the learning rate is above what a trained model survives",
     "AdamW moves every weight by about the rate in each step, whatever the gradient",
     "1e-6 to 1e-5 are usual for all weights, up to 1e-3 for an adapter", from_folder},
    {"parameters_unmoved", first_number::moved, FaultSide::at_most, 0, 0,
     "the step has changed no bit of the parameters", "nothing is learnt",
     "is the learning rate below what fp32 resolves, or is every optimizer batch masked?", nullptr,
     std::span(k_no_move)},
    {"critic_rate_zero", first_number::critic_rate_max, FaultSide::at_most, 0, 0,
     "the critic's learning rate is 0 over the whole run",
     "its values stay 0, and advantages are the returns alone",
     "check critic.training_args.learning_rate"},
    {"critic_gradient_zero", first_number::critic_grad_norm, FaultSide::at_most, 0, 0,
     "the gradient of the critic's first optimizer step is 0 or not finite",
     "the critic learns nothing of the returns",
     "are all returns 0, which the value head begins with, or is one no number?", nullptr,
     std::span(k_no_gradient)},
};

bool is_fault(const FirstStepCheck& check, double seen, double limit) {
  switch (check.side) {
    case FaultSide::above:
      return !(seen <= limit);  // what is no number is a fault
    case FaultSide::at_least:
      return !(seen < limit);
    case FaultSide::at_most:
      return !(seen > limit);
  }
  return false;
}

std::string_view healthy_side(FaultSide side) {
  switch (side) {
    case FaultSide::above:
      return "at most";
    case FaultSide::at_least:
      return "below";
    case FaultSide::at_most:
      return "above";
  }
  return "";
}

/// `name`: of the number.
Finding finding_of(const FirstStepCheck& check, std::string_view name, const FirstStep& step,
                   std::string_view run) {
  Finding found;
  found.check = check.name;
  found.seen = step.numbers.find(name)->second;
  found.limit = step.is_half ? check.half_limit : check.limit;
  const std::string_view who = name.substr(std::min(name.size(), check.number.size()));
  found.sentence = fmt::format("{}: {}{}{} ({} is {:.4g}, healthy is {} {:g}): {}; {}", check.name,
                               who, who.empty() ? "" : ": ", check.what, name, found.seen,
                               healthy_side(check.side), found.limit, check.reason, check.advice);
  if (const auto place = step.places.find(name); place != step.places.end()) {
    found.trajectory = place->second;
    found.sentence += fmt::format("; see: traj show {} {}", run, found.trajectory);
  }
  return found;
}

bool is_explained(const FirstStepCheck& check, const std::set<std::string_view>& faults) {
  return std::ranges::any_of(check.unless,
                             [&](std::string_view other) { return faults.contains(other); });
}

}  // namespace

std::span<const FirstStepCheck> first_step_checks() { return k_checks; }

void FirstStep::take(std::string_view metric, double value, uint64_t step) {
  metric.remove_prefix(std::min(metric.size(), k_check_prefix.size()));
  if (!metric.starts_with(k_place_prefix)) {
    numbers.insert_or_assign(std::string(metric), value);
    return;
  }
  const auto place = static_cast<uint64_t>(value);
  places.insert_or_assign(std::string(metric.substr(k_place_prefix.size())),
                          fmt::format("{}/{}/{}", step, place / k_group, place % k_group));
}

void FirstFacts::add(std::string_view name, double value) {
  facts_.emplace_back(fmt::format("{}{}", k_check_prefix, name), value);
}

void FirstFacts::add(std::string_view name, double value, uint32_t group, uint32_t index) {
  add(name, value);
  facts_.emplace_back(fmt::format("{}{}{}", k_check_prefix, k_place_prefix, name),
                      static_cast<double>(group * k_group + index % k_group));
}

void FirstFacts::append_to(std::vector<std::pair<std::string, double>>& metrics) const {
  metrics.insert(metrics.end(), facts_.begin(), facts_.end());
}

std::vector<Finding> first_step_findings(const FirstStep& step, std::string_view run) {
  std::vector<Finding> findings;
  std::set<std::string_view> faults;  // those that others explain are among them
  for (const FirstStepCheck& check : first_step_checks()) {
    if (check.applies != nullptr && !check.applies(step)) continue;
    const bool is_told = !is_explained(check, faults);
    const double limit = step.is_half ? check.half_limit : check.limit;
    for (const auto& [name, seen] : step.numbers) {
      const bool is_meant =
          check.number.ends_with('/') ? name.starts_with(check.number) : name == check.number;
      if (!is_meant || !is_fault(check, seen, limit)) continue;
      faults.insert(check.name);
      if (is_told) findings.push_back(finding_of(check, name, step, run));
    }
  }
  return findings;
}

}  // namespace cohort::plan
