/// HCCL's rules over random clusters: against a naive model of the counts, each break found and
/// named, RULE-1, and mending commands that mend.
#include <gtest/gtest.h>

#include <sstream>

#include "runtime/doctor/rules/hccl_collectives.hpp"
#include "tests/support/healthy_cluster.hpp"
#include "tests/support/plan_gen.hpp"

namespace cohort::test {
namespace {

using namespace doctor;

template <class T>
size_t pick(Rng& rng, const std::vector<T>& from) {
  return rng.below(from.size());
}

Cluster random_cluster(Rng& rng) {
  constexpr Series k_series[] = {Series::training, Series::a2, Series::a3};
  Series series = k_series[rng.below(3)];
  uint32_t cards = series == Series::a3 ? 16 : 8;
  return healthy_cluster(series, 1 + rng.below(5), cards);
}

TEST(HcclRulesProperty, TrainingCountsAgainstANaiveModel) {
  Rng rng(property_seed(11));
  for (int round = 0; round < 2000; ++round) {
    Cluster cluster = healthy_cluster(Series::training, 1, 8);
    cluster.processes.clear();
    std::vector<uint32_t> devices;
    for (uint32_t id = 0; id < 8; ++id)
      if (rng.below(2) == 1) devices.push_back(id);
    if (devices.empty()) continue;
    add_role(cluster, "role", {devices});
    size_t n = devices.size();
    bool is_count = n == 1 || n == 2 || n == 4 || n == 8;
    bool is_one_ring = devices.back() < 4 || devices.front() >= 4;
    EXPECT_EQ(has(check_h01(cluster), Severity::error), !is_count) << n;
    EXPECT_EQ(has(check_h02(cluster), Severity::error), n < 8 && !is_one_ring);
  }
}

TEST(HcclRulesProperty, SameInputSameOutputAndEveryRuleSpeaks) {
  Rng rng(property_seed(12));
  for (int round = 0; round < 200; ++round) {
    Cluster cluster = random_cluster(rng);
    for (Host& host : cluster.hosts)
      for (Card& card : host.cards) {
        if (rng.below(4) == 0) card.is_link_up.reset();
        if (rng.below(4) == 0) card.ip = fmt::format("10.{}.0.{}", rng.below(4), rng.below(8));
        if (rng.below(4) == 0) card.is_tls_on = rng.below(2) == 1;
        if (rng.below(9) == 0) card.netmask.reset();
      }
    auto once = check_hccl(cluster);
    EXPECT_EQ(once, check_hccl(cluster));
    std::set<std::string> rules;
    for (const Finding& x : once) {
      rules.insert(x.rule);
      EXPECT_FALSE(x.key.empty());
      EXPECT_FALSE(x.seen.empty()) << x.rule;
      if (x.severity == Severity::error) {
        EXPECT_FALSE(x.wanted.empty()) << x.rule;
      }
    }
    EXPECT_EQ(rules.size(), 16u);
  }
}

TEST(HcclRulesProperty, OneBreakIsFoundAndNamed) {
  Rng rng(property_seed(13));
  for (int round = 0; round < 500; ++round) {
    Cluster cluster = random_cluster(rng);
    if (cluster.hosts.size() < 2) continue;
    size_t host = pick(rng, cluster.hosts);
    Card& card = cluster.hosts[host].cards[pick(rng, cluster.hosts[host].cards)];
    std::string rule = "H11";
    switch (rng.below(5)) {
      case 0:
        card.is_link_up = false;
        break;
      case 1:
        card.net_health = 1 + static_cast<int>(rng.below(9));
        break;
      case 2:
        card.is_tls_on = true;
        break;
      case 3:
        rule = "H10";
        card.ip = "172.16.0.5";
        break;
      default:
        rule = "H09";
        cluster.hosts[host].listen_ports =
            std::vector<uint16_t>{static_cast<uint16_t>(60000 + rng.below(16))};
    }
    bool is_named = false;
    for (const Finding& x : check_hccl(cluster)) {
      if (x.severity != Severity::error) continue;
      EXPECT_EQ(x.rule, rule);
      is_named = is_named || (x.host == cluster.hosts[host].name &&
                              (rule == "H09" || x.card == card.device_id));
    }
    EXPECT_TRUE(is_named) << rule;
  }
}

TEST(HcclRulesProperty, NothingReadIsNeverOk) {  // RULE-1
  Rng rng(property_seed(14));
  for (int round = 0; round < 100; ++round) {
    Cluster cluster = random_cluster(rng);
    for (Host& host : cluster.hosts) {
      std::vector<Card> blank;
      for (const Card& card : host.cards) {
        blank.emplace_back();
        blank.back().device_id = card.device_id;
      }
      host = Host{};
      host.cards = blank;
    }
    for (auto rule : {check_h09, check_h10, check_h11, check_h12, check_h13, check_h15})
      EXPECT_FALSE(has(rule(cluster), Severity::ok)) << rule(cluster)[0].rule;
  }
}

/// Runs "hccn_tool -i K -ip -s address A netmask M" on the card that the finding names.
bool apply_mend(Cluster& cluster, const Finding& x) {
  std::istringstream words(x.mend);
  std::string tool, dash, ip, set, address_word, address, mask_word, mask;
  uint32_t id = 0;
  if (!(words >> tool >> dash >> id >> ip >> set >> address_word >> address >> mask_word >> mask))
    return false;
  if (!parse_ipv4(address) || !parse_ipv4(mask)) return false;
  for (Host& host : cluster.hosts)
    if (host.name == x.host)
      for (Card& card : host.cards)
        if (card.device_id == id) {
          card.ip = address;
          card.netmask = mask;
          return true;
        }
  return false;
}

TEST(HcclRulesProperty, MendingCommandsOfH10Mend) {
  Rng rng(property_seed(15));
  for (int round = 0; round < 200; ++round) {
    Cluster cluster = healthy_cluster(Series::a2, 2 + rng.below(3), 8);
    for (int breaks = 0; breaks < 3; ++breaks) {
      auto& cards = cluster.hosts[pick(rng, cluster.hosts)].cards;
      Card& card = cards[pick(rng, cards)];
      if (rng.below(2) == 0)
        card.ip = cluster.hosts[0].cards[0].ip;
      else
        card.ip = fmt::format("172.16.{}.5", rng.below(3));
    }
    // One command at a time, as a person would; each run of the doctor sees the one before.
    for (int step = 0; step < 8 && has(check_h10(cluster), Severity::error); ++step) {
      auto found = check_h10(cluster);
      bool is_mended = false;
      for (const Finding& x : found) is_mended = is_mended || apply_mend(cluster, x);
      ASSERT_TRUE(is_mended);
    }
    EXPECT_TRUE(is_ok(check_h10(cluster)));
  }
}

TEST(HcclCollectivesProperty, TheRankThatDiffersIsFound) {
  Rng rng(property_seed(16));
  auto random_call = [&] {
    return CollectiveCall{static_cast<Collective>(rng.below(5)), rng.below(1 << 20),
                          static_cast<Dtype>(rng.below(12)), static_cast<ReduceOp>(rng.below(4))};
  };
  for (int round = 0; round < 300; ++round) {
    size_t ranks = 3 + rng.below(13), steps = 1 + rng.below(10), calls = 2 + rng.below(8);
    std::vector<std::vector<CollectiveCall>> script(steps);
    for (auto& step : script)
      for (size_t i = 0; i < calls; ++i) step.push_back(random_call());
    uint32_t odd = static_cast<uint32_t>(rng.below(ranks));
    size_t odd_step = rng.below(steps), odd_call = rng.below(calls);
    std::vector<RankHashes> hashes;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      hashes.push_back({rank, {}});
      uint64_t hash = 0;
      for (size_t step = 0; step < steps; ++step) {
        for (size_t i = 0; i < calls; ++i) {
          CollectiveCall call = script[step][i];
          if (rank == odd && step == odd_step && i == odd_call) ++call.count;
          hash = collective_hash(hash, call);
        }
        hashes.back().by_step.push_back(hash);
      }
    }
    auto found = find_divergence(hashes);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, odd_step);
    EXPECT_EQ(found->ranks, std::vector<uint32_t>{odd});
    EXPECT_FALSE(found->is_tie);
  }
}

}  // namespace
}  // namespace cohort::test
