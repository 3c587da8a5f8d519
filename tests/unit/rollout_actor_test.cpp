// The rollout on CAF's test coordinator (one thread, fake clock) with an engine that is not the
// built-in one: what it asks of any engine, what it sends, and whose lease a message is about.
#include "actors/roles/rollout_actor.hpp"

#include <gtest/gtest.h>

#include <caf/scheduler/test_coordinator.hpp>

#include "runtime/control/system.hpp"
#include "runtime/proto/codec.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/lake_tokenizer.hpp"
#include "tests/support/scripted_engine.hpp"

namespace cohort::actors {
namespace {

using namespace control;
using tests::ScriptedEngine;
using Verb = plan::Command::Verb;

constexpr int k_context = 200;  // [tokens]

std::shared_ptr<const EnvironmentOptions> lake(int max_turns) {
  tasks::PromptOptions prompt;
  prompt.agent_template = "{observation}";
  prompt.shows_instructions = false;
  EnvironmentOptions options;
  options.make = []() -> Expected<std::unique_ptr<tasks::Environment>> {
    COHORT_ASSIGN(std::unique_ptr<tasks::Environment> world, tasks::FrozenLake::create({}));
    return world;
  };
  options.prompt = std::move(*tasks::PromptTemplate::create(prompt));
  options.chat = tasks::make_chatml(tests::lake_tokenizer()).value();
  options.max_turns = max_turns;
  options.max_response_length = 8;
  return std::make_shared<const EnvironmentOptions>(std::move(options));
}

/// The same by a step manager: each turn is asked anew.
std::shared_ptr<const EnvironmentOptions> asked_anew(int max_turns) {
  EnvironmentOptions options = *lake(max_turns);
  options.prompt.reset();
  options.step_prompt = tasks::StepPrompt::create({.system_template = "",
                                                   .agent_template = "{current_observation}",
                                                   .history = tasks::StepHistory::actions,
                                                   .history_length = 0})
                            .value();
  options.instructions = "";
  return std::make_shared<const EnvironmentOptions>(std::move(options));
}

class RolloutActorTest : public ::testing::Test {
 protected:
  RolloutActorTest() { start({}); }
  ~RolloutActorTest() override { stop(); }

