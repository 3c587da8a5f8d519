// traj replay: the updates and the tokens of runs of ours are proved, and what was changed in a
// copy of one is found at its step.
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "tests/support/said.hpp"
#include "tests/support/stream_copy.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::Said;
using test::TempFolder;

class TrajReplay : public ::testing::Test {
 protected:
  Said replay(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"replay", run};
    words.insert(words.end(), more.begin(), more.end());
    return said_by(words);
  }
  Said said_by(std::vector<std::string> words) const {
    return test::said_by_traj(std::move(words), folder_);
  }
  std::string run_of(const std::vector<std::string>& command) const {
    Process run(command, folder_);
    EXPECT_EQ(run.wait(), 0) << run.err();
    return test::run_folder(run);
  }
  void expect_equal(const Said& said, const std::string& last) const {
    EXPECT_EQ(said.code, 0) << said.out << said.err;
    EXPECT_EQ(said.last_line(), last) << said.out << said.err;
  }
  TempFolder folder_;
};

TEST_F(TrajReplay, UpdatesAndTokensOfARunAreProved) {
  const std::string run =
      run_of(test::tiny_run(folder_));  // keeps 3 checkpoints and that of step 0
  expect_equal(replay(run), "replay: 4 of 4 steps equal");
  expect_equal(replay(run, {"--steps", "2:3"}), "replay: 2 of 2 steps equal");
  expect_equal(replay(run, {"--steps", "4", "--checkpoint", "2"}), "replay: 1 of 1 steps equal");
  expect_equal(replay(run, {"--rollout", "--steps", "2:3"}), "replay: 96 of 96 trajectories equal");

  const json proved = json::parse(replay(run, {"--json"}).out);
  EXPECT_EQ(proved.at("equal"), 4);
  EXPECT_EQ(proved.at("checkpoint"), 0);
  EXPECT_FALSE(proved.contains("difference"));
}

// The first policy of such a run is published before an update has summed it up.
TEST_F(TrajReplay, TokensOfARunWithoutASupervisedStartAreProvedFromStepZero) {
  const std::string run = run_of(test::tiny_run(folder_, {"warm_start.steps=0"}));
  expect_equal(replay(run, {"--rollout", "--steps", "0:1"}), "replay: 64 of 64 trajectories equal");
}

TEST_F(TrajReplay, AChangedScoreOrTokenIsFoundAtItsStep) {
  const std::string run = run_of(test::tiny_run(folder_));
  const std::string scored = folder_.path() / "scored", sampled = folder_.path() / "sampled";
  test::copy_run(run, scored, [](proto::Trajectory& t) {
    if (t.key.kind == proto::TrajectoryKind::train && t.key.step == 3)
      t.score += 1e-6F * static_cast<float>(t.key.index);
  });
  const Said score = replay(scored);
  EXPECT_EQ(score.code, 1) << score.out;
  EXPECT_EQ(score.last_line(), "replay: 2 of 4 steps equal") << score.out;
  EXPECT_TRUE(score.has("step 3: parameters ")) << score.out;
  EXPECT_TRUE(score.has("first tensor: ")) << score.out;
  EXPECT_NE(score.err.find("step 3 is the first that differs"), std::string::npos) << score.err;

  const proto::TrajectoryKey key{proto::TrajectoryKind::train, 2, 0, 1};
  test::copy_run(run, sampled, [&](proto::Trajectory& t) {
    if (t.key == key) t.tokens.back() ^= 1;
  });
  const Said token = replay(sampled, {"--rollout", "--steps", "2"});
  EXPECT_EQ(token.code, 1) << token.out;
  EXPECT_NE(token.err.find("train/step 2/group 0/index 1: turn "), std::string::npos) << token.err;
}

