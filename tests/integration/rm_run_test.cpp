// Pipeline rm as a user runs it: a model that is drawn, a language model's folder, a resume, and
// the exported classifier against the scores of training.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/byte_folder.hpp"
#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

std::vector<std::string> rm_run(const TempFolder& folder,
                                const std::vector<std::string>& more = {}) {
  return test::pairs_run("rm_arithmetic", folder, more);
}

TEST(RewardModel, AKilledRunResumesAndTwoCardsHaveItsBits) {
  TempFolder two;
  const auto expected = test::expect_same_bits_after_a_kill(rm_run);
  Process cards(rm_run(two, {"num_gpus_per_node=2", "actor_train.device_mapping=[0,1]",
                             "actor_train.training_args.gradient_accumulation_steps=1"}),
                two);
  ASSERT_EQ(cards.wait(), 0) << cards.err();
  EXPECT_EQ(hashes(run_folder(cards)), expected);
}

/// A folder's pairs are learnt; the exported classifier gives their ids the scores of training:
/// their means over the pairs are val/reward_chosen and val/reward_rejected.
TEST(RewardModel, AFolderLearnsAndItsExportGivesTheScoresOfTraining) {
  TempFolder folder;
  const std::filesystem::path model = folder.path() / "model", out = folder.path() / "exported";
  tests::write_byte_model(model);
  const std::string file = (folder.path() / "pairs.jsonl").string();
  const std::string ids_file = (folder.path() / "ids.jsonl").string();
  {
    std::ofstream rows(file);
    std::ofstream tokens(ids_file);
    for (int i = 0; i < 24; ++i) {
      const std::string prompt = std::to_string(i % 7) + "?";
      const std::array<std::string, 2> answers = {"yes" + std::to_string(i % 5),
                                                  std::to_string(i % 4) + "no"};
      rows << nlohmann::json{{"prompt", prompt}, {"chosen", answers[0]}, {"rejected", answers[1]}}
           << "\n";
      for (const std::string& answer : answers) {
        std::vector<int32_t> row;
        const auto add = [&row](const std::string& text) {
          for (const char c : text) row.push_back(static_cast<unsigned char>(c));
        };
        row.push_back(tests::k_im_start);
        add("user\n" + prompt);
        row.push_back(tests::k_im_end);
        add("\n");
        row.push_back(tests::k_im_start);
        add("assistant\n" + answer);
        row.push_back(tests::k_im_end);
        tokens << nlohmann::json{{"ids", row}} << "\n";
      }
    }
  }
  Process run(rm_run(folder, {"~model", "pretrain=" + model.string(),
                              "actor_train.data_args.template=native",
                              "actor_train.data_args.file_name=[" + file + "]",
                              "validation.data_args.file_name=[" + file + "]", "sequence_length=64",
                              "max_steps=12", "eval_steps=12"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = test::metric_rows(run_folder(run));
  EXPECT_NEAR(rows[0]["val/loss"].get<double>(), std::log(2.0), 1e-6) << "the score begins at 0";
  EXPECT_GE(rows[12]["val/accuracy"].get<double>(), 0.95) << rows[12];
  EXPECT_TRUE(rows[1].contains("reward_model/margin")) << rows[1];

  Process exported(
      {test::binary("actor-node"), "export", run_folder(run), out.string(), "--dtype", "f32"},
      folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  const auto config = nlohmann::json::parse(std::ifstream(out / "config.json"));
  EXPECT_EQ(config.at("architectures").front(), "Qwen2ForSequenceClassification");
  EXPECT_EQ(config.at("id2label").size(), 1U);
  Process scores({test::binary("actor-node"), "logprobs", out.string(), ids_file}, folder);
  ASSERT_EQ(scores.wait(), 0) << scores.err();
  std::istringstream lines(scores.out());
  double sum[2] = {0, 0};
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    sum[count % 2] += nlohmann::json::parse(line).at("score").get<double>();
  ASSERT_EQ(count, 48) << scores.out();
  EXPECT_NEAR(sum[0] / 24, rows[12]["val/reward_chosen"].get<double>(), 1e-4);
  EXPECT_NEAR(sum[1] / 24, rows[12]["val/reward_rejected"].get<double>(), 1e-4);
}

}  // namespace
}  // namespace cohort
