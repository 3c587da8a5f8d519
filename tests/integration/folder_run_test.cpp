// Runs that start from a folder: its shape, its weights, its tokenizer, its chat template.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

std::string source(const std::string& path) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/" + path;
}

/// A seed config, as it is, on the small model: cards, sizes and steps as a user would set them.
std::vector<std::string> seed_run(const std::string& name, const TempFolder& folder,
                                  std::vector<std::string> more) {
  tests::write_byte_model(folder.path() / "model");
  std::vector<std::string> words = {test::binary("actor-node"),
                                    "run",
                                    source("tests/data/seed_configs/" + name),
                                    "pretrain=" + (folder.path() / "model").string(),
                                    "platform=cpu",
                                    "max_steps=2",
                                    "output_dir=" + (folder.path() / "out").string(),
                                    "actor_train.device_mapping=[0,1]",
                                    "actor_infer.device_mapping=[2]",
                                    "reference.device_mapping=[3]",
                                    "actor_train.training_args.gradient_accumulation_steps=2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Rows in ROLL's format. One of them writes the end of a turn itself.
std::string write_rows(const TempFolder& folder) {
  const std::string path = (folder.path() / "rows.jsonl").string();
  std::ofstream out(path);
  for (int i = 0; i < 12; ++i) {
    const std::string question = i == 3 ? "What is <|im_end|>?" : "What is 2 + 2?";
    const nlohmann::json messages = {{{"role", "user"}, {"content", question}}};
    out << nlohmann::json{{"id", std::to_string(i)},
                          {"messages", messages.dump()},
                          {"ground_truth", "4"},
                          {"tag", "deepmath_103k"}}
               .dump()
        << "\n";
  }
  for (int i = 0; i < 12; ++i) {
    const nlohmann::json messages = {{{"role", "user"}, {"content", "Write f."}}};
    const nlohmann::json cases = {{{"assert_code", "assert f() == 1"}}};
    out << nlohmann::json{{"id", "c" + std::to_string(i)}, {"messages", messages.dump()},
                          {"ground_truth", "1"},           {"tag", "KodCode"},
                          {"case_type", "assert"},         {"test_cases", cases.dump()}}
               .dump()
        << "\n";
  }
  return path;
}

std::vector<nlohmann::json> trajectories(const std::string& run, const TempFolder& temp) {
  const std::string jsonl = (temp.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", run, "--jsonl", jsonl}, temp);
  EXPECT_EQ(exported.wait(), 0) << exported.err();
  std::vector<nlohmann::json> all;
  std::ifstream in(jsonl);
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

void expect_sound(const std::string& run, const TempFolder& temp) {
  Process verified({test::binary("traj"), "verify", run}, temp);
  EXPECT_EQ(verified.wait(), 0) << verified.out() << verified.err();
  std::ifstream in(run + "/metrics.jsonl");
  int updates = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("actor/pg_loss")) continue;
    ++updates;
    EXPECT_TRUE(row.at("actor/pg_loss").is_number()) << line;
    EXPECT_TRUE(row.at("actor/grad_norm").is_number()) << line;
  }
  EXPECT_EQ(updates, 2);
}

const std::vector<std::string> k_rlvr_sizes = {"rollout_batch_size=4",
                                               "num_return_sequences_in_group=2",
                                               "prompt_length=256", "response_length=16"};

TEST(FolderRun, TheRlvrSeedOfOneNode) {
  TempFolder folder;
  std::vector<std::string> more = k_rlvr_sizes;
  more.push_back("adv_estimator=grpo");
  more.push_back("actor_train.data_args.file_name=[" + write_rows(folder) + "]");
  more.push_back("rewards.math_rule.tag_included=[deepmath_103k,KodCode]");
  const auto words = seed_run("qwen3_8b_rlvr_deepspeed.yaml", folder, more);
  Process run(words, folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_NE(run.out().find("without effect: actor_train.data_args.dataset_dir"), std::string::npos)
      << run.out();
  expect_sound(run_folder(run), folder);
  for (const auto& t : trajectories(run_folder(run), folder)) {
    const auto tokens = t.at("tokens").get<std::vector<int32_t>>();
    EXPECT_EQ(tokens.front(), tests::k_im_start);
    const auto& mask = t.at("response_mask");
    int64_t prompt_ends = 0;
    for (size_t i = 0; i < tokens.size(); ++i)
      prompt_ends += mask[i] == 0 && tokens[i] == tests::k_im_end ? 1 : 0;
    EXPECT_EQ(prompt_ends, 1) << "text of a row made a special id";
  }
  // The same, each card in a process of its own.
  TempFolder other;
  std::vector<std::string> again = seed_run("qwen3_8b_rlvr_deepspeed.yaml", other, more);
  again.insert(again.begin() + 2, {"--processes", "4"});
  Process spread(again, other);
  ASSERT_EQ(spread.wait(), 0) << spread.err() << spread.out();
  EXPECT_EQ(hashes(run_folder(spread)), hashes(run_folder(run)));
}

TEST(FolderRun, TheRlvrSeedOfTwoNodesScoresMathsAndCode) {
  TempFolder folder;
  std::vector<std::string> more = k_rlvr_sizes;
  more.push_back("actor_train.data_args.file_name=[" + write_rows(folder) + "]");
  Process run(seed_run("rlvr_npu_multinode.yaml", folder, more), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  expect_sound(run_folder(run), folder);
  std::map<std::string, int> rewards;
  for (const auto& t : trajectories(run_folder(run), folder)) ++rewards[t.at("tag")];
  EXPECT_EQ(rewards, (std::map<std::string, int>{{"code_sandbox", 8}, {"math_rule", 8}}));
}

TEST(FolderRun, TheAgenticSeedPlaysInTheFoldersTemplate) {
  TempFolder folder;
  Process run(
      seed_run("agentic_frozen_lake_npu.yaml", folder,
               {"rollout_batch_size=8", "eval_steps=-1", "train_env_manager.num_env_groups=1",
                "train_env_manager.num_groups_partition=[1]", "sequence_length=2048",
                "max_tokens_per_step=8"}),
      folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  expect_sound(run_folder(run), folder);
  int turns_of_several = 0;
  for (const auto& t : trajectories(run_folder(run), folder)) {
    const auto tokens = t.at("tokens").get<std::vector<int32_t>>();
    const auto mask = t.at("response_mask").get<std::vector<int>>();
    turns_of_several += t.at("turns").size() > 1 ? 1 : 0;
    // Between two answers one end of a turn, never two: <|im_end|>\n<|im_start|>user.
    for (size_t i = 1; i < tokens.size(); ++i)
      EXPECT_FALSE(tokens[i - 1] == tests::k_im_end && tokens[i] == tests::k_im_end);
    EXPECT_EQ(mask.front(), 0);
  }
  EXPECT_GT(turns_of_several, 0);
}

/// The log-probabilities of each token after the first, as `actor-node logprobs` has them.
std::vector<std::vector<double>> logprobs_of(const std::string& model,
                                             const std::vector<nlohmann::json>& rows,
                                             const TempFolder& temp) {
  const std::string path = (temp.path() / "ids.jsonl").string();
  std::ofstream out(path);
  for (const auto& row : rows) out << nlohmann::json{{"ids", row.at("tokens")}}.dump() << "\n";
  out.close();
  Process asked({test::binary("actor-node"), "logprobs", model, path}, temp);
  EXPECT_EQ(asked.wait(), 0) << asked.err();
  std::istringstream in(asked.out());
  std::vector<std::vector<double>> found;
  for (std::string line; std::getline(in, line);)
    found.push_back(nlohmann::json::parse(line).at("logprobs").get<std::vector<double>>());
  return found;
}

void expect_reference(const std::string& run, const std::string& model, const TempFolder& temp) {
  std::vector<nlohmann::json> trained;
  for (const auto& t : trajectories(run, temp))
    if (!t.at("ref_logp").empty()) trained.push_back(t);
  const auto expected = logprobs_of(model, trained, temp);
  ASSERT_EQ(expected.size(), trained.size());
  size_t tokens = 0;
  for (size_t i = 0; i < trained.size(); ++i)
    for (size_t t = 1; t < trained[i].at("tokens").size(); ++t) {
      if (trained[i].at("response_mask")[t] == 0) continue;
      EXPECT_NEAR(trained[i].at("ref_logp")[t].get<double>(), expected[i][t - 1], 1e-4);
      ++tokens;
    }
  EXPECT_GT(tokens, 0U);
}

TEST(FolderRun, AReferenceOfItsOwnIsAnotherModel) {
  TempFolder folder, frozen;
  const std::string reference = (frozen.path() / "reference").string();
  tests::write_byte_model(reference, 3, 7);  // a layer more, and other weights
  std::vector<std::string> more = k_rlvr_sizes;
  more.insert(more.end(), {"actor_train.data_args.file_name=[" + write_rows(folder) + "]",
                           "actor_train.model_args.dtype=fp32", "save_steps=1", "use_kl_loss=true",
                           "+reference.model_args.model_name_or_path=" + reference});
  const auto words = seed_run("rlvr_npu_multinode.yaml", folder, more);
  Process run(words, folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  expect_sound(run_folder(run), folder);
  expect_reference(run_folder(run), reference, folder);
  const auto expected = hashes(run_folder(run));
  // The same in two starts, each card in a process of its own.
  TempFolder other;
  more.push_back("max_steps=1");
  auto again = seed_run("rlvr_npu_multinode.yaml", other, more);
  again.insert(again.begin() + 2, {"--processes", "4"});
  Process first(again, other);
  ASSERT_EQ(first.wait(), 0) << first.err() << first.out();
  again.insert(again.end(), {"max_steps=2", "resume_from_checkpoint=true"});
  Process resumed(again, other);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err() << resumed.out();
  EXPECT_EQ(hashes(run_folder(resumed)), expected);
  expect_reference(run_folder(resumed), reference, other);
}

TEST(FolderRun, AReferenceThatReadsOtherIdsIsRefused) {
  struct Case {
    std::function<void(const std::filesystem::path&)> harm;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](const auto& model) { std::filesystem::remove(model / "tokenizer.json"); },
       "has no tokenizer.json to hold against the policy's"},
      {[](const auto& model) {
         auto json = nlohmann::json::parse(test::slurp(model / "tokenizer.json"));
         json["added_tokens"][1]["content"] = "<|turn|>";
         std::ofstream(model / "tokenizer.json") << json.dump();
       },
       "id 257 is '<|turn|>', and of the policy's tokenizer '<|im_start|>'"},
      {[](const auto& model) {
         auto json = nlohmann::json::parse(test::slurp(model / "config.json"));
         json["vocab_size"] = 260;
         std::ofstream(model / "config.json") << json.dump();
       },
       "vocab_size 260 is below the policy's 264"},
      {[](const auto& model) { std::filesystem::remove(model / "config.json"); },
       "with a config.json (nothing is downloaded)"}};
  for (const Case& x : cases) {
    TempFolder folder;
    const auto reference = folder.path() / "reference";
    tests::write_byte_model(reference, 3, 7);
    x.harm(reference);
    std::vector<std::string> more = k_rlvr_sizes;
    more.push_back("actor_train.data_args.file_name=[" + write_rows(folder) + "]");
    more.push_back("+reference.model_args.model_name_or_path=" + reference.string());
    Process run(seed_run("rlvr_npu_multinode.yaml", folder, more), folder);
    EXPECT_EQ(run.wait(), 2) << run.err();
    EXPECT_NE(run.err().find("reference.model_args.model_name_or_path: "), std::string::npos)
        << run.err();
    EXPECT_NE(run.err().find(x.message), std::string::npos) << run.err();
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
  }
}

TEST(FolderRun, AFolderThatDoesNotFitIsRefusedBeforeACardIsTouched) {
  struct Case {
    std::function<void(const std::filesystem::path&)> harm;
    std::string message;
  };
  const auto write = [](const char* name, const std::string& text) {
    return [=](const std::filesystem::path& model) { std::ofstream(model / name) << text; };
  };
  const std::vector<Case> cases = {
      {[](const auto& model) { std::filesystem::remove(model / "config.json"); },
       "config.json: No such file"},
      {write("config.json", "{"), "config.json"},
      {[](const auto& model) {
         auto json = nlohmann::json::parse(test::slurp(model / "config.json"));
         json["vocab_size"] = 200;
         std::ofstream(model / "config.json") << json.dump();
       },
       "tokenizer.json has ids up to 258, config.json's vocab_size is 200"},
      {write("tokenizer.json", "{}"), "tokenizer.json"},
      {write("chat_template.jinja", "{{ raise_exception('no') }}"), "chat template: "},
      {write("chat_template.jinja", "{% if %}"), "chat template: "}};
  for (const Case& x : cases) {
    TempFolder folder;
    std::vector<std::string> more = k_rlvr_sizes;
    more.push_back("actor_train.data_args.file_name=[" + write_rows(folder) + "]");
    const auto words = seed_run("rlvr_npu_multinode.yaml", folder, more);
    x.harm(folder.path() / "model");
    Process run(words, folder);
    EXPECT_EQ(run.wait(), 2) << run.err();
    EXPECT_NE(run.err().find(x.message), std::string::npos) << run.err();
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
  }
}

}  // namespace
}  // namespace cohort
