#include "runtime/tasks/rule_rewards.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"
#include "runtime/base/text.hpp"
#include "runtime/catalog/catalog.hpp"
#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

struct Entry {
  std::string_view name;
  RulePtr (*make)(Options&);
};

constexpr Entry k_rules[] = {
#define COHORT_RULE(id, ...) {#id, make_##id},
#define COHORT_HOSTED(id, ...)
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/rewards.def"
#undef COHORT_RULE
#undef COHORT_HOSTED
#undef COHORT_PLANNED
};

constexpr size_t k_max_prediction = 256;  // [bytes] of it in a detail

}  // namespace

std::vector<RewardResult> RowRule::score(std::span<const RewardRow> rows) {
  std::vector<RewardResult> results;
  results.reserve(rows.size());
  for (const RewardRow& row : rows) results.push_back(judge(row));
  return results;
}

RewardResult with_prediction(double score, std::string_view prediction) {
  RewardResult result;
  result.score = score;
  result.detail = fmt::format("pred {}", beginning_of(prediction, k_max_prediction));
  return result;
}

RewardResult without_answer(double score, std::string_view why) {
  RewardResult result;
  result.score = score;
  result.detail = why;
  return result;
}

Expected<std::unique_ptr<Reward>> make_rule_reward(std::string_view type,
                                                   std::string_view config_json) {
  const Entry* entry = std::find_if(std::begin(k_rules), std::end(k_rules),
                                    [&](const Entry& x) { return x.name == type; });
  if (entry == std::end(k_rules))
    return Error{Errc::config, fmt::format("no built-in reward '{}'{}", type,
                                           did_you_mean(type, rule_reward_names()))};
  COHORT_ASSIGN(Options options, Options::parse(fmt::format("reward {}", type), config_json));
  COHORT_ASSIGN(std::unique_ptr<Reward> reward, entry->make(options));
  COHORT_TRY(options.finish());
  return reward;
}

std::vector<std::string> rule_reward_names() {
  std::vector<std::string> names;
  for (const Entry& entry : k_rules) names.emplace_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view scorer_for_data_source(std::string_view data_source) {
  for (const catalog::Entry& reward : catalog::entries(catalog::RewardType{}))
    for (std::string_view name : catalog::words(reward.verl)) {
      const bool is_prefix = name.ends_with('*');
      if (is_prefix ? data_source.starts_with(name.substr(0, name.size() - 1))
                    : data_source == name)
        return reward.name();
    }
  return {};
}

}  // namespace cohort::tasks
