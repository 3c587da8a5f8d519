/// `actor-node score` and `actor-node plugin check`: what they write and their exit codes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/plugin_rig.hpp"
#include "tools/actor-node/plugin_command.hpp"
#include "tools/actor-node/score_command.hpp"

namespace cohort::test {
namespace {

using nlohmann::json;

RewardWords words_of(const std::string& reward) {
  RewardWords words;
  words.spec.plugin = reward;
  words.sandbox = sandbox_mode() == plugin::SandboxMode::bubblewrap ? "bubblewrap" : "rlimits";
  return words;
}

TEST(InputRow, KnownColumnsAreFieldsAndTheRestStaysJson) {
  auto found = read_input_row(R"({"response": "r", "prompt": [{"role": "user", "content": "q"}],
      "reward_model": {"style": "rule", "ground_truth": "72"}, "tag": "math", "is_finished": false,
      "response_tokens": 9, "extra_info": {"index": 1}, "answer": null})",
                              "f.jsonl", 4);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  const tasks::RewardRow& row = found->row;
  EXPECT_EQ(row.id, "f.jsonl:4");
  EXPECT_EQ(row.response, "r");
  EXPECT_EQ(row.prompt, "");
  EXPECT_EQ(json::parse(row.messages), json::parse(R"([{"role": "user", "content": "q"}])"));
  EXPECT_EQ(row.ground_truth, "72");
  EXPECT_EQ(row.data_source, "math");
  EXPECT_EQ(row.response_tokens, 9U);
  EXPECT_FALSE(row.is_finished);
  EXPECT_EQ(json::parse(row.columns).at("extra_info").at("index"), 1);
  for (const char* bad : {"[]", "{", R"({"ground_truth": "1"})", R"({"response": 3})"}) {
    auto refused = read_input_row(bad, "f.jsonl", 7);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_NE(refused.error().detail.find("f.jsonl:7"), std::string::npos);
  }
}

TEST(Score, WritesOneObjectPerRowInTheirOrder) {
  PluginFolder folder;
  std::string rows;
  for (int i = 0; i < 50; ++i)
    rows += json{{"response", i % 7 == 3 ? "raise" : std::string(static_cast<size_t>(i), 'x')},
                 {"ground_truth", "42"}}
                .dump() +
            "\n\n";
  ScoreCommand command;
  command.words = words_of(failures("fail"));
  command.rows = folder.write("rows.jsonl", rows);
  command.out = folder.path("scores.jsonl");
  command.portion = 3;
  EXPECT_EQ(score_command(command), 1);  // some rows have no score
  std::ifstream in(command.out);
  std::string line;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(std::getline(in, line)) << i;
    const json found = json::parse(line);
    EXPECT_EQ(found.at("row"), 2 * i + 1);
    if (i % 7 == 3) {
      EXPECT_TRUE(found.at("score").is_null());
      EXPECT_NE(found.at("error").get<std::string>().find("raised ValueError"), std::string::npos);
    } else {
      EXPECT_EQ(found.at("score"), i);
      EXPECT_EQ(found.at("error"), "");
    }
    EXPECT_TRUE(found.at("parts").is_object());
  }
  EXPECT_FALSE(std::getline(in, line));
}

TEST(Score, SaysWhatCannotBeScored) {
  PluginFolder folder;
  ScoreCommand command;
  command.words = words_of(example("last_number.py"));
  command.rows = folder.path("missing.jsonl");
  EXPECT_EQ(score_command(command), 2);
  command.rows = folder.write("rows.jsonl", "{\"response\": \"42\", \"ground_truth\": \"42\"}\n");
  command.out = folder.path("out.jsonl");
  EXPECT_EQ(score_command(command), 0);
  command.words.spec.plugin = "no_such_reward";
  EXPECT_EQ(score_command(command), 2);
  command.words = words_of(example("last_number.py"));
  command.out = folder.path("no/such/folder.jsonl");
  EXPECT_EQ(score_command(command), 2);
}

TEST(Score, TakesBuiltInRewardsByName) {
  PluginFolder folder;
  ScoreCommand command;
  command.words = words_of("gsm8k");
  command.rows = folder.write("rows.jsonl",
                              "{\"response\": \"#### 42\", \"ground_truth\": \"42\"}\n"
                              "{\"response\": \"#### 41\", \"ground_truth\": \"42\"}\n");
  command.out = folder.path("out.jsonl");
  EXPECT_EQ(score_command(command), 0);
  std::ifstream in(command.out);
  std::string line;
  for (double score : {1.0, 0.0}) {
    ASSERT_TRUE(std::getline(in, line));
    EXPECT_EQ(json::parse(line).at("score"), score);
  }
  // What cannot be opened without options says which.
  for (const std::string& name : plugin::reward_names()) {
    auto reward = plugin::open_reward(spec_of(name));
    const std::string said = reward ? name : reward.error().detail;
    EXPECT_NE(said.find(name), std::string::npos) << said;
  }
}

TEST(PluginCheck, PrintsScoresAndFindsNothingInAGoodOne) {
  PluginCommand command;
  command.words = words_of(example("last_number.py"));
  auto report = check_plugin(command);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_TRUE(report->errors.empty() && report->warnings.empty());
  EXPECT_NE(report->text.find("compute_score (verl signature)"), std::string::npos);
  EXPECT_NE(report->text.find("numbers=4; found=5"), std::string::npos) << report->text;
  EXPECT_EQ(plugin_command(command), 0);
}

TEST(PluginCheck, NamesWhatBreaksTheContract) {
  PluginFolder folder;
  auto found = [&](const std::string& text) {
    PluginCommand command;
    command.words = words_of(folder.write("mine.py", text));
    auto report = check_plugin(command);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().to_string());
    std::string all;
    for (const auto& x : report->errors) all += "error: " + x + "\n";
    for (const auto& x : report->warnings) all += "warning: " + x + "\n";
    return all;
  };
  EXPECT_NE(found("def f(row): return 0.5\n").find("all 4 scores are 0.5"), std::string::npos);
  EXPECT_NE(found("import itertools\nn = itertools.count()\ndef f(row): return next(n)\n")
                .find("not deterministic"),
            std::string::npos);
  EXPECT_EQ(found("def f(row): return None if row['id'] == 'cut' else len(row['response'])\n"),
            "error: cut: returned None (no score)\n");
  PluginCommand command;
  command.words = words_of(folder.path("none.py"));
  EXPECT_EQ(plugin_command(command), 1);
  command.words.spec.config = "no json";
  EXPECT_EQ(plugin_command(command), 2);
}

TEST(PluginCheck, CallsATool) {
  PluginCommand command;
  command.words = words_of(example("calculator.py"));
  command.is_tool = true;
  command.arguments = R"({"expression": "6 * 7"})";
  auto report = check_plugin(command);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_TRUE(report->errors.empty() && report->warnings.empty());
  EXPECT_NE(report->text.find("\n42\n"), std::string::npos) << report->text;
  command.arguments = R"({"expression": "1 / 0"})";
  EXPECT_EQ(check_plugin(command)->errors.size(), 1U);
}

TEST(PluginCheck, PlaysAnEnvironment) {
  PluginCommand command;
  command.words = words_of(example("guess_number.py"));
  command.is_environment = true;
  command.answers = {"<answer>7</answer>", "pass"};
  auto report = check_plugin(command);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_TRUE(report->errors.empty() && report->warnings.empty());
  EXPECT_NE(report->text.find("turn 2: pass -> reward -0.1, invalid"), std::string::npos)
      << report->text;
}

}  // namespace
}  // namespace cohort::test
