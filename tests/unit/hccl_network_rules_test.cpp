#include <gtest/gtest.h>

#include "tests/support/healthy_cluster.hpp"

namespace cohort::test {
namespace {

using namespace doctor;

using Strings = std::vector<std::string>;

TEST(HcclRules, H09PortsInUseAreNamed) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  EXPECT_TRUE(is_ok(check_h09(cluster)));
  cluster.hosts[1].listen_ports = std::vector<uint16_t>{22, 60000, 60015, 60016};
  auto found = check_h09(cluster);
  EXPECT_EQ(briefs(found), Strings{"error host1 ports"});
  EXPECT_EQ(found[0].seen, "in use: 60000, 60015");
}

TEST(HcclRules, H09BasePortMovesTheSixteenPorts) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].env["HCCL_IF_BASE_PORT"] = "23456";
  cluster.hosts[0].listen_ports = std::vector<uint16_t>{60000};
  EXPECT_TRUE(is_ok(check_h09(cluster)));  // below the ephemeral range: nothing to reserve
  cluster.hosts[0].listen_ports = std::vector<uint16_t>{23471};
  EXPECT_EQ(briefs(check_h09(cluster)), Strings{"error host0 ports"});
  cluster.hosts[0].env["HCCL_IF_BASE_PORT"] = "65530";
  EXPECT_EQ(briefs(check_h09(cluster)), Strings{"error host0 HCCL_IF_BASE_PORT"});
}

TEST(HcclRules, H09UnreservedPortsOfTheEphemeralRangeWarn) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].reserved_ports = std::vector<PortRange>{{60000, 60010}};
  cluster.hosts[0].is_container = true;
  auto found = check_h09(cluster);
  EXPECT_EQ(briefs(found), Strings{"warning host0 net.ipv4.ip_local_reserved_ports"});
  EXPECT_EQ(found[0].mend,
            "sysctl -w net.ipv4.ip_local_reserved_ports=60000-60015  (in this container: its "
            "network namespace counts)");
  cluster.hosts[0].ephemeral_ports = PortRange{32768, 59999};
  EXPECT_TRUE(is_ok(check_h09(cluster)));
}

TEST(HcclRules, H09MasterPortMustBeFreeOnNodeZero) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  cluster.hosts[0].env["MASTER_PORT"] = "6379";
  EXPECT_EQ(briefs(check_h09(cluster)), Strings{"error host0 MASTER_PORT"});
}

TEST(HcclRules, H10DuplicateAddressNamesBothCardsAndAFreeOne) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  EXPECT_TRUE(is_ok(check_h10(cluster)));
  cluster.hosts[1].cards[5].ip = cluster.hosts[0].cards[2].ip;
  auto found = check_h10(cluster);
  EXPECT_EQ(briefs(found), Strings{"error host1 card 5 device ip"});
  EXPECT_EQ(found[0].seen, "10.20.1.12, as card 2 of host0");
  EXPECT_EQ(found[0].mend, "hccn_tool -i 5 -ip -s address 10.20.2.18 netmask 255.255.0.0");
}

TEST(HcclRules, H10A2NeedsOneSubnet) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].cards[6].ip = "10.21.1.16";
  EXPECT_EQ(briefs(check_h10(cluster)), Strings{"warning host0 card 6 device ip"});  // one server
  cluster = healthy_cluster(Series::a3, 2, 16);
  cluster.hosts[0].cards[0].netmask = "255.255.255.0";
  EXPECT_EQ(briefs(check_h10(cluster)), Strings{"error host0 card 0 device ip"});
}

TEST(HcclRules, H10TrainingPairsRingsAndIndices) {
  Cluster good = healthy_cluster(Series::training, 2, 8);
  EXPECT_TRUE(is_ok(check_h10(good)));
  Cluster pair = good;  // 5 leaves the subnet of 1
  pair.hosts[0].cards[5].ip = "10.77.0.9";
  EXPECT_EQ(briefs(check_h10(pair)), Strings{"error host0 card 5 device ip"});
  Cluster ring = healthy_cluster(Series::training, 2, 4);  // 1 in the subnet of 0
  ring.hosts[0].cards[1].ip = "10.0.0.200";
  auto found = check_h10(ring);
  EXPECT_EQ(briefs(found), (Strings{"error host1 card 1 device ip",  // no longer with host0's
                                    "error host0 card 1 device ip"}));
  EXPECT_EQ(found[1].seen, "10.0.0.200 (subnet 10.0.0.0/24), the subnet of card 0");
  Cluster index = healthy_cluster(Series::training, 2, 1);  // index 0 differs over hosts
  index.hosts[1].cards[0].ip = "10.50.0.2";
  EXPECT_EQ(briefs(check_h10(index)), Strings{"error host1 card 0 device ip"});
}

