/// Publishing inside one c10d group (Gloo): eight rank processes, every mode, a mixture of experts
/// and a dense model; and a rank that is killed between two versions.
#include <gtest/gtest.h>

#include "runtime/publish/group_member.hpp"
#include "tests/support/control_table.hpp"
#include "tests/support/publish_scenario.hpp"
#include "tests/support/ranks.hpp"

namespace cohort::tests {
namespace {

using compute::Collectives;
using compute::Rendezvous;

/// One rank's card: its buffers, and a member over the group's all_to_all.
class RankCard {
 public:
  RankCard(const plan::ReshardPlan& plan, Collectives& group)
      : plan_(std::make_shared<plan::ReshardPlan>(plan)),
        card_(plan.cards[static_cast<size_t>(group.rank())]) {
    publish::MemberOptions options;
    options.plan = plan_;
    options.card = card_;
    for (CardId card : plan.cards) options.labels.push_back("card " + std::to_string(card.value));
    options.source = [this](const publish::PartName& name) {
      return publish::flat_source(parts_before_, before_)(name);
    };
    options.target = [this](const publish::PartName& name) {
      return publish::flat_target(parts_after_, after_)(name);
    };
    after_.resize(parts_after_.bytes());
    member_ = publish::GroupMember::open(std::move(options), [&group](auto send, auto receive) {
                return group.all_to_all(send, receive);
              }).value();
  }

  Expected<publish::PublishReport> publish(uint64_t version) {
    before_ = test::weights_of(plan_->model, plan_->from, card_, version);
    return member_->publish(version);
  }
  bool has(uint64_t version) const {
    return after_ == test::weights_of(plan_->model, plan_->to, card_, version);
  }
  publish::GroupMember& member() { return *member_; }

 private:
  std::shared_ptr<const plan::ReshardPlan> plan_;
  CardId card_;
  plan::Shards shards_before_{plan_->model, plan_->from}, shards_after_{plan_->model, plan_->to};
  publish::PartTable parts_before_{shards_before_, card_}, parts_after_{shards_after_, card_};
  std::vector<std::byte> before_, after_;
  std::unique_ptr<publish::GroupMember> member_;
};

int publish_all(const plan::ReshardPlan& plan, uint16_t port, int rank) {
  auto rendezvous = connect_table(port);
  auto group = Collectives::join(
                   group_options(rank, static_cast<int>(plan.cards.size()), "publish", rendezvous))
                   .value();
  RankCard card(plan, *group);
  const plan::RankBytes& planned = plan.ranks[static_cast<size_t>(rank)];
  for (uint64_t version : {1, 2, 3}) {
    auto report = card.publish(version);
    if (!report) return std::fprintf(stderr, "%s\n", report.error().to_string().c_str()), 1;
    if (report->sent_bytes != planned.send || report->received_bytes != planned.receive) return 2;
    if (!card.has(version)) return 3;
    if (!card.member().commit(version)) return 4;
  }
  return 0;
}

class GroupPublishRanks : public ::testing::TestWithParam<const char*> {};

TEST_P(GroupPublishRanks, EightProcessesGetTheirShardsInEveryMode) {
  for (const char* mode : {"all_gather", "tp_then_pp", "directed", "p2p"}) {
    SCOPED_TRACE(mode);
    const plan::ReshardPlan plan = test::plan_scenario(GetParam(), mode).value();
    ForkedTable table;
    ForkedRanks ranks(8, [&](int rank) { return publish_all(plan, table.port(), rank); });
    for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GroupPublishRanks, ::testing::Values("moe", "dense"));

TEST(GroupPublishRanks, AKilledRankIsNamedAndTheServedVersionStays) {
  const plan::ReshardPlan plan = test::plan_scenario("separate", "p2p").value();
  const auto size = static_cast<int>(plan.cards.size());
  ForkedTable table;
  ForkedRanks ranks(size, [&](int rank) {
    auto mine = connect_table(table.port());
    auto group = Collectives::join(group_options(rank, size, "killed", mine)).value();
    RankCard card(plan, *group);
    if (!card.publish(1) || !card.member().commit(1)) return 1;
    if (rank == 1) ::raise(SIGKILL);
    auto second = card.publish(2);
    if (second) return 2;
    if (second.error().detail.find("card 1") == std::string::npos)
      return std::fprintf(stderr, "%s\n", second.error().to_string().c_str()), 3;
    return card.member().served() == 1 && !card.member().commit(2) ? 0 : 4;
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(ranks.wait(rank), rank == 1 ? -SIGKILL : 0) << "rank " << rank;
}

}  // namespace
}  // namespace cohort::tests