  // Its engine's handler keeps the actor alive: it is told to go, as node does.
  void stop() {
    if (rollout_ != nullptr) caf::anon_send_exit(rollout_, caf::exit_reason::user_shutdown);
    rollout_ = nullptr;
    scheduler_.run();
  }
  void start(std::function<void(RolloutOptions&)> change) {
    stop();
    RolloutOptions options;
    options.seed = 7;
    options.run_id = "run";
    options.tokenizer = tokenizer_;
    options.sequence_length = k_context;
    options.stop_ids = {*tokenizer_->token_id("<|im_end|>")};
    options.environments = {{"one", lake(1)}, {"two", lake(2)}, {"anew", asked_anew(3)}};
    options.card = &card_;
    options.open_engine = [this]() -> Expected<std::unique_ptr<compute::GenerationEngine>> {
      auto engine = std::make_unique<ScriptedEngine>(
          model(), max_context_, [this](const auto&, const auto&) { return answer_; });
      engine_ = engine.get();
      return std::unique_ptr<compute::GenerationEngine>(std::move(engine));
    };
    options.open_output = [this](const auto&) -> Expected<FrameSink> {
      return FrameSink([this](const transport::Message& frame) { return take(frame); });
    };
    options.fail = [this](const Failure& failure) { failures_.push_back(failure.detail); };
    if (change) change(options);
    rollout_ = system_.spawn(rollout, std::move(options));
    scheduler_.run();
  }
  static compute::ModelConfig model() {
    compute::ModelConfig model;
    model.vocab_size = 64;
    model.hidden_size = 8;
    model.num_hidden_layers = 1;
    model.num_attention_heads = model.num_key_value_heads = 2;
    model.head_dim = 4;
    model.intermediate_size = 8;
    model.max_position = k_context;
    return model;
  }
  Expected<void> take(const transport::Message& frame) {
    if (is_full_) return Error{Errc::backpressure, "no credit"};
    auto batch = proto::decode_batch(std::as_bytes(std::span(frame.header)), frame.body.bytes());
    EXPECT_TRUE(batch) << batch.error().detail;
    for (proto::Trajectory& t : *batch) sent_.push_back(std::move(t));
    return {};
  }
  /// The weights of `version` on the card, and a cache.
  void serve(uint64_t version) {
    engine_->onload_params().value();
    engine_->init_cache(1).value();
    engine_->begin_weights(version).value();
    serve_weights(*engine_, version).value();
  }
  /// Group `group`, of `size` trajectories.
  static Lease lease(uint64_t number, uint32_t group, uint32_t size = 2, std::string tag = "one",
                     uint64_t version = 1) {
    Lease lease{TrajectoryKind::train, 3, 0,  {group}, size, {group + 10}, version,
                {std::move(tag)},      0, {}, number};
    return lease;
  }
  /// How a lease ended: its report's number, or its error; "" while it has not.
  struct End {
    std::string text;
    std::string detail;  // of the error
    LeaseReport report;
  };
  std::shared_ptr<End> ask(const Lease& lease) {
    auto end = std::make_shared<End>();
    system_.spawn([end, lease, rollout = rollout_](caf::event_based_actor* self) {
      self->request(rollout, caf::infinite, lease_atom_v, lease)
          .then(
              [end](const LeaseReport& report) {
                end->report = report;
                end->text = fmt::format("lease {}", report.number);
              },
              [end](const caf::error& e) {
                end->text = std::string(to_string(from_caf(e).code));
                end->detail = from_caf(e).detail;
              });
    });
    scheduler_.run();
    return end;
  }
  /// Saves or loads what is unfinished. Returns the error, or nothing.
  template <class Atom>
  std::string checkpoint(Atom atom, const std::string& folder) {
    std::optional<std::string> ended;
    system_.spawn([&ended, atom, folder, rollout = rollout_](caf::event_based_actor* self) {
      self->request(rollout, caf::infinite, atom, folder)
          .then([&ended](bool) { ended = ""; },
                [&ended](const caf::error& e) { ended = from_caf(e).to_string(); });
    });
    test::wait_until(
        [&] {  // files are written on a thread of their own
          scheduler_.run();
          return ended.has_value();
        },
        10000);
    return ended.value_or("no answer");
  }
  void cancel(uint64_t number) {
    caf::anon_send(rollout_, cancel_atom_v, number);
    scheduler_.run();
  }
  /// Every turn in flight ends, and what comes of it is done, until nothing is in flight.
  void play() {
    while (!engine_->in_flight().empty()) {
      engine_->answer_all();
      scheduler_.run();
    }
  }
  void pass_ms(int ms) {
    scheduler_.advance_time(std::chrono::milliseconds(ms));
    scheduler_.run();
  }
  std::vector<std::string> sent() const {
    std::vector<std::string> keys;
    for (const proto::Trajectory& t : sent_) keys.push_back(proto::to_string(t.key));
    std::ranges::sort(keys);
    return keys;
  }
  static std::vector<std::string> keys(uint32_t group, uint32_t size) {
    std::vector<std::string> keys;
    for (uint32_t i = 0; i < size; ++i)
      keys.push_back(fmt::format("train/step 3/group {}/index {}", group, i));
    return keys;
  }

