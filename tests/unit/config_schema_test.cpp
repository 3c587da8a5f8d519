#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/config/bind/schema.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::config::config_schema_test {
namespace {

std::string found(std::string_view path) {
  auto key = find_key(all_keys(), path);
  return key ? (*key)->path : key.error().detail;
}

TEST(SchemaSearch, FindsAKeyByPathNameOrEnd) {
  EXPECT_EQ(found("actor_train.training_args.learning_rate"),
            "actor_train.training_args.learning_rate");
  EXPECT_EQ(found("custom_envs.FrozenLake.max_steps"), "custom_envs.<name>.max_steps");
  EXPECT_EQ(found("custom_envs.<name>.env_config.size"), "custom_envs.<name>.env_config.size");
  EXPECT_EQ(found("max_steps"), "max_steps");  // a whole path wins over ends
  EXPECT_EQ(found("num_groups_partition").substr(0, 49),
            "'num_groups_partition' is the end of several keys");
  EXPECT_EQ(found("reward_normalization.grouping"), "reward_normalization.grouping");
  EXPECT_EQ(found("grouping"), "reward_normalization.grouping");
  EXPECT_EQ(found("threads_per_card"), "cards.threads_per_card");
  EXPECT_EQ(found("zero_optimization.stage").substr(0, 25), "'zero_optimization.stage'");
  EXPECT_EQ(found("system_envs.HCCL_CONNECT_TIMEOUT"), "system_envs");
  EXPECT_EQ(found("rewards.math_rule.tag_included"), "rewards.<name>.tag_included");
}

TEST(SchemaSearch, NamesTheNearest) {
  EXPECT_EQ(found("learnin_rat"), "there is no key 'learnin_rat'; did you mean 'learning_rate'?");
  EXPECT_EQ(found("zzzzzzzz"), "there is no key 'zzzzzzzz'");
  EXPECT_EQ(found(""), "there is no key ''");
}

TEST(SchemaSearch, GivesTheOrigin) {
  auto config = test::load_small({"seed=7"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->origins.at("seed"), "override 'seed=7'");
  EXPECT_EQ(config->origins.at("reward_normalization.method"), "small.yaml:8");
  EXPECT_FALSE(config->origins.contains("gamma"));
}

TEST(Schema, PathsAreDistinct) {
  std::vector<std::string> paths;
  for (const KeyInfo& key : all_keys()) paths.push_back(key.path);
  std::sort(paths.begin(), paths.end());
  EXPECT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end());
}

}  // namespace
}  // namespace cohort::config::config_schema_test
