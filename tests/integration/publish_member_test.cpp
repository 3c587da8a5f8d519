// The two phases at a member: what aborts, what is refused, what is damaged, who is silent.
#include <gtest/gtest.h>

#include "tests/support/publish_group.hpp"
#include "tests/support/reshard_models.hpp"

namespace cohort::publish {
namespace {

using test::Bytes;
using test::PublishGroup;

plan::ReshardPlan two_to_two() {
  plan::ReshardOptions options;
  options.bucket_bytes = 1 << 16;
  auto plan = plan::plan_reshard(test::dense_decoder(2, 128, 4, 2, 256, 512),
                                 test::make_layout("train", 2, 1, 1, 1),
                                 test::make_layout("infer", 1, 1, 2, 1, 2), options);
  EXPECT_TRUE(plan);
  return *plan;
}

/// Passes everything on but what a test wants otherwise.
class HarmPort final : public Port {
 public:
  using Harm = std::function<bool(Note&, std::span<std::byte>)>;  // false: the note is lost
  HarmPort(std::unique_ptr<Port> port, Harm harm)
      : port_(std::move(port)), harm_(std::move(harm)) {}
  std::string endpoint() const override { return port_->endpoint(); }
  Expected<void> connect(uint32_t own, const std::vector<std::string>& endpoints,
                         uint64_t window_bytes) override {
    return port_->connect(own, endpoints, window_bytes);
  }
  Expected<void> forget(uint64_t version) override { return port_->forget(version); }
  std::span<std::byte> window() override { return port_->window(); }
  std::span<const std::byte> window_of(uint32_t peer) override { return port_->window_of(peer); }
  bool has_windows() const override { return port_->has_windows(); }
  uint64_t held_bytes() const override { return port_->held_bytes(); }
  int wait_fd() const override { return port_->wait_fd(); }
  std::optional<PortEvent> next() override { return port_->next(); }
  Expected<bool> send(uint32_t peer, const Note& note, tensor::Buffer body) override {
    Note changed = note;
    std::span<std::byte> bytes;
    if (note.kind == NoteKind::data && has_windows())
      bytes = window().subspan(note.place, note.bytes);
    if (!harm_(changed, bytes)) return true;
    return port_->send(peer, changed, std::move(body));
  }

