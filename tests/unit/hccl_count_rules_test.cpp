#include <gtest/gtest.h>

#include "runtime/doctor/rules/hccl_collectives.hpp"
#include "runtime/doctor/rules/hccl_products.hpp"
#include "tests/support/healthy_cluster.hpp"

namespace cohort::test {
namespace {

using namespace doctor;

/// One role on the given devices of each host of a healthy cluster.
Cluster with_role(Series series, const std::vector<std::vector<uint32_t>>& devices,
                  uint32_t cards) {
  Cluster cluster = healthy_cluster(series, devices.size(), cards);
  cluster.processes.clear();
  add_role(cluster, "actor_train", devices);
  return cluster;
}

using Strings = std::vector<std::string>;

TEST(HcclRules, HealthyClustersOfEverySeriesAreOkInEveryRule) {
  for (auto [series, hosts, cards] : {std::tuple(Series::training, 2, 8),
                                      {Series::a2, 2, 8},
                                      {Series::a2, 4, 16},
                                      {Series::a3, 2, 16},
                                      {Series::a3, 1, 16},
                                      {Series::training, 1, 8}}) {
    Cluster cluster =
        healthy_cluster(series, static_cast<size_t>(hosts), static_cast<uint32_t>(cards));
    for (const Finding& x : check_hccl(cluster))
      EXPECT_TRUE(x.severity == Severity::ok || x.severity == Severity::skipped)
          << to_string(series) << ": " << x.rule << " " << brief(x) << ": " << x.seen;
  }
}

TEST(HcclRules, EveryRuleSpeaksOnceAtLeastAndInOrder) {
  std::string last;
  std::set<std::string> rules;
  for (const Finding& x : check_hccl(Cluster{})) {
    EXPECT_GE(x.rule, last);
    last = x.rule;
    rules.insert(x.rule);
    EXPECT_NE(x.severity, Severity::ok) << x.rule << " says ok of nothing (RULE-1)";
  }
  EXPECT_EQ(rules.size(), 16u);
}

TEST(HcclRules, H01TrainingServerTakesOneTwoFourOrEight) {
  for (uint32_t count : {1, 2, 4, 8})
    EXPECT_TRUE(is_ok(check_h01(with_role(Series::training, {ids(0, count)}, 8)))) << count;
  for (uint32_t count : {3, 5, 6, 7}) {
    auto found = check_h01(with_role(Series::training, {ids(0, count)}, 8));
    EXPECT_EQ(briefs(found), Strings{"error host0 actor_train.device_mapping"}) << count;
  }
  auto found = check_h01(with_role(Series::training, {ids(0, 3)}, 8));
  EXPECT_EQ(found[0].wanted, "1, 2, 4, 8 cards; nearest: 2 or 4");
  EXPECT_FALSE(has(check_h01(with_role(Series::a2, {ids(0, 3)}, 8)), Severity::error));
}

TEST(HcclRules, H02TwoAndFourCardJobsStayInOneRing) {
  EXPECT_TRUE(is_ok(check_h02(with_role(Series::training, {{0, 3}}, 8))));
  EXPECT_TRUE(is_ok(check_h02(with_role(Series::training, {{4, 5, 6, 7}}, 8))));
  EXPECT_TRUE(is_ok(check_h02(with_role(Series::training, {ids(0, 8)}, 8))));
  EXPECT_EQ(briefs(check_h02(with_role(Series::training, {{3, 4}}, 8))),
            Strings{"error host0 actor_train.device_mapping"});
  EXPECT_EQ(briefs(check_h02(with_role(Series::training, {{2, 3, 4, 5}}, 8))),
            Strings{"error host0 actor_train.device_mapping"});
  EXPECT_TRUE(has(check_h02(with_role(Series::a2, {{3, 4}}, 8)), Severity::skipped));
}

TEST(HcclRules, H03TrainingClusterIsAnAllowedCountTimesServers) {
  EXPECT_TRUE(is_ok(check_h03(with_role(Series::training, {ids(0, 4), ids(0, 4)}, 8))));
  auto found = check_h03(with_role(Series::training, {ids(0, 4), ids(0, 2)}, 8));
  EXPECT_EQ(briefs(found), Strings{"error actor_train.device_mapping"});
  EXPECT_EQ(found[0].seen, "6 cards on 2 servers");
  auto many = check_h03(with_role(Series::training, std::vector(513, ids(0, 1)), 1));
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].wanted, "at most 512 servers of the training series");
  EXPECT_TRUE(is_ok(check_h03(with_role(Series::training, std::vector(512, ids(0, 1)), 1))));
}

TEST(HcclRules, H04PerServerMaximumIsTheProducts) {
  EXPECT_TRUE(is_ok(check_h04(with_role(Series::a2, {ids(0, 7)}, 8))));
  EXPECT_TRUE(is_ok(check_h04(with_role(Series::a2, {ids(0, 16)}, 16))));  // Box16
  EXPECT_TRUE(is_ok(check_h04(with_role(Series::a3, {ids(0, 16)}, 16))));  // 8 NPUs of 2 dies
  auto found = check_h04(with_role(Series::a3, {ids(0, 17)}, 16));
  EXPECT_EQ(briefs(found), Strings{"error host0 actor_train.device_mapping"});
  auto many = check_h04(with_role(Series::a2, std::vector(1153, ids(0, 1)), 1));
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].wanted, "at most 1152 servers of the A2 series");
}

