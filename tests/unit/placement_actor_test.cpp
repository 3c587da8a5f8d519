// Placement over CAF's test coordinator (one thread, fake clock): what it sends, in what order, and
// what it refuses.
#include "actors/node/placement_actor.hpp"

#include <gtest/gtest.h>

#include <caf/scheduler/test_coordinator.hpp>
#include <functional>
#include <utility>

#include "actors/run/recorder_actor.hpp"
#include "runtime/control/system.hpp"

namespace cohort::actors {
namespace {

using namespace control;
using plan::Object;
using plan::PhaseKind;
using Verb = plan::Command::Verb;

constexpr uint64_t k_mib = 1 << 20;

/// A card owner that obeys, except where the test says otherwise, and notes every command.
struct Owner {
  std::vector<CardCommand> seen;
  uint64_t checksum = 42;
  Verb fails_at = Verb::begin_phase;
  bool is_failing = false;
  uint64_t extra_bytes = 0;
  bool is_dead_at_reshard = false;  // hears it and never answers
  std::vector<std::pair<caf::typed_response_promise<CardReply>, CardReply>> unanswered;
  std::optional<Error> late_answer;  // to those, given when it hears its next command
  bool is_late = false;              // likewise, what it would have answered
  std::function<void(const CardCommand&)> on_command = [](const CardCommand&) {};
};

CardActor::behavior_type owner_behavior(CardActor::pointer self, std::shared_ptr<Owner> owner) {
  return {[self, owner](card_atom, const CardCommand& command) -> caf::result<CardReply> {
    owner->seen.push_back(command);
    owner->on_command(command);
    // Here: a promise is its actor's to keep.
    if (owner->late_answer || owner->is_late)
      for (auto& [promise, answer] : std::exchange(owner->unanswered, {}))
        owner->is_late ? promise.deliver(answer) : promise.deliver(to_caf(*owner->late_answer));
    if (owner->is_failing && command.command.verb == owner->fails_at)
      return to_caf({Errc::compute, "the card is broken"});
    bool holds = command.command.to == plan::Place::card;
    CardReply reply = control::reply_to(command);
    reply.bytes_on_card = holds ? command.command.bytes + owner->extra_bytes : 0;
    reply.bytes_moved = command.command.bytes;
    reply.seconds = 0.001;
    reply.checksum = owner->checksum;
    if (command.command.verb == Verb::reshard && command.command.role == "actor_train")
      for (uint32_t card : {1U, 2U}) reply.sent.emplace_back(card, owner->checksum);
    if (owner->is_dead_at_reshard && command.command.verb == Verb::reshard) {
      owner->unanswered.emplace_back(self->make_response_promise<CardReply>(), reply);
      return owner->unanswered.back().first;
    }
    return reply;
  }};
}

class PlacementActorTest : public ::testing::Test {
 protected:
  void start() {
    recorder_ = system_.spawn(recorder, std::shared_ptr<stream::Writer>());
    auto plan = plan::plan_placement(
        plan::PlacementMode::separate,
        {{{0}, 8 * k_mib, k_mib}, {{1}, 8 * k_mib, k_mib}, {{2}, 8 * k_mib, k_mib}},
        {{"actor_train",
          {{0}},
          {{Object::train_params, k_mib}, {Object::grads, k_mib}, {Object::optimizer, 2 * k_mib}}},
         {"actor_infer",
          {{1}, {2}},
          {{Object::infer_params, k_mib}, {Object::kv_cache, 4 * k_mib}}}});
    ASSERT_TRUE(plan) << plan.error().detail;
    PlacementOptions options;
    options.machine.plan = *plan;
    options.machine.loss_wait_s = 1;
    options.machine.grace_s = 2;
    options.recorder = recorder_;
    options.owners[{"actor_train", {0}}] = system_.spawn(owner_behavior, train_);
    options.owners[{"actor_infer", {1}}] = first_actor_ = system_.spawn(owner_behavior, infer_);
    options.owners[{"actor_infer", {2}}] = second_actor_ = system_.spawn(owner_behavior, second_);
    placement_ = spawn_placement(system_, std::move(options));
  }
  void lose(uint32_t card, bool is_away = false) {
    caf::anon_send(placement_, lost_atom_v, CardsLost{{card}, "process 1 was killed", is_away});
    scheduler_.run();
  }
  void pass_ms(int ms) {
    scheduler_.advance_time(std::chrono::milliseconds(ms));
    scheduler_.run();
  }
  /// A phase that may be granted later.
  auto ask(PhaseKind kind, uint64_t version) {
    auto request =
        self_->request(placement_, caf::infinite, phase_atom_v, PhaseRequest{1, kind, version});
    scheduler_.run();
    return request;
  }
  template <class Request>
  static bool is_granted(Request& request) {
    bool is_granted = false;
    request.receive([&](const PhaseReport&) { is_granted = true; },
                    [](const caf::error& e) { ADD_FAILURE() << from_caf(e).detail; });
    return is_granted;
  }
  /// The cards that the last seat of an owner was opened without.
  static std::vector<uint32_t> absent(const Owner& owner) {
    std::vector<uint32_t> cards = {99};
    for (const CardCommand& command : owner.seen)
      if (command.command.verb == Verb::reshard && command.stage == PublishStage::seat)
        cards = command.absent;
    return cards;
  }
  void tell_back(uint32_t card, const std::shared_ptr<Owner>& owner) {
    auto actor = system_.spawn(owner_behavior, owner);
    caf::anon_send(
        placement_, back_atom_v,
        CardsBack{{{Role::actor_infer, card, caf::actor_cast<caf::strong_actor_ptr>(actor)}}});
  }
  void bring_back(uint32_t card, const std::shared_ptr<Owner>& owner) {
    tell_back(card, owner);
    scheduler_.run();
  }
  static std::vector<PublishStage> stages(const Owner& owner, uint64_t version) {
    std::vector<PublishStage> found;
    for (const CardCommand& command : owner.seen)
      if (command.command.verb == Verb::reshard && command.version == version)
        found.push_back(command.stage);
    return found;
  }
  // A promise in its state keeps the actor alive: it is told to go, as node does.
  void TearDown() override {
    for (const auto& owner : {train_, infer_, second_}) owner->unanswered.clear();
    caf::anon_send_exit(placement_, caf::exit_reason::user_shutdown);
    scheduler_.run();
  }
  Expected<PhaseReport> phase(PhaseKind kind, uint64_t version = 0) {
    auto request =
        self_->request(placement_, caf::infinite, phase_atom_v, PhaseRequest{1, kind, version});
    scheduler_.run();
    Expected<PhaseReport> result = Error{Errc::timeout, "no answer"};
    request.receive([&](PhaseReport& report) { result = std::move(report); },
                    [&](caf::error& e) { result = from_caf(e); });
    return result;
  }

