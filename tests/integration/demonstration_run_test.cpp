// Demonstrations in the groups of prompts (LUFFY) as a user runs them: a policy that never scores
// by itself learns from the rows' own answers; over processes the same bits; what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint32_t k_group_size = 4;

/// Additions whose answers are scored by their first signs: nobody guesses "9+9+0=" by chance.
std::vector<std::string> run_of(const TempFolder& folder,
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"rollout_batch_size=8",
                                        "num_return_sequences_in_group=4",
                                        "demonstration_key=answer",
                                        "actor_train.pg_variant=luffy",
                                        "actor_train.training_args.learning_rate=2.0e-2",
                                        "actor_train.training_args.lr_scheduler_type=constant",
                                        "actor_train.training_args.warmup_steps=0",
                                        "warm_start.steps=0",
                                        "max_steps=72",
                                        "eval_steps=-1",
                                        "~rewards.answer",
                                        "+rewards.answer.type=format",
                                        "+rewards.answer.args={pattern: '^[0-9][+][0-9][+]0='}"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::small_run(
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml", folder,
      overrides);
}

TEST(Demonstrations, StandInTheirGroupsAndTeachWhatNobodySamples) {
  TempFolder folder;
  Process run(run_of(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string path = test::run_folder(run);
  size_t demonstrations = 0;
  for (const proto::Trajectory& t : test::recorded_trajectories(path)) {
    EXPECT_EQ(proto::is_demonstration(t), t.key.index + 1 == k_group_size);
    if (!proto::is_demonstration(t)) continue;
    ++demonstrations;
    EXPECT_EQ(t.score, 1) << t.turns.back().response;
    EXPECT_TRUE(std::ranges::all_of(t.behavior_logp, [](float x) { return x == 0; }));
  }
  EXPECT_EQ(demonstrations, 72U * 8);
  const auto rows = test::metric_rows(path);
  ASSERT_EQ(rows.size(), 73U);
  const auto number = [&](size_t row, const char* key) { return rows[row].at(key).get<double>(); };
  EXPECT_EQ(number(1, "reward/mean"), 0) << "of the sampled answers alone";
  EXPECT_EQ(number(1, "reward/demonstration/mean"), 1);
  EXPECT_EQ(number(1, "critic/mixed_groups"), 1);
  double best = 0;
  for (size_t row = 49; row < rows.size(); ++row) best = std::max(best, number(row, "reward/mean"));
  EXPECT_GT(best, 0.4);
}

TEST(Demonstrations, NoLayoutOfProcessesChangesAHash) {
  TempFolder folder, other;
  const std::vector<std::string> few = {"max_steps=3"};
  Process run(run_of(folder, few), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  Process spread(test::in_processes(run_of(other, {"max_steps=3", "num_gpus_per_node=3",
                                                   "actor_infer.device_mapping=list(range(1,3))"}),
                                    3),
                 other);
  ASSERT_EQ(spread.wait(), 0) << spread.err();
  EXPECT_EQ(test::hashes(test::run_folder(spread)), test::hashes(test::run_folder(run)));
}

TEST(Demonstrations, WhatCannotStandBesideThemIsRefused) {
  TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    Process run(run_of(folder, more), folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    EXPECT_NE(run.err().find(why), std::string::npos) << run.err();
  };
  refused({"actor_train.pg_variant=ppo"}, "demonstration_key: needs actor_train.pg_variant: luffy");
  refused({"num_return_sequences_in_group=1"}, "is compared with sampled answers");
}

}  // namespace
}  // namespace cohort
