// ReMax as a user runs it: a greedy answer beside the others of a group, recorded, scored, and not
// trained on.
#include <gtest/gtest.h>

#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint32_t k_remax_groups = 8, k_remax_group_size = 4;

std::vector<std::string> remax_run(const TempFolder& folder,
                                   const std::vector<std::string>& more = {}) {
  return test::paid_for_a_seven("arithmetic_rlvr.yaml", folder,
                                {"adv_estimator=remax", "max_steps=2"}, more);
}

TEST(Remax, EachGroupHasAGreedyAnswerThatNobodyTrainsOn) {
  TempFolder folder;
  Process run(remax_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string path = test::run_folder(run);
  std::map<uint64_t, uint32_t> greedy, sampled;
  double sum = 0;
  for (const proto::Trajectory& t : test::recorded_trajectories(path)) {
    if (t.key.kind != proto::TrajectoryKind::train) continue;
    EXPECT_EQ(t.is_greedy, t.key.index == k_remax_group_size);
    ++(t.is_greedy ? greedy : sampled)[t.key.step];
    if (t.is_greedy && t.key.step == 1) sum += t.score;
  }
  const auto rows = test::metric_rows(path);
  ASSERT_EQ(rows.size(), 3U);
  for (uint64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(greedy[step], k_remax_groups);
    EXPECT_EQ(sampled[step], k_remax_groups * k_remax_group_size);
  }
  EXPECT_NEAR(rows[1].at("reward/greedy/mean").get<double>(), sum / k_remax_groups, 1e-9);
  EXPECT_NE(rows[1].at("param_hash"), rows[0].at("param_hash"));
  TempFolder other;
  const std::vector<std::string> spread = {"num_gpus_per_node=3",
                                           "actor_infer.device_mapping=list(range(1,3))",
                                           "max_running_requests=4"};
  Process again(test::in_processes(remax_run(other, spread), 3), other);
  ASSERT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(test::hashes(test::run_folder(again)), test::hashes(path));
}

}  // namespace
}  // namespace cohort