TEST(HcclRules, H10MissingAddressAndMaskAndUnreadCards) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 2);
  cluster.hosts[0].cards[0].ip.reset();
  cluster.hosts[0].cards[1].netmask = "255.0.255.0";
  EXPECT_EQ(briefs(check_h10(cluster)),
            (Strings{"error host0 card 0 device ip", "error host0 card 1 device ip"}));
  cluster = healthy_cluster(Series::a2, 2, 2);
  cluster.hosts[0].cards[0].is_ip_read = false;
  EXPECT_TRUE(has(check_h10(cluster), Severity::skipped));  // RULE-1
}

TEST(HcclRules, Ipv4IsFourDecimalBytes) {
  EXPECT_EQ(parse_ipv4("10.0.0.1"), 0x0a000001u);
  EXPECT_EQ(parse_ipv4("255.255.255.255"), 0xffffffffu);
  for (const char* text : {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.x", " 1.2.3.4", "1..2.3",
                           "1.2.3.0004", "-1.2.3.4", "10.***.***.2"})
    EXPECT_FALSE(parse_ipv4(text)) << text;
}

TEST(HcclRules, H11LinkHealthLldpAndPingFaults) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  EXPECT_TRUE(is_ok(check_h11(cluster)));
  Host& host = cluster.hosts[0];
  host.cards[0].is_link_up = false;
  host.cards[1].net_health = 3;
  host.cards[2].has_lldp_neighbour = false;
  host.cards[3].pings = {{"10.20.2.10", 33.33}};
  host.cards[4].netdetect = "";
  host.cards[5].health = "Alarm";
  host.cards[6].health = "Warning";
  auto found = check_h11(cluster);
  EXPECT_EQ(briefs(found),
            (Strings{"error host0 card 0 link", "error host0 card 1 net_health",
                     "error host0 card 2 lldp", "error host0 card 3 ping 10.20.2.10",
                     "warning host0 card 4 netdetect", "error host0 card 5 npu-smi health",
                     "warning host0 card 6 npu-smi health"}));
  EXPECT_EQ(found[1].seen, "Unreachable (3)");
}

TEST(HcclRules, H11OneServerJobsOnlyWarnOfTheirIdleNetwork) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].cards[0].is_link_up = false;
  EXPECT_EQ(briefs(check_h11(cluster)), Strings{"warning host0 card 0 link"});
  cluster.is_job_known = false;  // nobody said that it stays on one server
  EXPECT_EQ(briefs(check_h11(cluster)), Strings{"error host0 card 0 link"});
}

TEST(HcclRules, H11TlsNamesTheSmallerSide) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  cluster.hosts[1].cards[7].is_tls_on = true;
  auto found = check_h11(cluster);
  EXPECT_EQ(briefs(found), Strings{"error host1 card 7 tls switch"});
  EXPECT_EQ(found[0].mend, "hccn_tool -i 7 -tls -s enable 0");
  for (Host& host : cluster.hosts)
    for (Card& card : host.cards) card.is_tls_on = true;
  EXPECT_TRUE(is_ok(check_h11(cluster)));  // all on is as good
}

TEST(HcclRules, H11UnansweredQueriesAreNoOk) {
  Cluster cluster = healthy_cluster(Series::a2, 1, 8);
  cluster.hosts[0].cards[2].is_tls_on.reset();
  cluster.hosts[0].cards[2].faults = {"hccn_tool -i 2 -tls -g: garbage"};
  EXPECT_EQ(briefs(check_h11(cluster)), Strings{"warning host0 card 2 hccn_tool"});
  cluster.hosts[0].cards[2].faults.clear();
  EXPECT_EQ(briefs(check_h11(cluster)), Strings{"skipped links"});
}

TEST(HcclRules, H12FirewallWarns) {
  Cluster cluster = healthy_cluster(Series::a2, 2, 8);
  EXPECT_TRUE(is_ok(check_h12(cluster)));
  cluster.hosts[1].is_firewall_on = true;
  cluster.hosts[1].firewall = "firewalld";
  auto found = check_h12(cluster);
  EXPECT_EQ(briefs(found), Strings{"warning host1 firewall"});
  EXPECT_EQ(found[0].mend, "systemctl stop firewalld");
  cluster.hosts[1].is_firewall_on.reset();
  EXPECT_TRUE(has(check_h12(cluster), Severity::skipped));
}

TEST(HcclRules, H13AcceptQueuesOfLargeClusters) {
  Cluster large = healthy_cluster(Series::a2, 16, 8);  // 128 ranks
  EXPECT_TRUE(is_ok(check_h13(large)));
  large.hosts[3].somaxconn = 4096;
  large.hosts[3].tcp_max_syn_backlog = 1024;
  EXPECT_EQ(briefs(check_h13(large)), (Strings{"warning host3 net.core.somaxconn",
                                               "warning host3 net.ipv4.tcp_max_syn_backlog"}));
  Cluster small = healthy_cluster(Series::a2, 2, 8);  // 16 ranks fit in any usual queue
  small.hosts[0].somaxconn = 4096;
  EXPECT_TRUE(is_ok(check_h13(small)));
  small.hosts[0].somaxconn = 8;
  EXPECT_EQ(briefs(check_h13(small)), Strings{"warning host0 net.core.somaxconn"});
}

}  // namespace
}  // namespace cohort::test