  SystemConfig config_{{.scheduler_threads = 1, .is_test = true}};
  caf::actor_system system_{config_};
  caf::scheduler::test_coordinator& scheduler_ =
      dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  caf::scoped_actor self_{system_};
  std::shared_ptr<Owner> train_ = std::make_shared<Owner>();
  std::shared_ptr<Owner> infer_ = std::make_shared<Owner>();
  std::shared_ptr<Owner> second_ = std::make_shared<Owner>();
  RecorderActor recorder_;
  CardActor first_actor_, second_actor_;
  PlacementActor placement_;
};

TEST_F(PlacementActorTest, AStepMovesObjectsByAcknowledgedMessages) {
  start();
  for (PhaseKind kind :
       {PhaseKind::init, PhaseKind::publish, PhaseKind::generate, PhaseKind::update})
    ASSERT_TRUE(phase(kind)) << plan::to_string(kind);
  auto count = [](const Owner& owner, Verb verb) {
    return std::count_if(owner.seen.begin(), owner.seen.end(),
                         [&](const CardCommand& c) { return c.command.verb == verb; });
  };
  EXPECT_GE(count(*train_, Verb::onload), 3);
  EXPECT_GE(count(*train_, Verb::offload), 1);
  EXPECT_EQ(count(*train_, Verb::reshard), 1);
  for (const auto& infer : {infer_, second_}) {
    std::vector<PublishStage> stages;
    for (const CardCommand& command : infer->seen)
      if (command.command.verb == Verb::reshard) {
        EXPECT_EQ(command.receiver, "actor_infer");
        stages.push_back(command.stage);
      }
    EXPECT_EQ(stages, (std::vector{PublishStage::exchange, PublishStage::commit}));
  }
  EXPECT_EQ(count(*infer_, Verb::init_cache), 1);
  EXPECT_EQ(count(*infer_, Verb::free_cache), 1);
  EXPECT_GE(count(*infer_, Verb::begin_phase), 1);
}

TEST_F(PlacementActorTest, Place5AVersionWithAnotherSumIsServedNowhere) {
  start();
  second_->checksum = 43;
  ASSERT_TRUE(phase(PhaseKind::init));
  auto published = phase(PhaseKind::publish);
  ASSERT_FALSE(published);
  for (const char* part : {"PLACE-5", "card 2"})
    EXPECT_NE(published.error().detail.find(part), std::string::npos) << published.error().detail;
  for (const auto& infer : {infer_, second_})
    for (const CardCommand& command : infer->seen)
      EXPECT_FALSE(command.command.verb == Verb::reshard && command.stage == PublishStage::commit);
}

TEST_F(PlacementActorTest, Place5AVersionThatOneCardHasNotGotIsServedNowhere) {
  start();
  infer_->is_failing = true;
  infer_->fails_at = Verb::reshard;
  ASSERT_TRUE(phase(PhaseKind::init));
  auto published = phase(PhaseKind::publish);
  ASSERT_FALSE(published);
  for (const char* part : {"publish", "card 1", "the card is broken"})
    EXPECT_NE(published.error().detail.find(part), std::string::npos) << published.error().detail;
  for (const CardCommand& command : second_->seen)
    EXPECT_FALSE(command.command.verb == Verb::reshard && command.stage == PublishStage::commit);
}

TEST_F(PlacementActorTest, Place2MoreBytesThanTheCardHasAreNamed) {
  start();
  infer_->extra_bytes = 16 * k_mib;
  ASSERT_TRUE(phase(PhaseKind::init));
  auto published = phase(PhaseKind::publish);
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Errc::capacity) << published.error().detail;
  EXPECT_NE(published.error().detail.find("card 1"), std::string::npos) << published.error().detail;
}

TEST_F(PlacementActorTest, Place4GenerateBeforePublishIsRefused) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  EXPECT_FALSE(phase(PhaseKind::generate));
}