  SystemConfig config_{{.is_test = true}};
  caf::actor_system system_{config_};
  caf::scheduler::test_coordinator& scheduler_ =
      dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  std::shared_ptr<const tasks::Tokenizer> tokenizer_ =
      tasks::make_word_tokenizer(tasks::frozen_lake_vocabulary()).value();
  compute::CardMemory card_{CardId{4}, 1 << 20};
  std::vector<int32_t> answer_ = tokenizer_->encode("<answer>Right</answer><|im_end|>").value();
  int64_t max_context_ = k_context;
  bool is_full_ = false;  // the way to the rewards
  std::vector<proto::Trajectory> sent_;
  std::vector<std::string> failures_;
  ScriptedEngine* engine_ = nullptr;  // the rollout's
  RolloutActor rollout_;
};

TEST_F(RolloutActorTest, AnyEnginePlaysALeaseToItsReport) {
  serve(1);
  auto end = ask(lease(1, 0, 3, "two"));
  EXPECT_EQ(engine_->in_flight().size(), 3U);
  EXPECT_EQ(end->text, "");
  play();
  EXPECT_EQ(end->text, "lease 1");
  EXPECT_EQ(end->report.trajectories, 3U);
  EXPECT_EQ(end->report.response_tokens, 3 * 2 * answer_.size());
  EXPECT_EQ(end->report.generated_tokens, end->report.response_tokens);
  EXPECT_EQ(end->report.busy_seconds, 6);
  EXPECT_EQ(sent(), keys(0, 3));
  EXPECT_EQ(engine_->trajectories(), 0U) << "finished ones are not kept";
}

TEST_F(RolloutActorTest, TokensLogProbsAndVersionsAreTheEngines) {
  serve(1);
  ask(lease(1, 0, 1, "two"));
  const uint64_t id = engine_->in_flight().at(0);
  const compute::TurnRequest first = engine_->turn_of(id);
  EXPECT_EQ(first.stop_ids, std::vector<int32_t>{tokenizer_->token_id("<|im_end|>").value()});
  EXPECT_EQ(first.max_new_tokens, 8);
  engine_->answer(id, [](compute::TurnOutput& output) { output.versions.back() = 2; });
  scheduler_.run();
  const compute::TurnRequest second = engine_->turn_of(id);
  EXPECT_EQ(second.turn, 1U);
  EXPECT_EQ(second.rng_key, first.rng_key);
  engine_->answer(id, [](compute::TurnOutput& output) {
    std::ranges::fill(output.versions, 2);
    std::ranges::fill(output.logp, -2.F);
  });
  scheduler_.run();
  ASSERT_EQ(sent_.size(), 1U);
  const proto::Trajectory& t = sent_[0];
  std::vector<int32_t> tokens = first.append_tokens;
  tokens.insert(tokens.end(), answer_.begin(), answer_.end());
  tokens.insert(tokens.end(), second.append_tokens.begin(), second.append_tokens.end());
  tokens.insert(tokens.end(), answer_.begin(), answer_.end());
  EXPECT_EQ(t.tokens, tokens);
  EXPECT_EQ(t.weight_version_min, 1U);
  EXPECT_EQ(t.weight_version_max, 2U);
  const size_t changed = first.append_tokens.size() + answer_.size() - 1;
  for (size_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(t.token_versions[i], i < changed ? 1U : 2U) << i;
  EXPECT_EQ(t.behavior_logp.back(), -2.F);
}

// A turn that is asked anew brings its whole prompt, and what the engine had is forgotten (GEN-3).
TEST_F(RolloutActorTest, TurnsThatAreAskedAnewAreContextsOfTheirOwn) {
  answer_ = tokenizer_->encode("<answer><|im_end|>").value();  // no action: the game stands still
  start([this](RolloutOptions& options) {                      // one context fits, no two
    options.sequence_length = 21 + 2 * static_cast<int>(answer_.size());
  });
  serve(1);
  auto end = ask(lease(1, 0, 1, "anew"));
  std::vector<int32_t> tokens;
  std::vector<uint32_t> contexts;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    const uint64_t id = engine_->in_flight().at(0);
    const compute::TurnRequest request = engine_->turn_of(id);
    EXPECT_EQ(request.turn, turn);
    EXPECT_EQ(request.kept_tokens, 0U);
    EXPECT_EQ(request.append_tokens.size(), 21U) << "a board and its frame";
    contexts.push_back(static_cast<uint32_t>(tokens.size()));
    tokens.insert(tokens.end(), request.append_tokens.begin(), request.append_tokens.end());
    tokens.insert(tokens.end(), answer_.begin(), answer_.end());
    engine_->answer(id);
    scheduler_.run();
  }
  EXPECT_EQ(end->text, "lease 1");
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].stop_reason, "max_turns");
  EXPECT_EQ(sent_[0].tokens, tokens);
  ASSERT_EQ(sent_[0].turns.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(sent_[0].turns[i].context_begin, contexts[i]);
  EXPECT_EQ(proto::contexts_of(sent_[0]).size(), 3U);
}

/// Writes dialogues that grow by what it was told, but for every third turn, which is a new one.
class Growing final : public tasks::Environment {
 public:
  std::string reset(uint64_t) override {
    turn_ = 0;
    return dialogue(said_ = R"({"role": "user", "content": "Up"})");
  }
  explicit Growing(std::vector<tasks::PolicyAnswer>& told) : told_(told) {}
  tasks::StepResult step(const tasks::PolicyAnswer& answer) override {
    told_.push_back(answer);
    const std::string next = R"({"role": "user", "content": "Left"})";
    said_ += R"(, {"role": "assistant", "content": ")" + answer.text + "\"}, " + next;
    if (++turn_ % 3 == 0) said_ = next;
    tasks::StepResult result;
    result.observation = dialogue(said_);
    result.is_valid = true;
    return result;
  }
  std::string instructions() const override { return ""; }
  int actions_left() const override { return 1; }
  tasks::EpisodeMetrics metrics() const override { return {}; }

