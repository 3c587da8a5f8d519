#include <gtest/gtest.h>

#include "runtime/doctor/rules/hccl_collectives.hpp"
#include "tests/support/healthy_cluster.hpp"

namespace cohort::test {
namespace {

using namespace doctor;

using Strings = std::vector<std::string>;

TEST(HcclRules, H07TwoProcessesOnOneDevice) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  EXPECT_TRUE(is_ok(check_h07(cluster)));
  cluster.processes[5].device_id = 4;
  auto found = check_h07(cluster);
  EXPECT_EQ(briefs(found), Strings{"error host0 card 4 actor_train.device_mapping"});
  EXPECT_EQ(found[0].seen, "ranks 4 and 5 share the device");
}

TEST(HcclRules, H07DeviceThatIsNotThere) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.processes[7].device_id = 9;
  EXPECT_EQ(briefs(check_h07(cluster)), Strings{"error host0 card 9 actor_train.device_mapping"});
}

TEST(HcclRules, H07MappingBeyondTheNodesOfTheJob) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.processes.clear();
  add_role(cluster, "actor_infer", {ids(0, 2), ids(0, 2)});
  auto found = check_h07(cluster);
  EXPECT_EQ(briefs(found), Strings{"error host0 actor_infer.device_mapping"});
  EXPECT_EQ(found[0].seen, "needs 2 nodes of 8 cards");
  cluster.hosts[0].env["WORLD_SIZE"] = "2";
  EXPECT_TRUE(is_ok(check_h07(cluster)));
}

TEST(HcclRules, H07RanksWorldSizeAndMaster) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 2);
  cluster.processes[3].rank = 1;  // as DistributedSampler(rank=local_rank) would have it
  auto found = check_h07(cluster);
  EXPECT_EQ(briefs(found), (Strings{"error host1 card 1 actor_train.rank",
                                    "error host1 card 1 actor_train.rank"}));
  EXPECT_EQ(found[0].wanted, "node_rank*nproc_per_node + local_rank = 1*2 + 1 = 3");
  cluster = healthy_cluster(Series::a2, 2, 2);
  cluster.processes[2].world_size = 2;
  cluster.processes[3].master_port = 6381;
  EXPECT_EQ(briefs(check_h07(cluster)), (Strings{"error host1 card 0 actor_train.world_size",
                                                 "error host1 card 1 actor_train.MASTER_ADDR"}));
}

TEST(HcclRules, H07RendezvousOfTheEnvironment) {
  struct Case {
    const char* name;
    const char* value;
    const char* expected;
  };
  for (const Case& c : {Case{"RANK", "2", "error host1 RANK"},
                        {"RANK", "", "error host1 RANK"},
                        {"RANK", "0", "error host1 RANK"},  // host0 has it
                        {"WORLD_SIZE", "two", "error host1 WORLD_SIZE"},
                        {"MASTER_ADDR", "10.9.0.2", "error host1 MASTER_ADDR"},
                        {"MASTER_PORT", "6381", "error host1 MASTER_PORT"}}) {
    Cluster cluster = healthy_cluster(Series::a2, 2, 8);
    cluster.hosts[1].env[c.name] = c.value;
    EXPECT_EQ(briefs(check_h07(cluster)), Strings{c.expected}) << c.name << "=" << c.value;
  }
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  for (Host& host : cluster.hosts) host.env["MASTER_ADDR"] = "127.0.0.1";
  EXPECT_EQ(briefs(check_h07(cluster)),
            (Strings{"error host0 MASTER_ADDR", "error host1 MASTER_ADDR"}));
}

TEST(HcclRules, H08NamesTheRankThatLeftTheSequence) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 4);
  cluster.hashes = {{0, {1, 2, 3}}, {1, {1, 2, 3}}, {2, {1, 9, 9}}, {3, {1, 2, 3}}};
  auto found = check_h08(cluster);
  EXPECT_EQ(briefs(found), Strings{"error collective sequence"});
  EXPECT_EQ(found[0].seen, "rank 2 left the sequence of the others at step 1");
  cluster.hashes = {{0, {1}}, {1, {1}}};
  EXPECT_TRUE(is_ok(check_h08(cluster)));
  cluster.hashes.clear();
  EXPECT_TRUE(has(check_h08(cluster), Severity::skipped));
}

