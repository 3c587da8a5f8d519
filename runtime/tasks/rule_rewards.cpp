#include "runtime/tasks/rule_rewards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/tasks/scorers/rules.hpp"

namespace cohort::tasks {
namespace {

struct Entry {
  std::string_view name;
  RulePtr (*make)(Options&);
};

constexpr Entry k_rules[] = {
    {"crossthinkqa", make_multiple_choice},  // ROLL's name
    {"exact", make_exact},
    {"format", make_format},
    {"gsm8k", make_gsm8k},
    {"ifeval", make_ifeval},
    {"length", make_length},
    {"math", make_math},
    {"math_dapo", make_math_dapo},
    {"math_rule", make_math_rule},
    {"multiple_choice", make_multiple_choice},
    {"multiple_choice_boxed", make_multiple_choice_boxed},
    {"overlong", make_overlong},
    {"repetition", make_repetition},
};

constexpr std::string_view k_pred = "pred ";
constexpr size_t k_max_prediction = 256;  // [bytes] of it in a detail

struct Source {
  std::string_view data_source;  // an exact name, or a prefix where it ends in '*'
  std::string_view reward;
};

constexpr Source k_sources[] = {
    {"openai/gsm8k", "gsm8k"},
    {"lighteval/MATH", "math"},
    {"DigitalLearningGmbH/MATH-lighteval", "math"},
    {"HuggingFaceH4/MATH-500", "math"},
    {"math_dapo", "math_dapo"},
    {"math", "math_dapo"},
    {"math_dapo_reasoning", "math_dapo"},
    {"aime*", "math_dapo"},
    {"numina_*", "math_rule"},
    {"codecontests", "code_sandbox"},
    {"apps", "code_sandbox"},
    {"codeforces", "code_sandbox"},
    {"taco", "code_sandbox"},
};

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
  if (prediction.size() > k_max_prediction) {
    size_t end = k_max_prediction;  // not inside a UTF-8 character
    while (end > 0 && (static_cast<unsigned char>(prediction[end]) & 0xC0) == 0x80) --end;
    prediction = prediction.substr(0, end);
  }
  result.detail = k_pred;
  result.detail += prediction;
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
  if (entry == std::end(k_rules)) {
    std::string near = nearest_name(type, rule_reward_names());
    return Error{Errc::config,
                 fmt::format("no built-in reward '{}'{}", type,
                             near.empty() ? "" : fmt::format(", did you mean '{}'?", near))};
  }
  COHORT_ASSIGN(Options options, Options::parse(type, config_json));
  COHORT_ASSIGN(std::unique_ptr<Reward> reward, entry->make(options));
  COHORT_TRY(options.finish());
  return reward;
}

std::vector<std::string> rule_reward_names() {
  std::vector<std::string> names;
  for (const Entry& entry : k_rules) names.emplace_back(entry.name);
  return names;
}

std::string_view scorer_for_data_source(std::string_view data_source) {
  for (const Source& source : k_sources) {
    std::string_view name = source.data_source;
    bool fits = name.ends_with('*') ? data_source.starts_with(name.substr(0, name.size() - 1))
                                    : data_source == name;
    if (fits) return source.reward;
  }
  return {};
}

std::optional<std::string_view> predicted(const RewardResult& result) {
  std::string_view detail = result.detail;
  if (!result.error.empty() || !detail.starts_with(k_pred)) return std::nullopt;
  return detail.substr(k_pred.size());
}

std::optional<std::string> answer_of(std::string_view type, std::string_view response) {
  auto rule = make_rule_reward(type);
  if (!rule) return std::nullopt;
  RewardRow row;
  row.response = response;
  row.ground_truth = "A";  // what the answer is does not depend on it
  std::vector<RewardResult> results = (*rule)->score({&row, 1});
  auto found = predicted(results.front());
  return found ? std::optional<std::string>(*found) : std::nullopt;
}

}  // namespace cohort::tasks