 private:
  static std::string dialogue(const std::string& messages) {
    return "{\"messages\": [" + messages + "]}";
  }
  std::vector<tasks::PolicyAnswer>& told_;
  std::string said_;
  int turn_ = 0;
};

TEST_F(RolloutActorTest, ADialogueThatGoesOnFromTheLastContextIsNoNewOne) {
  answer_ = tokenizer_->encode("<answer>Up</answer><|im_end|>").value();
  std::vector<tasks::PolicyAnswer> told;
  start([&told, limit = static_cast<int>(answer_.size())](RolloutOptions& options) {
    EnvironmentOptions agent = *lake(4);
    agent.max_response_length = limit;
    agent.prompt.reset();
    agent.make = [&told]() -> Expected<std::unique_ptr<tasks::Environment>> {
      return std::unique_ptr<tasks::Environment>(std::make_unique<Growing>(told));
    };
    agent.writes_dialogues = true;
    options.environments["agent"] = std::make_shared<const EnvironmentOptions>(std::move(agent));
  });
  serve(1);
  auto end = ask(lease(1, 0, 1, "agent"));
  std::vector<std::optional<size_t>> kept;
  for (uint32_t turn = 0; turn < 4; ++turn) {
    const uint64_t id = engine_->in_flight().at(0);
    kept.push_back(engine_->turn_of(id).kept_tokens);
    if (turn == 2) answer_.back() = answer_.front();  // no end, at the limit of tokens
    engine_->answer(id);
    scheduler_.run();
  }
  EXPECT_EQ(end->text, "lease 1");
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(proto::contexts_of(sent_[0]).size(), 2U);
  const auto& turns = sent_[0].turns;
  ASSERT_EQ(turns.size(), 4U);
  EXPECT_EQ(turns[2].context_begin, 0U);
  EXPECT_EQ(turns[3].context_begin, turns[2].response_end) << "asked anew";
  EXPECT_EQ(kept[1], turns[0].response_end) << "the engine has what was said";
  EXPECT_EQ(kept[3], 0U);
  ASSERT_EQ(told.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(told[i].prompt_tokens, turns[i].response_begin - turns[i].context_begin);
    EXPECT_EQ(told[i].tokens, answer_.size());
    EXPECT_EQ(told[i].is_cut, i >= 2) << i;
  }
}

TEST_F(RolloutActorTest, ACancelEndsItsLeaseAndNoOther) {
  serve(1);
  auto first = ask(lease(1, 0));
  auto second = ask(lease(2, 1));
  cancel(1);
  EXPECT_EQ(first->text, "cancelled");
  play();
  EXPECT_EQ(second->text, "lease 2");
  EXPECT_EQ(sent(), keys(1, 2)) << "nothing of the cancelled lease is sent";
  EXPECT_EQ(engine_->trajectories(), 0U);
}

TEST_F(RolloutActorTest, ACancelThatComesAfterItsLeaseTouchesNoLaterOneOfTheGroup) {  // LEASE-1
  serve(1);
  auto first = ask(lease(1, 0));
  play();
  EXPECT_EQ(first->text, "lease 1");
  auto again = ask(lease(2, 0));  // the group comes back: what it brought was lost elsewhere
  cancel(1);
  EXPECT_EQ(again->text, "");
  play();
  EXPECT_EQ(again->text, "lease 2");
}

TEST_F(RolloutActorTest, ACancelOfTheOlderOfTwoLeasesOfAGroupLeavesTheNewer) {  // LEASE-1
  serve(1);
  is_full_ = true;  // what is finished waits here
  auto older = ask(lease(1, 0));
  for (uint64_t id : engine_->in_flight()) engine_->answer(id);
  scheduler_.run();
  auto newer = ask(lease(2, 0));
  play();
  EXPECT_EQ(older->text + newer->text, "");
  cancel(1);
  EXPECT_EQ(older->text, "cancelled");
  is_full_ = false;
  pass_ms(10);  // the batch is offered again
  EXPECT_EQ(newer->text, "lease 2");
  EXPECT_EQ(sent(), keys(0, 2)) << "the newer lease's, once";
}

