// Pipeline dpo as a user runs it: the shipped config, rows of a file, a kill, two cards, one card
// for trainer and reference, an adapter.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

std::vector<std::string> dpo_run(const TempFolder& folder,
                                 const std::vector<std::string>& more = {}) {
  return test::pairs_run("dpo_arithmetic", folder, more);
}

/// Forty pairs in two shapes: the chosen answer repeats the prompt's digit, the other does not.
std::string write_pairs(const TempFolder& folder) {
  const std::string file = (folder.path() / "pairs.jsonl").string();
  std::ofstream out(file);
  for (int i = 0; i < 40; ++i) {
    const std::string prompt = std::to_string(i % 10), good = prompt + prompt,
                      bad = std::to_string((i + 3 + i / 10) % 10) + ";";
    if (i % 2 == 0)
      out << nlohmann::json{{"prompt", prompt}, {"chosen", good}, {"rejected", bad}} << "\n";
    else
      out << nlohmann::json{{"chosen",
                             {{{"role", "user"}, {"content", prompt}},
                              {{"role", "assistant"}, {"content", good}}}},
                            {"rejected",
                             {{{"role", "user"}, {"content", prompt}},
                              {{"role", "assistant"}, {"content", bad}}}}}
          << "\n";
  }
  return file;
}

TEST(Dpo, RowsOfAFileAreLearntAndHeldOutOnesToo) {
  TempFolder folder;
  const std::string file = write_pairs(folder);
  Process run(dpo_run(folder, {"actor_train.data_args.file_name=[" + file + "]",
                               "validation.data_args.file_name=[" + file + "]", "max_steps=30",
                               "eval_steps=15", "save_steps=30"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = test::metric_rows(run_folder(run));
  ASSERT_EQ(rows.size(), 31U);
  for (const char* key :
       {"loss", "actor/grad_norm", "actor/lr", "preference/accuracy", "preference/margin",
        "preference/reward_chosen", "dpo/pairs", "dpo/truncated_rows", "data/epoch"})
    EXPECT_TRUE(rows[1].contains(key)) << key << " in " << rows[1];
  // The policy is the reference at first: every margin is 0, so that no pair is won.
  EXPECT_NEAR(rows[0]["val/loss"].get<double>(), std::log(2.0), 1e-6) << rows[0];
  EXPECT_NEAR(rows[1]["preference/margin"].get<double>(), 0, 1e-6) << rows[1];
  EXPECT_GE(rows[30]["val/accuracy"].get<double>(), 0.95) << rows[30];
  EXPECT_LT(rows[30]["val/loss"], rows[0]["val/loss"]);
  EXPECT_NE(run.out().find("held-out loss:"), std::string::npos) << run.out();
  Process verify({test::binary("traj"), "verify", run_folder(run)}, folder);
  EXPECT_EQ(verify.wait(), 0) << verify.err();
}

TEST(Dpo, AKilledRunResumesWithTheBitsOfOneThatWasNot) {
  test::expect_same_bits_after_a_kill(dpo_run);
}

/// The same pairs in every order of batch size, accumulation, cards, processes and turns: one hash.
TEST(Dpo, SplitsCardsAndTurnsGiveTheSameBits) {
  TempFolder folder;
  const auto batch = [](int per_device, int accumulation) {
    return std::vector<std::string>{
        "actor_train.training_args.per_device_train_batch_size=" + std::to_string(per_device),
        "actor_train.training_args.gradient_accumulation_steps=" + std::to_string(accumulation),
        "micro_batch_tokens=64", "max_steps=3"};
  };
  std::vector<std::vector<std::string>> cases = {batch(8, 1), batch(1, 8)};
  auto two = batch(2, 2);
  two.insert(two.end(), {"num_gpus_per_node=4", "actor_train.device_mapping=[0,1]",
                         "reference.device_mapping=[2,3]"});
  cases.push_back(two);
  auto turns = batch(4, 2);
  turns.insert(turns.end(), {"placement.mode=timeshare", "placement.offload=step",
                             "reference.device_mapping=[0]"});
  cases.push_back(turns);
  std::vector<std::map<uint64_t, std::string>> found;
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].push_back("exp_name=case" + std::to_string(i));
    auto command = dpo_run(folder, cases[i]);
    if (i == 1) command = test::in_processes(command, 2);
    Process run(command, folder);
    ASSERT_EQ(run.wait(), 0) << i << ": " << run.err();
    EXPECT_EQ(hashes(run_folder(run)).size(), 4U) << i;
    found.push_back(hashes(run_folder(run)));
    EXPECT_EQ(found.back(), found.front()) << i;
  }
}

TEST(Dpo, AnAdapterIsItsOwnReference) {
  TempFolder folder;
  tests::write_byte_model(folder.path() / "model");
  const std::string file = write_pairs(folder);
  Process run(
      dpo_run(folder,
              {"~model", "~reference", "pretrain=" + (folder.path() / "model").string(),
               "actor_train.model_args.lora_target=all-linear",
               "actor_train.model_args.lora_rank=4", "actor_train.data_args.template=native",
               "actor_train.data_args.file_name=[" + file + "]",
               "validation.data_args.file_name=[" + file + "]", "sequence_length=64", "max_steps=8",
               "eval_steps=8"}),
      folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = test::metric_rows(run_folder(run));
  EXPECT_NEAR(rows[0]["val/loss"].get<double>(), std::log(2.0), 1e-6) << rows[0];
  EXPECT_LT(rows[8]["val/loss"].get<double>(), rows[0]["val/loss"].get<double>());
  EXPECT_TRUE(rows[1].contains("time/reference_s")) << rows[1];
}

TEST(Dpo, ABadRowIsNamedAndWhatToDo) {
  TempFolder folder;
  const std::string file = (folder.path() / "rows.jsonl").string();
  for (const auto& [row, words] :
       {std::pair{R"({"prompt": "1", "chosen": "1"})", "no answer rejected"},
        std::pair{R"({"prompt": "1", "chosen": "1", "rejected": "1"})", "are the same"},
        std::pair{R"({"chosen": "1", "rejected": "2"})", "no prompt"}}) {
    std::ofstream(file) << R"({"prompt": "1", "chosen": "2", "rejected": "3"})"
                        << "\n"
                        << row << "\n";
    Process run(dpo_run(folder, {"actor_train.data_args.file_name=[" + file + "]"}), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    EXPECT_NE(run.err().find(file + ":2: "), std::string::npos) << run.err();
    EXPECT_NE(run.err().find(words), std::string::npos) << run.err();
  }
}

}  // namespace
}  // namespace cohort
