#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/base/rng.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/device_mapping.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/same_settings.hpp"

namespace cohort::config::config_test {
namespace {

uint64_t test_seed() {
  const char* text = std::getenv("COHORT_SEED");
  uint64_t seed = text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

std::string random_text(Rng& rng, size_t size_max) {
  static constexpr std::string_view k_alphabet = "ab {}[]:#&*!|>'\"%@`-?,~\n\t\\$0.eE+_";
  std::string text;
  for (size_t i = rng.below(size_max + 1); i > 0; --i) {
    size_t letter = rng.below(k_alphabet.size() + 1);
    text += letter < k_alphabet.size() ? k_alphabet.substr(letter, 1) : "√";
  }
  return text;
}

std::string shipped_text() {
  std::ifstream file(test::source_path("configs/frozen_lake.yaml"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A value of the key's type, or any text; rarely something else.
std::string random_value(const KeyInfo& key, Rng& rng) {
  static const std::vector<std::string> k_values = {
      "0",    "1",     "2",    "4",    "8",      "0.5", "true",       "false", "~",
      "1MiB", "64MiB", "step", "fp32", "linear", "k3",  "token-mean", "batch"};
  if (!key.default_text.empty() && rng.below(2) == 0) return key.default_text;
  return k_values[rng.below(k_values.size())];
}

// Verifies CONF-2.
TEST(ConfigProperty, ResolvedTextLoadsToTheSameSettings) {
  Rng rng(test_seed());
  std::vector<KeyInfo> keys;
  for (const KeyInfo& key : all_keys()) {
    if (!key.is_section && key.has_effect && key.path.find('<') == std::string::npos)
      keys.push_back(key);
  }
  size_t accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> overrides;
    for (uint64_t i = rng.below(4); i > 0; --i) {
      const KeyInfo& key = keys[rng.below(keys.size())];
      overrides.push_back(key.path + "=" + random_value(key, rng));
    }
    if (rng.below(4) == 0)
      overrides.push_back("+exp_note=x");  // an unknown key: refused, never a crash
    auto config = test::load_small(overrides);
    if (!config) continue;
    ++accepted;
    auto again = load_text(config->resolved_yaml, "resolved.yaml");
    ASSERT_TRUE(again) << config->resolved_yaml << again.error().detail;
    ASSERT_TRUE(test::same_settings(*config, *again)) << ::testing::PrintToString(overrides) << "\n"
                                                      << config->resolved_yaml << "\n---\n"
                                                      << again->resolved_yaml;
    ASSERT_EQ(to_yaml(to_node(*config)), to_yaml(to_node(*again)));
  }
  EXPECT_GT(accepted, 150u);
}

TEST(ConfigProperty, AnyTextSurvivesTheRoundTrip) {
  Rng rng(test_seed() + 1);
  for (int round = 0; round < 600; ++round) {
    auto config = test::load_small();
    ASSERT_TRUE(config);
    config->exp_name = random_text(rng, 20);
    config->custom_envs["Lake"].agent_system_template = random_text(rng, 40);
    config->custom_envs["Lake"].env_config.env_instruction = random_text(rng, 40);
    std::string text = to_yaml(to_node(*config));
    auto again = load_text(text, "resolved.yaml");
    ASSERT_TRUE(again) << text << again.error().detail;
    ASSERT_EQ(again->exp_name, config->exp_name) << text;
    ASSERT_EQ(again->custom_envs["Lake"], config->custom_envs["Lake"]) << text;
  }
}

TEST(ConfigProperty, BrokenTextIsAnErrorNotACrash) {
  Rng rng(test_seed() + 2);
  const std::string good = shipped_text();
  ASSERT_FALSE(good.empty());
  for (int round = 0; round < 1000; ++round) {
    std::string text = good;
    switch (rng.below(4)) {
      case 0:
        text.resize(rng.below(text.size()));
        break;
      case 1:
        for (uint64_t i = rng.below(8) + 1; i > 0; --i)
          text[rng.below(text.size())] = static_cast<char>(rng.below(256));
        break;
      case 2:
        text.insert(rng.below(text.size()), random_text(rng, 30));
        break;
      default:
        text.erase(rng.below(text.size()), rng.below(40));
    }
    auto config = load_text(text, "fuzz.yaml", {}, {.check_files = false});
    if (!config) {
      ASSERT_FALSE(config.error().detail.empty());
      ASSERT_EQ(config.error().detail.find("fuzz.yaml"), 0u) << config.error().detail;
    }
  }
}

TEST(ConfigProperty, RandomBytesAreAnErrorNotACrash) {
  Rng rng(test_seed() + 3);
  for (int round = 0; round < 5000; ++round) {
    std::string text = random_text(rng, 120);
    if (!text.empty() && rng.below(4) == 0)
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    if (auto node = parse_yaml(text, "x"); node) (void)parse_yaml(to_yaml(*node), "again");
    (void)parse_device_mapping(text);
    (void)parse_device_mapping("list(range(" + text);
    Node root = Node::make_map({});
    (void)apply_override(root, text);
    (void)load_text(text, "x", {"a=" + text, text}, {.check_files = false});
  }
}

TEST(ConfigProperty, DeepNestingIsRefused) {
  for (const char* piece : {"[", "{a: ", "- ", "? ", "a: {b: ["}) {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += piece;
    EXPECT_FALSE(load_text(text, "deep.yaml"));
  }
  std::string indent;
  for (int i = 0; i < 600; ++i) indent += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_FALSE(load_text(indent, "deep.yaml"));
}

}  // namespace
}  // namespace cohort::config::config_test