TEST_F(RolloutActorTest, ALeaseWhoseNumberDoesNotRiseIsRefused) {  // LEASE-1
  serve(1);
  EXPECT_EQ(ask(lease(0, 0))->text, "protocol");
  auto fifth = ask(lease(5, 0));
  EXPECT_EQ(ask(lease(5, 1))->text, "protocol");
  EXPECT_EQ(ask(lease(4, 1))->text, "protocol");
  play();
  EXPECT_EQ(fifth->text, "lease 5");
}

TEST_F(RolloutActorTest, WhatAnEngineStillSaysOfACancelledLeaseIsNotHeard) {  // LEASE-1
  serve(1);
  auto first = ask(lease(1, 0, 1));
  const uint64_t id = engine_->in_flight().at(0);
  compute::TurnOutput late;
  engine_->answer(id, [&late](compute::TurnOutput& output) { late = output; });
  cancel(1);  // its output is in the mailbox
  auto again = ask(lease(2, 0, 1));
  caf::anon_send(rollout_, outputs_atom_v,
                 std::make_shared<std::vector<compute::TurnOutput>>(1, late));
  scheduler_.run();
  EXPECT_EQ(again->text, "");
  play();
  EXPECT_EQ(again->text, "lease 2");
  EXPECT_EQ(sent_.size(), 1U);
}

TEST_F(RolloutActorTest, ATurnWithoutATokenSaysThatTheLogitsAreNotFinite) {
  serve(1);
  auto end = ask(lease(1, 0));
  engine_->answer(engine_->in_flight().at(0), [](compute::TurnOutput& x) {
    x.tokens.clear(), x.logp.clear(), x.versions.clear();
    x.stop = compute::TurnStop::error;
  });
  scheduler_.run();
  EXPECT_NE(end->detail.find("logits of version 1 are not finite"), std::string::npos)
      << end->detail;
}

TEST_F(RolloutActorTest, AnEngineThatBreaksItsPromiseEndsTheLeaseWithTheReason) {
  using compute::TurnOutput;
  const std::vector<std::function<void(TurnOutput&)>> broken = {
      [](TurnOutput& x) { x.logp.pop_back(); },
      [](TurnOutput& x) { x.versions.pop_back(); },
      [](TurnOutput& x) { x.versions.front() = 0; },  // older than the lease's
      [](TurnOutput& x) { x.stop = compute::TurnStop::error; },
      [](TurnOutput& x) { x.stop = compute::TurnStop::aborted; },
      [](TurnOutput& x) { x.tokens.clear(); },
  };
  serve(1);
  for (size_t i = 0; i < broken.size(); ++i) {
    auto end = ask(lease(i + 1, 0));
    engine_->answer(engine_->in_flight().at(0), broken[i]);
    scheduler_.run();
    EXPECT_EQ(end->text, "compute") << i;
    EXPECT_EQ(engine_->trajectories(), 0U) << i;
  }
  EXPECT_TRUE(sent_.empty());
}

TEST_F(RolloutActorTest, ALeaseOfAVersionThatIsNotServedIsRefused) {  // PLACE-5
  serve(2);
  EXPECT_EQ(ask(lease(1, 0))->text, "placement");
}

TEST_F(RolloutActorTest, CardCommandsGoToTheEngineAndNotWhileALeaseRuns) {  // PLACE-4
  auto command = [this](Verb verb) {
    CardCommand asked;
    asked.command.verb = verb;
    asked.command.bytes = 1;
    bool is_done = false;
    system_.spawn([&is_done, asked, rollout = rollout_](caf::event_based_actor* self) {
      self->request(rollout, caf::infinite, card_atom_v, asked)
          .then([&is_done](const CardReply&) { is_done = true; }, [](const caf::error&) {});
    });
    scheduler_.run();
    return is_done;
  };
  EXPECT_TRUE(command(Verb::onload));
  engine_->begin_weights(1).value();
  engine_->commit_weights(1).value();
  auto early = ask(lease(1, 0));
  EXPECT_EQ(early->text, "placement") << "no cache";
  EXPECT_TRUE(command(Verb::init_cache));
  auto end = ask(lease(2, 0));
  EXPECT_FALSE(command(Verb::free_cache));
  play();
  EXPECT_EQ(end->text, "lease 2");
  EXPECT_TRUE(command(Verb::free_cache));
  EXPECT_TRUE(command(Verb::offload));
}

