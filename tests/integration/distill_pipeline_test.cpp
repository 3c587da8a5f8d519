// Pipeline distill as a user runs it: the shipped config with a teacher of its own making, a kill,
// two cards, other objectives; and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;

/// A policy that has read worked additions, wider than its students: the folder of its checkpoint.
std::string made_teacher(const TempFolder& folder) {
  Process run(test::rows_run(
                  "sft_arithmetic", folder,
                  {"++max_steps=40", "eval_steps=-1", "save_steps=40", "model.hidden_size=32",
                   "model.num_attention_heads=4", "sft_train.training_args.learning_rate=1.0e-2"}),
              folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  return run_folder(run) + "/checkpoints/step_40";
}

/// The teacher is made once, for all tests of this file.
class DistillPipeline : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    home_ = std::make_unique<TempFolder>();
    teacher_ = made_teacher(*home_);
  }
  static void TearDownTestSuite() { home_.reset(); }

  static std::vector<std::string> command(const TempFolder& folder,
                                          const std::vector<std::string>& more = {}) {
    std::vector<std::string> overrides = {"teacher_pretrain=" + teacher_,
                                          "student.training_args.learning_rate=1.0e-2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return test::rows_run("distill_arithmetic", folder, overrides);
  }

  static std::unique_ptr<TempFolder> home_;
  static std::string teacher_;
};

std::unique_ptr<TempFolder> DistillPipeline::home_;
std::string DistillPipeline::teacher_;

TEST_F(DistillPipeline, EveryObjectiveBringsTheStudentToItsTeacher) {
  for (const char* objective : {"forward_kl", "reverse_kl", "adaptive_kl", "skewed_forward_kl",
                                "skewed_reverse_kl", "js_divergence", "gkd"}) {
    TempFolder folder;
    Process run(command(folder, {std::string("kd_objective=") + objective, "++max_steps=30",
                                 "eval_steps=30", "save_steps=30", "distill_loss_weight=1"}),
                folder);
    ASSERT_EQ(run.wait(), 0) << objective << run.err() << run.out();
    const auto rows = test::metric_rows(run_folder(run));
    ASSERT_EQ(rows.size(), 31U) << objective;
    const auto apart = [&](size_t step) {
      return rows[step].at("distill/divergence").get<double>();
    };
    EXPECT_LT(apart(30), 0.6 * apart(1)) << objective;
    // The weight is 1: the answers are no part of the loss, and yet the student learns them.
    EXPECT_NEAR(rows[30].at("loss").get<double>(), apart(30), 1e-6) << objective;
    EXPECT_LT(rows[30].at("val/loss"), rows[0].at("val/loss")) << objective;
  }
}

TEST_F(DistillPipeline, AKilledRunResumesWithTheBitsOfOneThatWasNot) {
  test::expect_same_bits_after_a_kill(command);
}

TEST_F(DistillPipeline, CardsAndProcessesChangeNoHash) {
  TempFolder one, two, four;
  Process reference(command(one), one);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  const auto expected = hashes(run_folder(reference));
  ASSERT_EQ(expected.size(), 7U);
  const auto on_cards = [](const char* cards, const char* passes) {
    return std::vector<std::string>{
        std::string("num_gpus_per_node=") + cards,
        std::string("student.device_mapping=list(range(0,") + cards + "))",
        std::string("student.training_args.gradient_accumulation_steps=") + passes};
  };
  Process pair(command(two, on_cards("2", "1")), two);
  ASSERT_EQ(pair.wait(), 0) << pair.err();
  EXPECT_EQ(hashes(run_folder(pair)), expected);
  Process apart(test::in_processes(command(four, on_cards("2", "1")), 2), four);
  ASSERT_EQ(apart.wait(), 0) << apart.err();
  EXPECT_EQ(hashes(run_folder(apart)), expected);
}

TEST_F(DistillPipeline, ThePlanCountsTheTeacherWithItsStudent) {
  TempFolder folder;
  auto words = command(folder);
  words[1] = "plan";
  words.erase(words.begin() + 2);  // --plain
  Process plan(words, folder);
  ASSERT_EQ(plan.wait(), 0) << plan.err();
  EXPECT_NE(plan.out().find("0.85 x forward_kl to the teacher"), std::string::npos) << plan.out();
  EXPECT_NE(plan.out().find("teacher on its cards"), std::string::npos) << plan.out();
}

TEST_F(DistillPipeline, WhatCannotRunIsRefusedByName) {
  TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    Process run(command(folder, more), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    EXPECT_NE(run.err().find(why), std::string::npos) << run.err();
  };
  refused({"teacher_pretrain=~"}, "teacher_pretrain: missing");
  refused({"teacher_pretrain=/nowhere"}, "no folder '/nowhere'");
  refused({"num_gpus_per_node=2", "teacher.device_mapping=list([1])"},
          "other cards than the student's");
  refused({"kd_objective=kl"}, "kd_objective");
  refused({"gkd_beta=1.5"}, "gkd_beta");
}

}  // namespace
}  // namespace cohort
