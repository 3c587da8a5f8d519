#include "runtime/config/train_groups.hpp"

#include <algorithm>

namespace cohort::config {

const QueryFilter& group_filter_of(const RunConfig& config, const std::string& tag) {
  const auto domain = config.rewards.find(tag);
  const bool has_own = config.pipeline == Pipeline::rlvr && domain != config.rewards.end() &&
                       domain->second.query_filter_config.type != GroupFilter::no_filter;
  return has_own ? domain->second.query_filter_config : config.dynamic_sampling.filter;
}

bool has_greedy_answer(const RunConfig& config) {
  return config.pipeline <= Pipeline::rlvr &&
         catalog::entry(config.adv_estimator).has(catalog::need::greedy);
}

const GeneratingArgs& held_out_sampling(const RunConfig& config) {
  const bool has_own = config.pipeline == Pipeline::rlvr && config.validation.is_configured;
  return has_own ? config.validation.generating_args : config.actor_infer.generating_args;
}

int64_t played_group_size(const RunConfig& config) {
  return config.derived.group_size + (has_greedy_answer(config) ? 1 : 0);
}

bool has_rollouts(const RunConfig& config) {
  return !is_supervised(config.pipeline) && config.from_stream.empty();
}

bool has_group_filter(const RunConfig& config) {
  if (config.pipeline > Pipeline::rlvr) return false;
  return config.dynamic_sampling.filter.type != GroupFilter::no_filter ||
         (config.pipeline == Pipeline::rlvr &&
          std::ranges::any_of(config.rewards, [](const auto& reward) {
            return reward.second.query_filter_config.type != GroupFilter::no_filter;
          }));
}

}  // namespace cohort::config