TEST(HcclRules, H05ServersThatAreNoPowerOfTwoWarn) {
  for (size_t servers : {1, 2, 4, 16})
    EXPECT_TRUE(is_ok(check_h05(healthy_cluster(Series::a2, servers, 8)))) << servers;
  auto found = check_h05(healthy_cluster(Series::a2, 6, 8));
  EXPECT_EQ(briefs(found), Strings{"warning actor_train.device_mapping"});
  EXPECT_EQ(found[0].wanted, "a power of two is fastest; nearest: 4 or 8");
}

TEST(HcclRules, H06UnequalServersWarnOnA2AndAreRefusedOnTraining) {
  EXPECT_TRUE(is_ok(check_h06(healthy_cluster(Series::a2, 2, 8))));
  auto a2 = check_h06(with_role(Series::a2, {ids(0, 8), ids(0, 4)}, 8));
  EXPECT_EQ(briefs(a2), Strings{"warning actor_train.device_mapping"});
  EXPECT_EQ(a2[0].seen, "8 on host0, 4 on host1");
  EXPECT_TRUE(
      has(check_h06(with_role(Series::training, {ids(0, 8), ids(0, 4)}, 8)), Severity::error));
}

TEST(HcclRules, GuessedJobsOnlyWarn) {
  Cluster cluster = with_role(Series::training, {ids(0, 3)}, 8);
  cluster.is_job_known = false;
  EXPECT_EQ(briefs(check_h01(cluster)), Strings{"warning host0 actor_train.device_mapping"});
}

TEST(HcclRules, H16Bf16IsRefusedOnTheTrainingSeriesOnly) {
  Cluster cluster = healthy_cluster(Series::training, 1, 8);
  EXPECT_TRUE(is_ok(check_h16(cluster)));
  cluster.dtypes = {{"actor_train.model_args.dtype", Dtype::bf16},
                    {"reference.model_args.dtype", Dtype::fp16}};
  auto found = check_h16(cluster);
  EXPECT_EQ(briefs(found), Strings{"error actor_train.model_args.dtype"});
  EXPECT_EQ(found[0].mend, "actor_train.model_args.dtype=fp16");
  cluster.series = Series::a2;
  EXPECT_TRUE(is_ok(check_h16(cluster)));
}

TEST(HcclProducts, SeriesFollowsNameMemoryAndDies) {
  struct Case {
    const char* name;
    uint64_t hbm_mib;
    uint32_t dies;
    Series series;
  };
  for (const Case& c : {Case{"910A", 32768, 1, Series::training},
                        {"910ProB", 32768, 1, Series::training},
                        {"910PremiumA", 32768, 1, Series::training},
                        {"910B", 32768, 1, Series::training},
                        {"910B", 65536, 1, Series::a2},
                        {"910B1", 65536, 1, Series::a2},
                        {"910B2C", 65536, 1, Series::a2},
                        {"910B4-1", 32768, 1, Series::a2},
                        {"Ascend 910B3", 65536, 1, Series::a2},
                        {"Ascend910", 65536, 2, Series::a3},
                        {"Ascend910_9391", 65536, 1, Series::a3},
                        {"910C", 65536, 2, Series::a3},
                        {"Ascend910", 32768, 1, Series::training},
                        {"Ascend910_9589", 65536, 1, Series::unknown},
                        {"310P3", 21527, 1, Series::unknown},
                        {"", 0, 0, Series::unknown}})
    EXPECT_EQ(series_of(c.name, c.hbm_mib, c.dies), c.series) << c.name << " " << c.hbm_mib;
}

TEST(HcclProducts, TheSmallestServerThatHoldsTheCards) {
  EXPECT_EQ(find_product(Series::a2, 8)->cards_max, 8u);
  EXPECT_EQ(find_product(Series::a2, 9)->cards_max, 16u);
  EXPECT_EQ(find_product(Series::a2, 99)->cards_max, 16u);
  EXPECT_EQ(find_product(Series::unknown, 8), nullptr);
}

TEST(HcclCollectives, DtypeTableOfTheGuideAndTheApi) {
  for (Collective c : {Collective::allreduce, Collective::reduce_scatter}) {
    for (Dtype d : {Dtype::int8, Dtype::int32, Dtype::fp16, Dtype::fp32})
      EXPECT_TRUE(is_supported(Series::training, c, d)) << to_string(d);
    for (Dtype d : {Dtype::bf16, Dtype::int16, Dtype::uint8, Dtype::fp64})
      EXPECT_FALSE(is_supported(Series::training, c, d)) << to_string(d);
    EXPECT_TRUE(is_supported(Series::a3, c, Dtype::bf16));
    EXPECT_FALSE(is_supported(Series::a3, c, Dtype::bf16, ReduceOp::prod));
    EXPECT_FALSE(is_supported(Series::a2, c, Dtype::int16, ReduceOp::prod));
    EXPECT_TRUE(is_supported(Series::a2, c, Dtype::fp32, ReduceOp::prod));
  }
  EXPECT_TRUE(is_supported(Series::training, Collective::alltoall, Dtype::fp64));
  EXPECT_FALSE(is_supported(Series::training, Collective::allgather, Dtype::bf16));
}

}  // namespace
}  // namespace cohort::test