TEST_F(TrajReplay, ARunThatWentOnUnderAnotherConfigReplays) {
  std::vector<std::string> command = test::tiny_run(folder_, {"max_steps=2", "save_steps=2"});
  run_of(command);
  const std::string run = run_of(test::tiny_run(
      folder_, {"resume_from_checkpoint=true", "save_steps=100", "keep_checkpoints=1",
                "actor_train.training_args.learning_rate=3.0e-3"}));
  expect_equal(replay(run), "replay: 4 of 4 steps equal");
}

// Trajectories of several policies in one step, and a step that was played twice.
TEST_F(TrajReplay, AsynchronousAndKilledRunsAreProved) {
  const std::string flowing = run_of(test::tiny_run(
      folder_, {"async.mode=fully_async", "async.depth=1.5", "placement.offload=never"}));
  expect_equal(replay(flowing), "replay: 4 of 4 steps equal");
  expect_equal(replay(flowing, {"--rollout"}), "replay: 224 of 224 trajectories equal");

  TempFolder folder;
  std::vector<std::string> killed = test::tiny_run(folder);
  killed.insert(killed.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.update:5:kill"});
  Process victim(killed, folder);
  EXPECT_NE(victim.wait(), 0);
  Process resumed(test::tiny_run(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  expect_equal(replay(test::run_folder(resumed)), "replay: 4 of 4 steps equal");
}

/// Under a step manager: each turn is asked anew, and gigpo credits it.
std::vector<std::string> asked_anew(const TempFolder& folder,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"adv_estimator=gigpo", "sequence_length=192"};
  for (const char* tag : {"FrozenLake", "FrozenLakeHoles"}) {
    const std::string entry = std::string("custom_envs.") + tag;
    overrides.push_back(entry + ".env_manager_cls=x.StepEnvManager");
    overrides.push_back("++" + entry + ".history_length=2");
    overrides.push_back(entry + ".agent_template='{history}{current_observation}'");
  }
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::tiny_run(folder, overrides);
}

TEST_F(TrajReplay, TurnsThatAreAskedAnewAreProvedOverCardsAndKills) {
  const std::string run = run_of(asked_anew(folder_));
  expect_equal(replay(run), "replay: 4 of 4 steps equal");
  expect_equal(replay(run, {"--rollout"}), "replay: 224 of 224 trajectories equal");
  const Said exported = said_by({"export", "--jsonl", "-", run});
  size_t contexts = 0;
  for (const json& line : exported.lines())
    for (const json& turn : line.at("turns"))
      contexts += turn.at("context_begin").get<size_t>() > 0 ? 1 : 0;
  EXPECT_GT(contexts, 0U) << exported.err;

  const auto last_hash = [](const std::string& of) {
    std::ifstream metrics(of + "/metrics.jsonl");
    std::string hash;
    for (std::string line; std::getline(metrics, line);) hash = json::parse(line).at("param_hash");
    return hash;
  };
  TempFolder cards, flow;
  Process two(
      asked_anew(cards, {"actor_train.device_mapping=list(range(0,2))",
                         "actor_infer.device_mapping=list(range(2,4))", "num_gpus_per_node=4",
                         "actor_train.training_args.gradient_accumulation_steps=2"}),
      cards);
  ASSERT_EQ(two.wait(), 0) << two.err();
  EXPECT_EQ(last_hash(test::run_folder(two)), last_hash(run)) << "two cards each";

  const std::vector<std::string> flowing = {"async.mode=fully_async", "async.depth=1.5",
                                            "placement.offload=never"};
  std::vector<std::string> killed = asked_anew(flow, flowing);
  killed.insert(killed.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.update:5:kill"});
  Process victim(killed, flow);
  EXPECT_NE(victim.wait(), 0);
  std::vector<std::string> again = flowing;
  again.push_back("resume_from_checkpoint=true");
  Process resumed(asked_anew(flow, again), flow);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  expect_equal(replay(test::run_folder(resumed)), "replay: 4 of 4 steps equal");
}

// An agent's requests are turns: what it asked is recorded, and a request that goes on from the
// last one goes on in its context.
TEST_F(TrajReplay, TheRunOfAnAgentIsProved) {
  const std::string root = std::getenv("COHORT_SOURCE_DIR");
  const std::vector<std::string> model = test::small_model();
  std::vector<std::string> command = {
      test::binary("actor-node"),
      "run",
      "--plain",
      root + "/configs/guess_agent.yaml",
      "output_dir=" + folder_.path().string(),
      "recording.segment_bytes=2MiB",
      "max_steps=2",
      "custom_envs.Guess.env_config.plugin=" + root + "/examples/python/guess_agent.py"};
  if (!plugin::SandboxedProcess::check(plugin::SandboxMode::bubblewrap))
    command.insert(command.end(), {"custom_envs.Guess.env_config.sandbox.mode=rlimits",
                                   "custom_envs.Guess.env_config.sandbox.network=true"});
  command.insert(command.end(), model.begin(), model.end());
  const std::string run = run_of(command);
  expect_equal(replay(run), "replay: 2 of 2 steps equal");
  expect_equal(replay(run, {"--rollout"}), "replay: 32 of 32 trajectories equal");
  const Said exported = said_by({"export", "--jsonl", "-", run});
  size_t turns = 0, asked = 0;
  for (const json& line : exported.lines())
    for (const json& turn : line.at("turns")) {
      ++turns;
      const json told = json::parse(turn.at("observation").get<std::string>());
      asked += told.at("messages").front().at("content") == "Guess a number from 1 to 20." ? 1 : 0;
    }
  EXPECT_GT(turns, 32U) << exported.err;
  EXPECT_EQ(asked, turns);
}

TEST_F(TrajReplay, AnotherRateIsComparedWithTheRecordedUpdates) {
  const std::string run = run_of(test::tiny_run(folder_));
  const Said same = said_by({"what-if", run, "seed=42", "--steps", "2:3"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_TRUE(same.has("same parameters")) << same.out;
  const Said other = said_by({"what-if", run, "actor_train.training_args.learning_rate=3.0e-2",
                              "--steps", "3:4", "--metric", "loss", "--json"});
  EXPECT_EQ(other.code, 0) << other.err;
  std::istringstream lines(other.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json third = json::parse(line);
  EXPECT_EQ(third.at("step"), 3);
  EXPECT_EQ(third.at("same_parameters"), false);
  EXPECT_NE(third.at("loss").at("recorded"), third.at("loss").at("computed"));
  ASSERT_TRUE(std::getline(lines, line));
  const json fourth = json::parse(line);
  EXPECT_NE(fourth.at("loss").at("recorded"), fourth.at("loss").at("computed"));
  const Said word = said_by({"what-if", run, "seed=42", "--metric", "los"});
  EXPECT_EQ(word.code, 2);
  EXPECT_NE(word.err.find("--metric los: an update of this run has none"), std::string::npos);
}

// One answer of one group is given an advantage that the others lack; the row of the step says so.
TEST_F(TrajReplay, BisectFindsThePoisonousTrajectory) {
  const std::string run = run_of(test::tiny_run(folder_));
  const std::string poisoned = folder_.path() / "poisoned";
  const proto::TrajectoryKey key{proto::TrajectoryKind::train, 3, 5, 2};
  test::copy_run(run, poisoned, [&](proto::Trajectory& t) {
    if (t.key == key) t.score = 1e6F;
  });
  const Said plain = said_by({"replay", poisoned, "--json"});
  const double norm = json::parse(plain.out).at("difference").at("actor/grad_norm").at("computed");
  const std::string where = "metric[\"actor/grad_norm\"] > " + std::to_string(norm / 2);
  const Said none = said_by({"bisect", poisoned, "--where", where});
  EXPECT_EQ(none.code, 2) << none.out;  // the rows are those of the healthy run
  const Said unknown = said_by({"bisect", poisoned, "--where", "metric['actor/grad_nrm'] > 1"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("has the metric 'actor/grad_nrm'; did you mean 'actor/grad_norm'?"),
            std::string::npos)
      << unknown.err;
  const Said found = said_by({"bisect", poisoned, "--where", where, "--step", "3", "--json"});
  EXPECT_EQ(found.code, 0) << found.out << found.err;
  const json said = json::parse(found.out);
  EXPECT_EQ(said.at("group"), 5);
  EXPECT_EQ(said.at("trajectory"), "3/5/2");
  EXPECT_LE(said.at("updates").get<int>(), 12);
}

void replace(std::string& text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what << " in " << text;
  text.replace(at, what.size(), by);
}

// Two cards that sum their own gradients, and a run that says it was a device's: the host comes
// near, and says how near. A rate 1.001 times the recorded one is 0.001 of the way.
TEST_F(TrajReplay, WhereBitsAreNotPromisedTheHostIsHeldToATolerance) {
  const std::string relaxed =
      run_of(test::tiny_run(folder_, {"determinism=relaxed", "num_gpus_per_node=3",
                                      "actor_train.device_mapping=list(range(0,2))",
                                      "actor_infer.device_mapping=list(range(2,3))",
                                      "actor_train.training_args.gradient_accumulation_steps=2"}));
  const Said near = replay(relaxed);
  expect_equal(near, "replay: 4 of 4 steps equal within 0.05");
  EXPECT_TRUE(near.has("not to the bit: 2 train cards with determinism relaxed")) << near.out;
  const Said what_if = said_by({"what-if", relaxed, "seed=42"});
  EXPECT_EQ(what_if.code, 2) << what_if.out;
  EXPECT_NE(what_if.err.find("--tolerance"), std::string::npos) << what_if.err;

  TempFolder folder;
  Process recorded(test::tiny_run(folder), folder);
  ASSERT_EQ(recorded.wait(), 0) << recorded.err();
  const std::string run = test::run_folder(recorded);
  const auto same = [](proto::Trajectory&) {};
  const std::string device = folder_.path() / "device", faster = folder_.path() / "faster";
  test::copy_run(run, device, same,
                 [](std::string& yaml) { replace(yaml, "platform: cpu", "platform: cuda"); });
  const Said on_device = replay(device, {"--json"});
  EXPECT_EQ(on_device.code, 0) << on_device.err;
  EXPECT_EQ(json::parse(on_device.out).at("farthest").at("off"), 0.0) << on_device.out;

  test::copy_run(run, faster, same, [](std::string& yaml) {
    replace(yaml, "    learning_rate: 0.001", "    learning_rate: 0.001001");
  });
  expect_equal(replay(faster, {"--tolerance", "0.002"}), "replay: 4 of 4 steps equal within 0.002");
  const Said found = replay(faster, {"--tolerance", "0.0005"});
  EXPECT_EQ(found.code, 1) << found.out;
  EXPECT_TRUE(found.has("step 2: beyond 0.0005")) << found.out;
  EXPECT_TRUE(found.has("first tensor: ")) << found.out;
  EXPECT_EQ(found.last_line(), "replay: 1 of 4 steps equal within 0.0005") << found.out;
}

TEST_F(TrajReplay, WhatCannotBeReplayedIsNamed) {
  const std::string run = run_of(test::tiny_run(folder_, {"max_steps=1"}));
  const Said none = replay(run, {"--steps", "7"});
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_NE(none.err.find("no row of step 7"), std::string::npos) << none.err;
  const Said word = replay(run, {"--steps", "one"});
  EXPECT_EQ(word.code, 2) << word.err;
  EXPECT_NE(word.err.find("--steps one: give A:B"), std::string::npos) << word.err;
  std::filesystem::remove_all(run + "/checkpoints");
  const Said lost = replay(run);
  EXPECT_EQ(lost.code, 2) << lost.err;
  EXPECT_NE(lost.err.find("no checkpoint"), std::string::npos) << lost.err;
}

}  // namespace
}  // namespace cohort
