#include "actors/roles/reward_set.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "actors/roles/plugin_spec.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/plugin/open_reward.hpp"
#include "runtime/tasks/rule_rewards.hpp"

namespace cohort::actors {
namespace {

using config::RewardConfig;
using config::RewardType;
using Json = nlohmann::ordered_json;

/// Sum of what the environment paid per turn.
double env_return(const proto::Trajectory& t) {
  double sum = 0;
  for (const proto::Turn& turn : t.turns) sum += turn.env_reward;
  return sum;
}

/// verl's rule: each row is scored as its data_source says.
class DataSourceReward final : public tasks::Reward {
 public:
  std::vector<tasks::RewardResult> score(std::span<const tasks::RewardRow> rows) override {
    std::vector<tasks::RewardResult> results;
    for (const tasks::RewardRow& row : rows) results.push_back(score_row(row));
    return results;
  }

 private:
  tasks::RewardResult score_row(const tasks::RewardRow& row) {
    std::string name(tasks::scorer_for_data_source(row.data_source));
    auto& scorer = scorers_[name];
    if (!scorer && !name.empty())
      if (auto made = tasks::make_rule_reward(name, "{}")) scorer = std::move(*made);
    tasks::RewardResult result;
    if (!scorer) {
      result.error = fmt::format("no built-in rule scores data_source '{}'", row.data_source);
      return result;
    }
    return scorer->score({&row, 1}).front();
  }
  std::map<std::string, std::unique_ptr<tasks::Reward>> scorers_;
};

/// `args`, with what other keys of the config say under the scorer's names.
Expected<std::string> options_of(const config::RunConfig& config, const RewardConfig& reward) {
  Json args = Json::parse(reward.plugin.args, nullptr, false);
  if (!args.is_object()) return Error{Errc::config, "args: not a map"};
  auto put = [&args](const char* key, const auto& value) {
    if (!args.contains(key)) args[key] = value;
  };
  if (reward.type == RewardType::overlong || reward.type == RewardType::length)
    put("max_response_length", config.sequence_length - config.prompt_length);
  if (reward.type == RewardType::crossthinkqa) {
    if (reward.choice_grade) put("reward_type", config::to_string(*reward.choice_grade));
    if (reward.response_length_penalty_coef != 0)
      put("response_length_penalty_coef", reward.response_length_penalty_coef);
  }
  if (reward.type == RewardType::llm_judge) {
    if (!reward.judge_model_name.empty()) put("model", reward.judge_model_name);
    if (!reward.judge_api_url.empty()) put("url", reward.judge_api_url);
    if (!reward.judge_prompt.empty()) put("prompt", reward.judge_prompt);
  }
  return args.dump();
}

Expected<std::shared_ptr<tasks::Reward>> open_scorer(const config::RunConfig& config,
                                                     const RewardConfig& reward) {
  if (reward.type == RewardType::data_source) return {std::make_shared<DataSourceReward>()};
  plugin::PluginSpec spec;
  spec.plugin = std::string(config::to_string(reward.type));
  if (reward.type == RewardType::plugin) {
    if (reward.plugin.path.empty())
      return Error{Errc::config, "plugin: missing; give path.py:function or path.so"};
    spec.plugin = reward.plugin.path;
  }
  fill_plugin_spec(reward.plugin, spec);
  COHORT_ASSIGN(spec.config, options_of(config, reward));
  return plugin::open_reward(spec);
}

}  // namespace

Expected<std::vector<RewardFunction>> open_rewards(const config::RunConfig& config) {
  std::vector<RewardFunction> rewards;
  for (const auto& [name, reward] : config.rewards) {
    if (config::is_on_cards(reward)) continue;  // roles of their own (score_model, judge_actor)
    RewardFunction function{name, reward.weight, {}, nullptr, reward.tag_included};
    if (reward.type == RewardType::env_return) {
      function.of_trajectory = env_return;
    } else {
      auto scorer = open_scorer(config, reward);
      if (!scorer)
        return Error{scorer.error().code,
                     fmt::format("rewards.{}: {}", name, scorer.error().detail)};
      function.scorer = std::move(*scorer);
    }
    rewards.push_back(std::move(function));
  }
  return rewards;
}

}  // namespace cohort::actors