TEST(HcclCollectives, DivergenceOfARankThatStoppedAndOfATie) {
  auto stopped = find_divergence({{0, {1, 2}}, {1, {1}}, {2, {1, 2}}});
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->step, 1u);
  EXPECT_EQ(stopped->ranks, std::vector<uint32_t>{1});
  auto tie = find_divergence({{0, {1}}, {1, {2}}});
  ASSERT_TRUE(tie);
  EXPECT_TRUE(tie->is_tie);
  EXPECT_EQ(tie->ranks, std::vector<uint32_t>{1});
  EXPECT_FALSE(find_divergence({}));
  EXPECT_FALSE(find_divergence({{0, {1, 2}}}));
}

TEST(HcclCollectives, HashFollowsOrderCountDtypeAndOp) {
  CollectiveCall base{Collective::allreduce, 1024, Dtype::fp32, ReduceOp::sum};
  uint64_t hash = collective_hash(0, base);
  for (CollectiveCall other : {CollectiveCall{Collective::reduce_scatter, 1024, Dtype::fp32},
                               {Collective::allreduce, 1025, Dtype::fp32},
                               {Collective::allreduce, 1024, Dtype::bf16},
                               {Collective::allreduce, 1024, Dtype::fp32, ReduceOp::max}}) {
    EXPECT_NE(collective_hash(0, other), hash);
    EXPECT_NE(collective_hash(hash, other), collective_hash(collective_hash(0, other), base));
  }
  // A gather has no op: what a caller leaves there does not matter.
  EXPECT_EQ(collective_hash(0, {Collective::allgather, 8, Dtype::fp32, ReduceOp::max}),
            collective_hash(0, {Collective::allgather, 8, Dtype::fp32, ReduceOp::sum}));
  // Logged and compared between hosts: the value itself is fixed.
  EXPECT_EQ(collective_hash(0, {Collective::allreduce, 0, Dtype::int8, ReduceOp::sum}),
            collective_hash(0, {Collective::allreduce, 0, Dtype::int8, ReduceOp::sum}));
}

TEST(HcclRules, H14TimeoutsCoverTheSkew) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  EXPECT_TRUE(is_ok(check_h14(cluster)));
  cluster.hosts[0].env.erase("HCCL_CONNECT_TIMEOUT");  // 120 s by default
  auto found = check_h14(cluster);
  EXPECT_EQ(briefs(found), Strings{"warning host0 HCCL_CONNECT_TIMEOUT"});
  EXPECT_EQ(found[0].seen, "not set: 120 s");
  EXPECT_EQ(found[0].mend,
            "export HCCL_CONNECT_TIMEOUT=960  (or system_envs.HCCL_CONNECT_TIMEOUT=\"960\")");
  cluster = healthy_cluster(Series::a2, 2, 8);
  cluster.phase_skew_s = 5000;
  EXPECT_EQ(briefs(check_h14(cluster)),
            (Strings{"warning host0 HCCL_EXEC_TIMEOUT", "warning host1 HCCL_EXEC_TIMEOUT"}));
  for (Host& host : cluster.hosts) host.env["HCCL_EXEC_TIMEOUT"] = "0";  // no limit
  EXPECT_TRUE(is_ok(check_h14(cluster)));
}

TEST(HcclRules, H14ValuesThatHcclDoesNotTake) {
  for (const char* value : {"60", "7201", "1h", "-5", "3600.5"}) {
    Cluster cluster = healthy_cluster(Series::a2, 1, 8);
    cluster.hosts[0].env["HCCL_CONNECT_TIMEOUT"] = value;
    auto found = check_h14(cluster);
    EXPECT_EQ(briefs(found), Strings{"warning host0 HCCL_CONNECT_TIMEOUT"}) << value;
    EXPECT_EQ(found[0].wanted, "whole seconds, 120 to 7200");
  }
}

TEST(HcclRules, H15VersionsAreTheSameEverywhere) {
  Cluster cluster = healthy_cluster(Series::a2, 3, 8);
  EXPECT_TRUE(is_ok(check_h15(cluster)));
  cluster.hosts[1].versions.driver = "24.1.rc3";
  cluster.hosts[2].versions.cann = "8.5.0";
  cluster.hosts[2].env["NPU_ASD_ENABLE"] = "1";
  auto found = check_h15(cluster);
  EXPECT_EQ(briefs(found), (Strings{"warning host1 driver", "warning host2 CANN",
                                    "warning host2 NPU_ASD_ENABLE"}));
  EXPECT_EQ(found[0].wanted, "\"25.3.rc1\" as on host0");
}

TEST(HcclRules, H15MissingCannAndUndescribedHosts) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].versions.cann.clear();
  EXPECT_EQ(briefs(check_h15(cluster)), Strings{"warning host0 CANN"});
  cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.host_count = 4;
  EXPECT_TRUE(has(check_h15(cluster), Severity::skipped));
}

}  // namespace
}  // namespace cohort::test
