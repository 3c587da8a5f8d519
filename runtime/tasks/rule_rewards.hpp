#pragma once
/// The built-in rewards that are pure rules: an answer against a ground truth, a form, a length.
/// docs/rewards.md has each with its options, parts and examples. A Reward made here is immutable:
/// any thread may score with it. RULE-REWARD-1: no text makes a rule throw, hang or recurse beyond
/// its bound; a row that cannot be scored says why in `error`. RULE-REWARD-2: the detail of a rule
/// that compares is "pred X", X the first 256 bytes of the normalised answer, or the reason why
/// there is none.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::tasks {

/// Returns the rule `type` with the options of `config_json` (a JSON object; empty: none). Returns
/// Errc::config for an unknown type or key, naming the nearest one, or a value that does not fit.
Expected<std::unique_ptr<Reward>> make_rule_reward(std::string_view type,
                                                   std::string_view config_json = "{}");

/// Returns the names that make_rule_reward() takes, aliases included, sorted.
std::vector<std::string> rule_reward_names();

/// Returns the reward by which verl scores rows of this data_source ("openai/gsm8k": "gsm8k"),
/// also one that is no rule ("codeforces": "code_sandbox"); empty: none, so that loading a dataset
/// can fail before a rollout has been paid for.
std::string_view scorer_for_data_source(std::string_view data_source);

}  // namespace cohort::tasks