TEST_F(PlacementActorTest, AFailedCommandNamesPhaseObjectAndCause) {
  start();
  train_->is_failing = true;
  train_->fails_at = Verb::onload;
  ASSERT_TRUE(phase(PhaseKind::init));
  auto updated = phase(PhaseKind::update);
  ASSERT_FALSE(updated);
  for (const char* part : {"update", "train_params", "card 0", "the card is broken"})
    EXPECT_NE(updated.error().detail.find(part), std::string::npos) << updated.error().detail;
  train_->is_failing = false;
  EXPECT_FALSE(phase(PhaseKind::publish)) << "nobody knows what the cards hold after a failure";
}

TEST_F(PlacementActorTest, ALostCardHasNoPartUntilAPublishBringsItBack) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  ASSERT_TRUE(phase(PhaseKind::publish, 0));
  ASSERT_TRUE(phase(PhaseKind::generate));
  const size_t heard = second_->seen.size();
  lose(2);
  ASSERT_TRUE(phase(PhaseKind::update));
  EXPECT_EQ(second_->seen.size(), heard);
  auto request = ask(PhaseKind::publish, 1);
  EXPECT_TRUE(stages(*infer_, 1).empty()) << "a publish waits for a card that was just lost";
  auto successor = std::make_shared<Owner>();
  bring_back(2, successor);
  EXPECT_TRUE(is_granted(request));
  const std::vector all = {PublishStage::seat, PublishStage::exchange, PublishStage::commit};
  EXPECT_EQ(stages(*infer_, 1), all);
  EXPECT_EQ(stages(*successor, 1), all);
  ASSERT_TRUE(phase(PhaseKind::generate));
  EXPECT_TRUE(std::ranges::any_of(successor->seen, [](const CardCommand& command) {
    return command.command.verb == Verb::init_cache;
  }));
  EXPECT_EQ(second_->seen.size(), heard);
}