 private:
  std::unique_ptr<Port> port_;
  Harm harm_;
};

PublishGroup::Options bf16_options(const std::string& wire = "inproc") {
  PublishGroup::Options options;
  options.wire = wire;
  options.from = options.to = tensor::Dtype::bf16;
  options.chunk_bytes = 8 << 10;
  return options;
}

/// A group in which one card does harm to its notes.
PublishGroup::Options harmful(HarmPort::Harm harm, const std::string& wire, size_t who = 0) {
  PublishGroup::Options options = bf16_options(wire);
  options.wrap = [harm, who](size_t card, std::unique_ptr<Port> port) -> std::unique_ptr<Port> {
    if (card != who) return port;
    return std::make_unique<HarmPort>(std::move(port), harm);
  };
  return options;
}

void expect_published(PublishGroup& group, uint64_t version) {
  group.before = test::random_shards(group.plan(), 2, version);
  group.publish(version);
  group.expect_bytes(group.before);
  group.commit(version);
}

/// Members fail for the same cause, all serve what they did, and the next version arrives. One that
/// has all it needs may have arrived before it hears of the failure: the driver aborts at all.
void expect_failure(PublishGroup& group, uint64_t version, Errc code, const std::string& word) {
  std::vector<Bytes> served = group.served;
  group.before = test::random_shards(group.plan(), 2, version);
  group.begin(version);
  size_t failed = 0;
  for (auto& result : group.wait(version)) {
    if (result) continue;
    ++failed;
    EXPECT_EQ(result.error().code, code) << result.error().to_string();
    EXPECT_NE(result.error().detail.find(word), std::string::npos) << result.error().to_string();
  }
  EXPECT_GT(failed, 0U);
  for (size_t i = 0; i < group.size(); ++i) {
    group.members[i]->abort(version, "not all have arrived");
    EXPECT_FALSE(group.members[i]->commit(version));
    EXPECT_EQ(group.members[i]->served(), version - 1);
    EXPECT_TRUE(group.served[i] == served[i]);
  }
}

class PublishMember : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishMember, ADamagedBucketIsFoundNamedAndPublishedAgain) {  // PUBLISH-1
  int chunk = 0;
  PublishGroup group(two_to_two(), harmful(
                                       [&](Note& note, std::span<std::byte> bytes) {
                                         if (note.version != 2 || note.kind != NoteKind::data)
                                           return true;
                                         if (++chunk == 9) bytes[bytes.size() / 2] ^= std::byte{4};
                                         return true;
                                       },
                                       GetParam()));
  expect_published(group, 1);
  expect_failure(group, 2, Errc::corrupt, "from card 0 are damaged");
  expect_published(group, 3);
}

TEST_P(PublishMember, AChunkThatNeverCameIsAnErrorAtOnce) {  // PUBLISH-1
  int chunk = 0;
  PublishGroup group(two_to_two(), harmful(
                                       [&](Note& note, std::span<std::byte>) {
                                         return note.version != 2 || note.kind != NoteKind::data ||
                                                ++chunk != 9;
                                       },
                                       GetParam()));
  expect_published(group, 1);
  expect_failure(group, 2, Errc::protocol, "card 0 sends byte");
  expect_published(group, 3);
}

TEST_P(PublishMember, ASenderThatSumsOtherBytesIsFound) {  // PUBLISH-1
  PublishGroup group(two_to_two(), harmful(
                                       [](Note& note, std::span<std::byte>) {
                                         if (note.version == 2 && note.kind == NoteKind::sent)
                                           note.checksum ^= 1;
                                         return true;
                                       },
                                       GetParam()));
  expect_published(group, 1);
  expect_failure(group, 2, Errc::corrupt, "PUBLISH-1");
  expect_published(group, 3);
}

/// Sets one field of a note to what a broken or hostile peer may send.
void disturb(Note& note, Rng& rng) {
  const std::array<uint64_t, 6> values{0, 1, 3, rng.below(1 << 20), rng.next_u64(), ~uint64_t{0}};
  uint64_t value = values[rng.below(values.size())];
  switch (rng.below(11)) {
    case 0:
      note.kind = static_cast<NoteKind>(value % 9);
      return;
    case 1:
      note.from = static_cast<uint32_t>(value);
      return;
    case 2:
      note.version = value;
      return;
    case 3:
      note.plan = value;
      return;
    case 4:
      note.transfer = static_cast<uint32_t>(value);
      return;
    case 5:
      note.round = static_cast<uint32_t>(value);
      return;
    case 6:
      note.offset = value;
      return;
    case 7:
      note.bytes = value;
      return;
    case 8:
      note.checksum = value;
      return;
    default:
      note.place = value;
      return;
  }
}

TEST_P(PublishMember, NoNoteOfAPeerEndsTheProcessOrLetsWrongBytesArrive) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng = Rng(31).fork(seed);
    uint64_t left = rng.below(40);
    PublishGroup::Options options = harmful(
        [&](Note& note, std::span<std::byte>) {
          if (note.version == 2 && left-- == 0) disturb(note, rng);
          return true;
        },
        GetParam(), seed % 4);
    options.timeout_ms = 150;
    PublishGroup group(two_to_two(), options);
    expect_published(group, 1);
    group.before = test::random_shards(group.plan(), 2, seed % 3 == 0 ? 1 : 2);
    group.begin(2);
    bool has_arrived = true;
    for (const auto& result : group.wait(2)) has_arrived = has_arrived && result;
    if (has_arrived) group.expect_bytes(group.before);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, PublishMember, ::testing::Values("inproc", "shm"),
                         [](const auto& x) { return std::string(x.param); });

class PublishWires : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishWires, TheFirstVersionOfARunIsZero) {
  PublishGroup group(two_to_two(), bf16_options(GetParam()));
  expect_published(group, 0);
  expect_published(group, 1);
}

TEST_P(PublishWires, ASilentCardEndsInATimeoutThatNamesIt) {
  PublishGroup::Options options = bf16_options(GetParam());
  options.timeout_ms = 300;
  PublishGroup group(two_to_two(), options);
  group.before = test::random_shards(group.plan(), 2, 1);
  for (size_t i : {0, 1, 3}) ASSERT_TRUE(group.members[i]->begin(1));  // card 2 hears of none
  for (size_t i : {0, 1}) {                                            // card 3 has all it needs
    auto result = group.members[i]->wait(1);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::timeout);
    EXPECT_NE(result.error().detail.find("a grant of card 2"), std::string::npos)
        << result.error().to_string();
  }
  // It was told meanwhile: its begin() ends at once.
  ASSERT_TRUE(group.members[2]->begin(1));
  EXPECT_FALSE(group.members[2]->wait(1));
}

TEST_P(PublishWires, AnAbortAtOneCardEndsTheVersionAtAll) {
  PublishGroup group(two_to_two(), bf16_options(GetParam()));
  expect_published(group, 1);
  group.before = test::random_shards(group.plan(), 2, 2);
  for (size_t i : {0, 1, 2}) ASSERT_TRUE(group.members[i]->begin(2));
  group.members[0]->abort(2, "the driver says so");
  ASSERT_TRUE(group.members[3]->begin(2));  // too late
  for (size_t i : {0, 1, 3}) {              // card 2 may have had all it needs
    auto result = group.members[i]->wait(2);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().detail.find("the driver says so"), std::string::npos)
        << result.error().to_string();
  }
  group.members[2]->abort(2, "the driver says so");
  for (const auto& member : group.members) EXPECT_EQ(member->served(), 1u);
  expect_published(group, 3);
}

