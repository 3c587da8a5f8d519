// Distillation as a user runs it: a policy that samples learns from a teacher, on a card of the
// teacher's own and on a shared one, over processes and after a kill; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::TempFolder;

/// A policy that has imitated players of the lake: the folder of its checkpoint.
std::string trained_teacher(const TempFolder& folder) {
  Process run(test::tiny_run(folder, {"max_steps=1", "eval_steps=-1", "seed=7",
                                      "warm_start.steps=60", "warm_start.learning_rate=1.0e-2"}),
              folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  return test::run_folder(run) + "/checkpoints/step_1";
}

/// A tiny run that learns from `teacher` alone.
std::vector<std::string> pure_run(const TempFolder& folder, const std::string& teacher,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {
      "is_pure_opd=true",
      "warm_start.steps=0",
      "whiten_advantages=false",
      "num_gpus_per_node=3",
      "teacher.device_mapping=list([2])",
      "teacher.model_args.model_name_or_path=" + teacher,
      "actor_train.training_args.lr_scheduler_type=constant",
      "actor_train.training_args.learning_rate=1.0e-2",
  };
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::tiny_run(folder, overrides);
}

std::map<uint64_t, std::string> hashes_of(const TempFolder& folder,
                                          const std::vector<std::string>& command) {
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  return hashes(test::run_folder(run));
}

TEST(OnPolicyDistillation, BringsThePolicyToItsTeacher) {
  TempFolder folder, other;
  const std::string teacher = trained_teacher(folder);
  Process run(pure_run(other, teacher, {"max_steps=36", "eval_steps=-1", "save_steps=36"}), other);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto rows = test::metric_rows(path);
  ASSERT_EQ(rows.size(), 37U);
  const auto number = [&](size_t row, const char* key) { return rows[row].at(key).get<double>(); };
  EXPECT_GT(number(1, "distillation/teacher_kl"), 0.1);
  EXPECT_LT(number(36, "distillation/teacher_kl"), 0.1 * number(1, "distillation/teacher_kl"));
  EXPECT_GT(number(36, "distillation/agreement"), number(1, "distillation/agreement"));
  for (size_t i = 1; i < rows.size(); ++i)
    EXPECT_NEAR(number(i, "critic/advantages/mean"), -number(i, "distillation/teacher_kl"), 1e-5);
  // The stream has what the advantages came from, and the plan the teacher's bytes.
  Process exported({test::binary("traj"), "export", path, "--jsonl", "-", "--step", "36"}, other);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::istringstream lines(exported.out());
  size_t taught = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto t = nlohmann::json::parse(line);
    if (t.at("kind") == "train" && t.at("teacher_logp").size() == t.at("tokens").size()) ++taught;
  }
  EXPECT_EQ(taught, 32U);
  const auto plan = nlohmann::json::parse(test::slurp(path + "/plan.json"));
  const bool is_planned = std::ranges::any_of(plan.at("roles"), [](const auto& role) {
    return role["role"] == "teacher" && role["bytes_per_card"].contains("ref_params");
  });
  EXPECT_TRUE(is_planned);
}

// Beside a reference, and on shared cards, the teacher has its turn; the numbers are the same.
TEST(OnPolicyDistillation, NoLayoutOfCardsAndProcessesChangesAHash) {
  TempFolder folder, other;
  const std::string teacher = trained_teacher(folder);
  const std::vector<std::string> mixed = {"is_pure_opd=false",
                                          "use_opd=true",
                                          "opd_kl_coef=0.5",
                                          "use_kl_loss=true",
                                          "kl_loss_coef=0.1",
                                          "num_gpus_per_node=4",
                                          "reference.device_mapping=list([3])"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), mixed.begin(), mixed.end());
    return more;
  };
  const auto expected = hashes_of(other, pure_run(other, teacher, with({})));
  ASSERT_EQ(expected.size(), 5U);
  const std::vector<std::string> two_of_each = {"num_gpus_per_node=6",
                                                "teacher.device_mapping=list([2,4])",
                                                "reference.device_mapping=list([3,5])"};
  EXPECT_EQ(hashes_of(other, test::in_processes(pure_run(other, teacher, with(two_of_each)), 4)),
            expected);
  EXPECT_EQ(hashes_of(other, pure_run(other, teacher,
                                      with({"placement.mode=timeshare",
                                            "actor_infer.device_mapping=list([0])",
                                            "teacher.device_mapping=list([0])"}))),
            expected);
}

TEST(OnPolicyDistillation, ATeacherThatDiesBeginsAgain) {
  TempFolder folder, whole, other;
  const std::string teacher = trained_teacher(folder);
  const auto expected = hashes_of(whole, pure_run(whole, teacher));
  auto command = test::in_processes(pure_run(other, teacher), 3);
  command.insert(command.begin() + 2, {"--restarts", "1"});
  Process run(test::with_failpoint(command, "teacher.computed:3:kill", other.path() / "claim"),
              other);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_TRUE(test::claimed_at(other.path() / "claim"));
  EXPECT_EQ(hashes(test::run_folder(run)), expected);
}

// The teacher is the policy's own start: it differs by what it reads, and by nothing else.
TEST(OnPolicyDistillation, ATeacherThatReadsTheSolutionIsThePolicyWithoutIt) {
  TempFolder folder, other;
  Process first(test::addition_run(folder.path(), "~", {"warm_start.steps=20"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err() << first.out();
  const std::string start = test::run_folder(first) + "/checkpoints/step_1";
  const auto rows = [&](const std::string& name, const std::string& solution) {
    std::ofstream file(other.path() / name);
    for (int a = 10; a < 20; ++a)
      file << nlohmann::json{{"prompt", std::to_string(a) + "+11="},
                             {"ground_truth", std::to_string(a + 11)},
                             {"tag", "sum"},
                             {"reference_solution", solution}}
           << "\n";
    return (other.path() / name).string();
  };
  const auto kl = [&](const std::string& file) {
    Process run(
        test::addition_run(
            other.path(), start,
            {"opsd_mode=true", "opsd_teacher_template='{solution}{problem}'",
             "actor_train.data_args.file_name=[" + file + "]",
             "actor_train.data_args.prompt=prompt", "rewards.answer.tag_included=[sum]",
             "num_gpus_per_node=3", "sequence_length=160", "prompt_length=8",
             "teacher.device_mapping=list([2])", "teacher.model_args.model_name_or_path=" + start}),
        other);
    EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
    return test::metric_rows(test::run_folder(run))[1].at("distillation/teacher_kl").get<double>();
  };
  EXPECT_NEAR(kl(rows("empty.jsonl", "")), 0, 1e-6);
  EXPECT_GT(kl(rows("hints.jsonl", "19+19=38")), 1e-3);
}

TEST(OnPolicyDistillation, WhatCannotRunIsRefused) {
  TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    Process run(pure_run(folder, "/nowhere", more), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    EXPECT_NE(run.err().find(why), std::string::npos) << run.err();
  };
  refused({}, "teacher.model_args.model_name_or_path: no folder '/nowhere'");
  refused({"teacher.model_args.model_name_or_path="}, "needs a teacher: name its folder");
}

}  // namespace
}  // namespace cohort