TEST_F(PlacementActorTest, APublishThatLosesACardBeginsAnewUnderAnotherEpoch) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  second_->is_dead_at_reshard = true;
  auto request = ask(PhaseKind::publish, 5);
  EXPECT_EQ(stages(*infer_, 5), std::vector{PublishStage::exchange});
  lose(2);
  auto successor = std::make_shared<Owner>();
  bring_back(2, successor);
  EXPECT_TRUE(is_granted(request));
  EXPECT_EQ(stages(*infer_, 5), (std::vector{PublishStage::exchange, PublishStage::seat,
                                             PublishStage::exchange, PublishStage::commit}));
  EXPECT_EQ(infer_->seen.back().epoch, 2U) << "one for the loss, one for the return";
  ASSERT_TRUE(phase(PhaseKind::generate));
}

TEST_F(PlacementActorTest, WhenTheGraceIsOverAPublishGoesToWhoIsThere) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  ASSERT_TRUE(phase(PhaseKind::publish, 0));
  lose(2);
  auto request = ask(PhaseKind::publish, 1);
  pass_ms(1999);
  EXPECT_TRUE(stages(*infer_, 1).empty());
  pass_ms(1);
  EXPECT_TRUE(is_granted(request));
  const std::vector all = {PublishStage::seat, PublishStage::exchange, PublishStage::commit};
  EXPECT_EQ(stages(*infer_, 1), all);
  EXPECT_EQ(absent(*infer_), std::vector{2U});
  EXPECT_EQ(absent(*train_), std::vector{2U});
  ASSERT_TRUE(phase(PhaseKind::generate));
  ASSERT_TRUE(phase(PhaseKind::publish, 2)) << "the seats are still good";
  EXPECT_EQ(stages(*infer_, 2), (std::vector{PublishStage::exchange, PublishStage::commit}));
  auto successor = std::make_shared<Owner>();
  bring_back(2, successor);
  ASSERT_TRUE(phase(PhaseKind::publish, 3));
  EXPECT_EQ(stages(*infer_, 3), all);
  EXPECT_EQ(stages(*successor, 3), all);
  EXPECT_TRUE(absent(*infer_).empty());
}

// Its seat is not among those that this publish opens: they are not of the epoch that it is in.
TEST_F(PlacementActorTest, WhoIsBackBeforeThePublishOpensItsSeatsSitsInTheNext) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  ASSERT_TRUE(phase(PhaseKind::publish, 0));
  ASSERT_TRUE(phase(PhaseKind::generate));
  lose(2, true);
  auto successor = std::make_shared<Owner>();
  bool is_told = false;
  train_->on_command = [&](const CardCommand& command) {
    if (command.version != 1 || command.command.verb == Verb::reshard) return;
    if (!std::exchange(is_told, true)) tell_back(2, successor);
  };
  ASSERT_TRUE(phase(PhaseKind::publish, 1));
  ASSERT_TRUE(is_told) << "before the seats";
  const std::vector all = {PublishStage::seat, PublishStage::exchange, PublishStage::commit};
  EXPECT_EQ(stages(*infer_, 1), all);
  EXPECT_EQ(absent(*infer_), std::vector{2U});
  EXPECT_TRUE(stages(*successor, 1).empty());
  ASSERT_TRUE(phase(PhaseKind::generate));
  ASSERT_TRUE(phase(PhaseKind::publish, 2));
  EXPECT_EQ(stages(*infer_, 2), all);
  EXPECT_EQ(stages(*successor, 2), all);
  EXPECT_TRUE(absent(*infer_).empty());
}

TEST_F(PlacementActorTest, NobodyWaitsForACardThatIsAway) {
  start();
  lose(2, true);  // at the start
  ASSERT_TRUE(phase(PhaseKind::init));
  ASSERT_TRUE(phase(PhaseKind::publish, 0));
  ASSERT_TRUE(phase(PhaseKind::generate));
  EXPECT_TRUE(second_->seen.empty());
  auto successor = std::make_shared<Owner>();
  bring_back(2, successor);
  ASSERT_TRUE(phase(PhaseKind::publish, 1));
  EXPECT_EQ(stages(*successor, 1).size(), 3U);
  lose(2);
  auto request = ask(PhaseKind::publish, 2);
  EXPECT_TRUE(stages(*infer_, 2).empty());
  lose(2, true);  // its node has left meanwhile
  EXPECT_TRUE(is_granted(request));
  EXPECT_EQ(stages(*successor, 2).size(), 0U);
}

