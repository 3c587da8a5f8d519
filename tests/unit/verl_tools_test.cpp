// verl's multi_turn and its file of tools, as this config's tools; and rules of the tools' keys.
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/config/load.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/same_settings.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

const std::string k_turns = "actor_rollout_ref.rollout.multi_turn.";

/// The file of ReTool's recipe, and a tool of the user's own.
constexpr const char* k_tools = R"(
tools:
  - class_name: "recipe.retool.retool.CustomSandboxFusionTool"
    config:
      sandbox_fusion_url: "http://localhost:8080/run_code"
      num_workers: 128
      rate_limit: 128
      default_timeout: 30
      memory_limit_mb: 512
      type: native
    tool_schema:
      type: "function"
      function:
        name: "code_interpreter"
        description: "A tool for executing code."
        parameters: {type: object, properties: {code: {type: string}}, required: ["code"]}
  - class_name: tools/squares.py:Squares
    config: {type: native, offset: 1}
    tool_schema: {type: function, function: {name: square}}
)";

struct VerlTools {
  Expected<RunConfig> load(const std::string& file, std::vector<std::string> more = {}) const {
    const std::string path = (folder.path() / "tools.yaml").string();
    std::ofstream(path) << file;
    more.insert(more.begin(), {k_turns + "enable=True", k_turns + "tool_config_path=" + path});
    return load_verl(test::quickstart(more));
  }
  test::TempFolder folder;
};

TEST(VerlTools, AreOurTools) {
  const VerlTools verl;
  auto run = verl.load(k_tools, {k_turns + "max_assistant_turns=8", k_turns + "format=llama3_json",
                                 k_turns + "tool_response_truncate_side=left"});
  ASSERT_TRUE(run) << run.error().detail;
  ASSERT_EQ(run->tools.size(), 2U);
  const ToolConfig& code = run->tools.at("code_interpreter");
  EXPECT_EQ(code.type, ToolType::python);
  EXPECT_EQ(code.plugin.timeout_s, 30);
  EXPECT_EQ(code.plugin.sandbox.memory_bytes, uint64_t{512} << 20);
  EXPECT_EQ(code.schema,
            R"({"type":"function","function":{"name":"code_interpreter","description":)"
            R"("A tool for executing code.","parameters":{"type":"object","properties":)"
            R"({"code":{"type":"string"}},"required":["code"]}}})");
  const ToolConfig& square = run->tools.at("square");
  EXPECT_EQ(square.type, ToolType::plugin);
  EXPECT_EQ(square.plugin.path, "tools/squares.py:Squares");
  EXPECT_EQ(square.plugin.args, R"({"type":"native","offset":1})");
  EXPECT_EQ(run->multi_turn, (MultiTurnSection{.format = ToolFormat::llama3_json,
                                               .max_assistant_turns = 8,
                                               .tool_response_truncate_side = CutSide::left}));
  auto again = load_text(run->resolved_yaml, "again.yaml");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(test::same_settings(*again, *run));
}

TEST(VerlTools, OursStandBesideThem) {
  const VerlTools verl;
  auto run = verl.load(k_tools, {"++tools.mine.plugin=mine.py:f", "++multi_turn.shows_tools=false",
                                 "++multi_turn.max_tool_response_length=9"});
  ASSERT_TRUE(run) << run.error().detail;
  EXPECT_EQ(run->tools.size(), 3U);
  EXPECT_FALSE(run->multi_turn.shows_tools);
  EXPECT_EQ(run->multi_turn.max_tool_response_length, 9);
  auto off = load_verl(test::quickstart({"++tools.mine.plugin=mine.py:f"}));
  ASSERT_TRUE(off) << off.error().detail;
  EXPECT_TRUE(off->tools.empty()) << "multi_turn.enable is False";
}

TEST(VerlTools, WhatCannotBeReadIsNamedWithItsLine) {
  const VerlTools verl;
  const auto refused = [&](const std::string& file, const std::string& words) {
    auto run = verl.load(file);
    ASSERT_FALSE(run) << words;
    EXPECT_NE(run.error().detail.find(words), std::string::npos) << run.error().detail;
  };
  refused("tools:\n  - class_name: verl.tools.gsm8k_tool.Gsm8kTool\n",
          "tools.yaml:2:5: class_name "
          "'verl.tools.gsm8k_tool.Gsm8kTool' is no tool here");
  refused("tools:\n  - class_name: a.py:f\n", "tool_schema.function.name is missing");
  refused("tool: []\n", "`tools` is no list of tools");
  const std::string same = "  - {class_name: a.py:f, tool_schema: {function: {name: f}}}\n";
  refused("tools:\n" + same + same, "there is another tool 'f'");
  auto none = load_verl(test::quickstart(
      {k_turns + "enable=True", k_turns + "tool_config_path=/nowhere/tools.yaml"}));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().detail.find("/nowhere/tools.yaml"), std::string::npos);
}

TEST(VerlTools, InteractionsAreNotRun) {
  const VerlTools verl;
  const std::string key = k_turns + "interaction_config_path";
  auto run = verl.load(k_tools, {key + "=/i"});
  ASSERT_TRUE(run) << run.error().detail;
  EXPECT_NE(test::warning_of(*run, key).find("an environment plugin"), std::string::npos);
}

TEST(Tools, KeysWithoutEffectAreTold) {
  const std::string config = test::source_path("configs/tool_arithmetic.yaml");
  auto run = load(config, {});
  ASSERT_TRUE(run) << run.error().detail;
  EXPECT_EQ(run->tools.at("python").type, ToolType::python);
  EXPECT_EQ(run->multi_turn.max_tool_response_length, 16);
  const auto refused = [&](const std::string& override, const std::string& words) {
    auto bad = load(config, {override});
    ASSERT_FALSE(bad) << override;
    EXPECT_NE(bad.error().detail.find(words), std::string::npos) << bad.error().detail;
  };
  refused("++tools.python.plugin=a.py:f", "type python is the interpreter");
  refused("++tools.python.sandbox.network=true", "runs without a network");
  refused("tools.python.type=plugin", "tools.python.plugin: missing");
  refused("multi_turn.format=gpt-oss", "expected one of hermes, llama3_json");
  auto none = load(config, {"~tools"});
  ASSERT_TRUE(none) << none.error().detail;
  EXPECT_EQ(test::warning_of(*none, "multi_turn"), "has no effect without `tools`");
}

}  // namespace
}  // namespace cohort::config