TEST_F(RolloutActorTest, ALeaseMayComeAfterThePublishThatFollowsItWhereItPlaysOn) {  // PLACE-5
  start([](RolloutOptions& options) { options.is_flowing = true; });
  serve(2);
  auto end = ask(lease(1, 0));
  play();
  EXPECT_EQ(end->text, "lease 1");
  EXPECT_EQ(sent_.at(0).weight_version_min, 2U);
  EXPECT_EQ(ask(lease(2, 1, 2, "one", 3))->text, "placement");
}

// The rest of the budget, random numbers from that position on, and all tokens again: a rollout of
// a resumed run does the same with what the checkpoint has.
TEST_F(RolloutActorTest, AnInterruptedTurnGoesOnWhereItWas) {
  test::TempFolder folder;
  const std::string at = folder.path() / "rollout_0";
  const auto flowing = [](RolloutOptions& options) { options.is_flowing = true; };
  start(flowing);
  serve(1);
  auto end = ask(lease(1, 0, 1, "two"));
  const uint64_t id = engine_->in_flight().at(0);
  engine_->answer(id);
  scheduler_.run();
  const compute::TurnRequest before = engine_->turn_of(id);
  const std::vector<int32_t> sampled(answer_.begin(), answer_.begin() + 2);
  engine_->set_sampled(sampled);
  ASSERT_EQ(checkpoint(save_atom_v, at), "");
  const compute::TurnRequest after = engine_->turn_of(id);
  EXPECT_FALSE(engine_->is_paused());
  EXPECT_EQ(after.turn, 1U);
  EXPECT_EQ(after.first_position, 2U);
  EXPECT_EQ(after.max_new_tokens, before.max_new_tokens - 2);
  EXPECT_EQ(after.rng_key, before.rng_key);
  play();
  EXPECT_EQ(end->text, "lease 1");
  ASSERT_EQ(sent_.size(), 1U);
  std::vector<int32_t> tokens = after.append_tokens;
  tokens.insert(tokens.end(), answer_.begin(), answer_.end());
  EXPECT_EQ(sent_[0].tokens, tokens);
  EXPECT_EQ(sent_[0].turns.size(), 2U);

  sent_.clear();
  start(flowing);
  serve(3);
  ASSERT_EQ(checkpoint(load_atom_v, at), "");
  ask(lease(1, 0, 1, "two", 3));
  const compute::TurnRequest again = engine_->turn_of(engine_->in_flight().at(0));
  EXPECT_EQ(again.append_tokens, after.append_tokens);
  EXPECT_EQ(again.first_position, 2U);
  EXPECT_EQ(again.max_new_tokens, after.max_new_tokens);
  EXPECT_EQ(again.rng_key, after.rng_key);
  play();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].tokens, tokens);
  EXPECT_EQ(sent_[0].weight_version_min, 1U);
  EXPECT_EQ(sent_[0].weight_version_max, 3U);
}

// An engine forgets what it was told to abort, also where the turn was faster (GEN-3): the next
// turn brings the whole trajectory.
TEST_F(RolloutActorTest, ATurnThatEndsAsItIsInterruptedIsFollowedWithAllItsTokens) {
  test::TempFolder folder;
  start([](RolloutOptions& options) { options.is_flowing = true; });
  serve(1);
  auto end = ask(lease(1, 0, 1, "two"));
  const uint64_t id = engine_->in_flight().at(0);
  std::vector<int32_t> tokens = engine_->turn_of(id).append_tokens;
  engine_->set_sampled(answer_, compute::TurnStop::stop);
  ASSERT_EQ(checkpoint(save_atom_v, folder.path() / "rollout_0"), "");
  tokens.insert(tokens.end(), answer_.begin(), answer_.end());
  const compute::TurnRequest next = engine_->turn_of(id);
  EXPECT_EQ(next.turn, 1U);
  EXPECT_EQ(next.kept_tokens, 0U);
  ASSERT_GT(next.append_tokens.size(), tokens.size());
  EXPECT_TRUE(std::ranges::equal(tokens, std::span(next.append_tokens).first(tokens.size())));
  play();
  EXPECT_EQ(end->text, "lease 1");
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(next.append_tokens,
                                 std::span(sent_[0].tokens).first(next.append_tokens.size())));
}

TEST_F(RolloutActorTest, AnEngineWithTooLittleContextIsRefusedAtTheStart) {
  max_context_ = k_context - 1;
  start({});
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_NE(failures_[0].find("sequence_length 200"), std::string::npos) << failures_[0];
}

}  // namespace
}  // namespace cohort::actors
