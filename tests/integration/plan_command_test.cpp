/// `actor-node plan` over the seed configs and the quickstart: numbers, refusals, exit codes, JSON.
#include "tools/actor-node/plan_command.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/child_process.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// Runs the command from its words, as main() does.
PlanOutput run(Words words, size_t width = 100) {
  CLI::App app{"test"};
  PlanCommand command;
  add_plan_command(app, command);
  words.insert(words.begin(), "plan");
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return {2, "", e.what()};
  }
  PageStyle style;
  style.width = width;
  return plan_output(command, style);
}

std::string seed_path(const std::string& name) {
  return test::source_path("tests/data/seed_configs/" + name);
}

PlanOutput plan_seed(const std::string& name, const Words& more = {}) {
  Words words = {seed_path(name)};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

json parsed(const PlanOutput& output) {
  json out = json::parse(output.out, nullptr, false);
  EXPECT_FALSE(out.is_discarded()) << output.out << output.err;
  return out;
}

json json_of_seed(const std::string& name, Words more = {}) {
  more.push_back("--json");
  return parsed(plan_seed(name, more));
}

constexpr auto k_agentic = "agentic_frozen_lake_npu.yaml";
constexpr auto k_qwen3 = "qwen3_8b_rlvr_deepspeed.yaml";
constexpr auto k_multinode = "rlvr_npu_multinode.yaml";

std::set<std::string> keys_of(const json& notes) {
  std::set<std::string> keys;
  for (const json& note : notes) keys.insert(note.at("key").get<std::string>());
  return keys;
}

std::set<std::string> role_names(const json& plan) {
  std::set<std::string> names;
  for (const json& role : plan.at("roles")) names.insert(role.at("role").get<std::string>());
  return names;
}

struct SeedCase {
  const char* file;
  uint64_t trajectories, optimizer_batch, steps_per_step;
  bool has_reference;
};

// docs/config.md, Batch algebra.
constexpr SeedCase k_seeds[] = {{k_agentic, 1024, 512, 2, false},
                                {k_qwen3, 256, 256, 1, true},
                                {k_multinode, 512, 256, 2, true}};

TEST(PlanCommand, SeedConfigsHaveTheirNumbersInUnderASecond) {
  for (const SeedCase& x : k_seeds) {
    auto start = std::chrono::steady_clock::now();
    json plan = json_of_seed(x.file);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << x.file;
    const json& batch = plan.at("batch");
    EXPECT_EQ(batch.at("trajectories"), x.trajectories) << x.file;
    EXPECT_EQ(batch.at("optimizer_batch"), x.optimizer_batch) << x.file;
    EXPECT_EQ(batch.at("optimizer_steps_per_step"), x.steps_per_step) << x.file;
    EXPECT_EQ(batch.at("recompute_old_log_prob"), true) << x.file;
    EXPECT_EQ(role_names(plan).contains("reference"), x.has_reference) << x.file;
    EXPECT_EQ(plan.at("card").at("type"), "A2") << x.file;
  }
}

TEST(PlanCommand, KeysThatRollIgnoresAreListed) {
  for (const auto* name : {k_qwen3, k_multinode}) {
    std::set<std::string> keys = keys_of(json_of_seed(name).at("keys_without_effect"));
    for (const char* key :
         {"actor_train.data_args.dataset_dir", "actor_train.data_args.interleave_probs",
          "actor_infer.infer_batch_size", "rewards.math_rule.infer_batch_size"})
      EXPECT_TRUE(keys.contains(key)) << name << " " << key;
  }
}

TEST(PlanCommand, VerlQuickstartGivesItsNumbers) {
  Words words = test::quickstart();
  words.insert(words.begin(), {"--dialect", "verl", "--json"});
  PlanOutput output = run(words);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  json plan = parsed(output), batch = plan.at("batch");
  EXPECT_EQ(batch.at("trajectories"), 640);
  EXPECT_EQ(batch.at("per_rank"), 80);
  EXPECT_EQ(batch.at("mini_per_rank"), 40);
  EXPECT_EQ(batch.at("accumulation"), 2);
  EXPECT_EQ(batch.at("optimizer_steps_per_step"), 2);
  EXPECT_EQ(batch.at("replicas"), 4);
  EXPECT_EQ(batch.at("steps"), 58);
  EXPECT_EQ(plan.at("mode"), "timeshare");  // hybrid_engine
  EXPECT_EQ(plan.at("phases").size(), 4u);
}

TEST(PlanCommand, OverlapIsRefusedWithBothRolesAndTheOverride) {
  Words overlap = {"actor_infer.device_mapping=list(range(4,12))",
                   "reference.device_mapping=list(range(8,12))"};
  PlanOutput refused = plan_seed(k_multinode, overlap);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(refused.out.empty());
  for (const char* part :
       {"actor_train", "actor_infer", "[4, 5, 6, 7]", "placement.mode=timeshare",
        "override 'actor_infer.device_mapping=list(range(4,12))'", "rlvr_npu_multinode.yaml:"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << part << ": " << refused.err;
  overlap.push_back("placement.mode=timeshare");
  json plan = json_of_seed(k_multinode, overlap);
  EXPECT_EQ(plan.at("mode"), "timeshare");
  EXPECT_FALSE(plan.at("engine_notes").empty());
  for (const json& phase : plan.at("phases"))
    for (const json& card : phase.at("cards")) EXPECT_GT(card.at("cards").size(), 0u);
}

TEST(PlanCommand, ColocatedRolesShareAllCards) {
  Words same = {"actor_infer.device_mapping=list(range(0,8))",
                "reference.device_mapping=list(range(0,8))", "placement.mode=timeshare"};
  PlanOutput output = plan_seed(k_multinode, same);
  EXPECT_NE(output.exit_code, 2) << output.err;
  for (const char* phase : {"publish", "generate", "reference", "update"})
    EXPECT_NE(output.out.find(phase), std::string::npos) << phase;
  EXPECT_NE(output.out.find("take turns"), std::string::npos);
}

TEST(PlanCommand, BothMappingsOfTwoNodesArePlanned) {
  json first = json_of_seed(k_multinode);  // train on node 0, the others on node 1
  EXPECT_EQ(first.at("roles").at(1).at("cards"), json({8, 9, 10, 11, 12, 13, 14, 15}));
  Words across = {"actor_train.device_mapping=list(range(0,4)) + list(range(8,12))",
                  "actor_infer.device_mapping=list(range(4,8)) + list(range(12,16))",
                  "reference.device_mapping=list(range(4,8)) + list(range(12,16))"};
  json second = json_of_seed(k_multinode, across);
  EXPECT_EQ(second.at("roles").at(0).at("cards"), json({0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(second.at("roles").at(1).at("cards"), json({4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(first.at("batch"), second.at("batch"));
  EXPECT_NE(plan_seed(k_multinode, across).out.find("nodes 0-1"), std::string::npos);
}

TEST(PlanCommand, ExitCodeSaysWhetherItFits) {
  EXPECT_EQ(plan_seed(k_agentic).exit_code, 0);
  PlanOutput small = plan_seed(k_qwen3, {"--card", "910A"});
  EXPECT_EQ(small.exit_code, 1) << small.err;
  EXPECT_NE(small.out.find("DOES NOT FIT"), std::string::npos);
  EXPECT_NE(small.out.find("WHAT WOULD HELP"), std::string::npos);
  EXPECT_EQ(run({"/no/such/file.yaml"}).exit_code, 2);
  EXPECT_EQ(run({}).exit_code, 2);
  EXPECT_EQ(plan_seed(k_agentic, {"--card", "B200"}).exit_code, 2);
  EXPECT_EQ(plan_seed(k_agentic, {"--dialect", "trl"}).exit_code, 2);
}

TEST(PlanCommand, TextAndJsonSayTheSame) {
  for (const SeedCase& x : k_seeds) {
    PlanOutput text = plan_seed(x.file);
    json plan = json_of_seed(x.file);
    EXPECT_EQ(text.exit_code, plan.at("fits").get<bool>() ? 0 : 1);
    for (const json& number : plan.at("batch").at("numbers"))
      EXPECT_NE(text.out.find(number.at("name").get<std::string>()), std::string::npos);
    uint64_t most = 0;
    for (const json& phase : plan.at("phases"))
      for (const json& card : phase.at("cards")) {
        uint64_t objects = 0;
        for (const json& object : card.at("objects")) objects += object.at("bytes").get<uint64_t>();
        EXPECT_EQ(card.at("object_bytes"), objects);
        most = std::max(most, card.at("bytes").get<uint64_t>());
      }
    EXPECT_EQ(plan.at("peak").at("bytes"), most);
  }
}

TEST(PlanCommand, WorkSpaceOfTheCpuPlatformIsNotOnItsCards) {
  Words words = {test::source_path("configs/frozen_lake.yaml"), "cards.memory_bytes=40MiB",
                 "cards.reserve_bytes=1MiB"};
  PlanOutput text = run(words);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("in the process: work space"), std::string::npos);
  EXPECT_EQ(text.out.find("»"), text.out.rfind("»"));  // in the legend alone
  words.push_back("--json");
  json plan = parsed(run(words));
  EXPECT_LE(plan.at("peak").at("bytes"), plan.at("peak").at("budget_bytes"));
}

TEST(PlanCommand, LinesKeepToTheTerminal) {
  for (size_t width : {80, 120})
    for (const SeedCase& x : k_seeds) {
      std::istringstream lines(run({seed_path(x.file)}, width).out);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(text_width(line), width) << line;
    }
}

TEST(PlanCommand, LocalFolderGivesTheShape) {
  test::TempFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"model_type": "qwen2", "hidden_size": 256, "num_hidden_layers": 3, "vocab_size": 1000,
             "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512,
             "tie_word_embeddings": true})";
  std::string path = folder.path().string();
  json plan = json_of_seed(k_agentic, {"pretrain=" + path});
  EXPECT_EQ(plan.at("model").at("hidden_size"), 256);
  EXPECT_EQ(plan.at("model").at("num_hidden_layers"), 3);
  std::ofstream(folder.path() / "config.json") << "{ not json";
  PlanOutput broken = plan_seed(k_agentic, {"pretrain=" + path});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.err.find("config.json"), std::string::npos);
}

TEST(PlanCommand, ExplainWithoutAndWithAConfig) {
  const std::string key = "actor_train.training_args.learning_rate";
  PlanOutput schema = run({"--explain", key});
  EXPECT_EQ(schema.exit_code, 0) << schema.err;
  EXPECT_NE(schema.out.find("5e-05"), std::string::npos) << schema.out;
  EXPECT_EQ(schema.out.find("here"), std::string::npos);
  PlanOutput here = plan_seed(k_agentic, {"--explain", key});
  EXPECT_NE(here.out.find("1e-06"), std::string::npos) << here.out;
  EXPECT_NE(here.out.find(std::string(k_agentic) + ":63"), std::string::npos) << here.out;
  PlanOutput named = plan_seed(k_qwen3, {"--explain", "rewards.math_rule.world_size"});
  EXPECT_NE(named.out.find("8 ("), std::string::npos) << named.out;
  EXPECT_EQ(run({"--dialect", "verl", "--explain", "actor_rollout_ref.rollout.n"}).exit_code, 0);
}

TEST(PlanCommand, ExplainKnowsVerlsSupervisedTrainers) {
  // A key that the RL trainer has not is theirs; one that both have is that of the config's.
  PlanOutput own = run({"--dialect", "verl", "--explain", "optim.lr"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_NE(own.out.find("verl's supervised one"), std::string::npos) << own.out;
  EXPECT_NE(own.out.find("1e-05"), std::string::npos) << own.out;
  PlanOutput shared = run({"--dialect", "verl", "--explain", "data.train_files"});
  EXPECT_EQ(shared.out.find("verl's supervised one"), std::string::npos) << shared.out;
  const std::vector<std::string> words = {"--dialect", "verl", "optim.lr=2e-4",
                                          "model.path=/models/x", "--explain"};
  for (const auto& [key, text] : {std::pair{"data.train_files", "Parquet or jsonl files"},
                                  std::pair{"optim.lr", "set at override 'optim.lr=2e-4'"}}) {
    std::vector<std::string> command = words;
    command.emplace_back(key);
    PlanOutput output = run(command);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_NE(output.out.find(text), std::string::npos) << output.out;
  }
  PlanOutput unknown = run({"--dialect", "verl", "--explain", "optim.lrr"});
  EXPECT_EQ(unknown.exit_code, 2);
}

TEST(PlanCommand, ExplainOfAnUnknownKeyNamesTheNearest) {
  PlanOutput output = run({"--explain", "actor_train.training_args.learning_rat"});
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_NE(output.err.find("did you mean 'actor_train.training_args.learning_rate'"),
            std::string::npos)
      << output.err;
}

TEST(PlanCommand, ExplainOfAKeyWithoutEffectSaysWhy) {
  PlanOutput output = plan_seed(k_qwen3, {"--explain", "actor_train.data_args.dataset_dir"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_NE(output.out.find("no effect"), std::string::npos) << output.out;
}

}  // namespace
}  // namespace cohort