TEST_P(PublishWires, AMemberThatClosesIsNamed) {
  PublishGroup group(two_to_two(), bf16_options(GetParam()));
  expect_published(group, 1);
  for (size_t i : {0, 1, 2}) ASSERT_TRUE(group.members[i]->begin(2));
  group.members[3].reset();
  for (size_t i : {0, 1}) {  // card 2 has all it needs
    auto result = group.members[i]->wait(2);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::closed);
    EXPECT_NE(result.error().detail.find("card 3"), std::string::npos)
        << result.error().to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, PublishWires, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& x) { return std::string(x.param); });

TEST(PublishPhases, CommitServesOnlyWhatHasArrived) {  // PUBLISH-2
  PublishGroup group(two_to_two(), bf16_options());
  EXPECT_FALSE(group.members[2]->commit(1));
  expect_published(group, 1);
  EXPECT_TRUE(group.members[2]->commit(1));  // a repeat
  EXPECT_EQ(group.members[2]->begin(1).error().code, Errc::invalid_argument);
  group.publish(2);
  group.members[2]->abort(2, "a replica did not get it");
  EXPECT_EQ(group.members[2]->commit(2).error().code, Errc::protocol);
  EXPECT_EQ(group.members[2]->served(), 1u);
  EXPECT_EQ(group.members[2]->shard_checksum(), group.members[3]->shard_checksum());
}

TEST(PublishPhases, CardsWithOtherPlansSaySo) {
  auto hub = std::make_shared<InprocHub>();
  plan::ReshardPlan plan = two_to_two(), other = plan;
  other.transfers.back().end_unit -= 1;
  std::vector<std::vector<std::byte>> buffers(4);
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::string> endpoints;
  plan::Shards before(plan.model, plan.from), after(plan.model, plan.to);
  std::vector<PartTable> from, to;
  for (uint32_t i = 0; i < 4; ++i) {
    from.emplace_back(before, CardId{i});
    to.emplace_back(after, CardId{i});
  }
  for (uint32_t i = 0; i < 4; ++i) {
    buffers[i].resize(std::max(from[i].bytes(), to[i].bytes()));
    MemberOptions options;
    options.plan = std::make_shared<plan::ReshardPlan>(i == 3 ? other : plan);
    options.card = CardId{i};
    options.source = flat_source(from[i], buffers[i]);
    options.target = flat_target(to[i], buffers[i]);
    auto member = Member::open(std::move(options), std::move(*open_inproc_port(hub)));
    ASSERT_TRUE(member) << member.error().to_string();
    members.push_back(std::move(*member));
    endpoints.push_back(members.back()->endpoint());
  }
  for (auto& member : members) ASSERT_TRUE(member->connect(endpoints));
  for (auto& member : members) ASSERT_TRUE(member->begin(1));
  // Cards 0 to 2 have one plan: what they exchange among themselves may arrive before they hear of
  // card 3. Its senders wait for it, and nobody serves the version.
  int failed_senders = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    auto result = members[i]->wait(1);
    EXPECT_TRUE(i != 3 || !result);
    failed_senders += i < 2 && !result ? 1 : 0;
    if (!result) {
      EXPECT_NE(result.error().detail.find("made another plan"), std::string::npos)
          << result.error().to_string();
    }
    EXPECT_FALSE(members[i]->served());
  }
  EXPECT_GE(failed_senders, 1);
}

TEST(PublishOpen, RefusesWhatCannotBe) {
  auto hub = std::make_shared<InprocHub>();
  MemberOptions options;
  options.plan = std::make_shared<plan::ReshardPlan>(two_to_two());
  options.card = CardId{9};
  EXPECT_FALSE(Member::open(options, std::move(*open_inproc_port(hub))));
  options.card = CardId{0};
  EXPECT_FALSE(Member::open(options, std::move(*open_inproc_port(hub))));  // no source
  std::vector<std::byte> few(10);
  options.source = [&](const PartName&) { return std::span<const std::byte>(few); };
  options.to = tensor::Dtype::f32;
  EXPECT_FALSE(Member::open(options, std::move(*open_inproc_port(hub))));  // planned in 2 bytes
  options.to = tensor::Dtype::bf16;
  auto member = Member::open(options, std::move(*open_inproc_port(hub)));
  ASSERT_TRUE(member);
  ASSERT_TRUE((*member)->connect({"", "", "", ""}));
  auto result = (*member)->publish(1);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().detail.find("the engine's part has 10 bytes"), std::string::npos)
      << result.error().to_string();
}

}  // namespace
}  // namespace cohort::publish