TEST_F(PlacementActorTest, WithoutAnyReceiverAPublishWaitsForTheFirst) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  ASSERT_TRUE(phase(PhaseKind::publish, 0));
  lose(1);
  lose(2, true);
  auto request = ask(PhaseKind::publish, 1);
  pass_ms(60000);
  EXPECT_TRUE(stages(*train_, 1).empty());
  auto successor = std::make_shared<Owner>();
  bring_back(2, successor);
  EXPECT_TRUE(is_granted(request));
  EXPECT_EQ(absent(*successor), std::vector{1U});
  ASSERT_TRUE(phase(PhaseKind::generate));
}

TEST_F(PlacementActorTest, ACardThatIsBackInTheMiddleOfAPublishIsServedByTheNext) {
  for (int answered : {0, 1}) {  // back while seats are opened; while the version travels
    SCOPED_TRACE(answered);
    train_ = std::make_shared<Owner>();
    infer_ = std::make_shared<Owner>();
    start();
    ASSERT_TRUE(phase(PhaseKind::init));
    lose(2, true);
    infer_->is_dead_at_reshard = true;
    auto request = ask(PhaseKind::publish, 1);
    infer_->is_late = true;
    auto go_on = [&] {
      caf::anon_send(first_actor_, card_atom_v, CardCommand{});
      scheduler_.run();
    };
    if (answered == 1) go_on();
    auto successor = std::make_shared<Owner>();
    bring_back(2, successor);
    for (int i = 0; i < 3; ++i) go_on();
    EXPECT_TRUE(is_granted(request));
    infer_->is_dead_at_reshard = false;
    EXPECT_TRUE(stages(*successor, 1).empty());
    ASSERT_TRUE(phase(PhaseKind::generate));
    ASSERT_TRUE(phase(PhaseKind::publish, 2));
    const std::vector all = {PublishStage::seat, PublishStage::exchange, PublishStage::commit};
    EXPECT_EQ(stages(*successor, 2), all) << "its seat is not among those that were open";
    EXPECT_EQ(stages(*infer_, 2), all);
    caf::anon_send_exit(placement_, caf::exit_reason::user_shutdown);
    scheduler_.run();
  }
}

TEST_F(PlacementActorTest, AConnectionThatIsLostWithoutAProcessOpensTheSeatsAnew) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  second_->is_dead_at_reshard = true;
  auto request = ask(PhaseKind::publish, 5);
  second_->late_answer = Error{Errc::closed, "card 0 is gone"};
  second_->is_dead_at_reshard = false;
  caf::anon_send(second_actor_, card_atom_v, CardCommand{});
  scheduler_.run();
  pass_ms(1000);
  EXPECT_TRUE(is_granted(request));
  EXPECT_EQ(stages(*infer_, 5), (std::vector{PublishStage::exchange, PublishStage::seat,
                                             PublishStage::exchange, PublishStage::commit}));
  EXPECT_EQ(infer_->seen.back().epoch, 1U);
  EXPECT_TRUE(absent(*infer_).empty());
}

TEST_F(PlacementActorTest, WhatNoLossExplainsIsAFailure) {
  start();
  ASSERT_TRUE(phase(PhaseKind::init));
  second_->is_dead_at_reshard = true;
  auto request = self_->request(placement_, caf::infinite, phase_atom_v,
                                PhaseRequest{1, PhaseKind::publish, 5});
  scheduler_.run();
  for (int attempt = 0; attempt < 3; ++attempt) {  // the seats open anew twice
    second_->late_answer = Error{Errc::closed, "card 2 is gone"};
    caf::anon_send(second_actor_, card_atom_v, CardCommand{});
    scheduler_.run();
    second_->late_answer.reset();
    pass_ms(1000);
  }
  std::string error;
  request.receive([](const PhaseReport&) { ADD_FAILURE() << "granted"; },
                  [&](const caf::error& e) { error = from_caf(e).detail; });
  EXPECT_NE(error.find("card 2 is gone"), std::string::npos) << error;
}

}  // namespace
}  // namespace cohort::actors
