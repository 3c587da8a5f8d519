// actor-node diagnose: the cause of planted stalls is named, and of healthy runs none.
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/statfs.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/support/http_stand_in.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::TempFolder;
using Words = std::vector<std::string>;

constexpr int k_limit_ms = 40000;  // to reach the stall; what it waits for is the sentence

std::string source(const std::string& path) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/" + path;
}

/// Returns the folder of the run under `folder`, or nothing yet.
std::string found_run(const TempFolder& folder) {
  std::error_code none;
  for (const auto& name : std::filesystem::directory_iterator(folder.path(), none))
    if (name.is_directory())
      for (const auto& run : std::filesystem::directory_iterator(name.path(), none))
        if (std::filesystem::exists(run.path() / "config.yaml", none)) return run.path().string();
  return "";
}

/// `after_s`: what is shorter is no wait.
json diagnosed(const std::string& run, const TempFolder& folder,
               const std::string& after_s = "1.2") {
  Process process({test::binary("actor-node"), "diagnose", run, "--after", after_s, "--window",
                   "0.2", "--json"},
                  folder);
  process.wait();
  return json::parse(process.out(), nullptr, false);
}

struct Planted {
  std::string name, failpoint;
  Words said;       // parts of the sentence
  Words overrides;  // of the run
  bool is_rlvr = false;
  int processes = 0;
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

Words command_of(const Planted& planted, const TempFolder& folder) {
  Words more = {"max_steps=50", "eval_steps=-1", "warm_start.steps=0"};
  more.insert(more.end(), planted.overrides.begin(), planted.overrides.end());
  if (planted.is_rlvr)
    more.insert(more.begin(), {"rollout_batch_size=8", "num_return_sequences_in_group=4"});
  Words command = planted.is_rlvr
                      ? test::small_run(source("configs/arithmetic_rlvr.yaml"), folder, more)
                      : test::tiny_run(folder, more);
  if (planted.processes > 0)
    command.insert(command.begin() + 2, {"--processes", std::to_string(planted.processes)});
  if (!planted.failpoint.empty())
    command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=" + planted.failpoint + ":" +
                                                         (folder.path() / "claim").string()});
  return command;
}

/// Asks until something stands still; returns what was said last.
json first_stall(const TempFolder& folder, const std::function<void(const json&)>& on_look = {}) {
  json said;
  test::wait_until(
      [&] {
        const std::string run = found_run(folder);
        if (run.empty()) return false;
        said = diagnosed(run, folder);
        if (on_look) on_look(said);
        return said.is_object() && said.at("cause") != "none";
      },
      k_limit_ms);
  return said;
}

void expect_said(const json& said, const Words& parts, const Process& run) {
  ASSERT_TRUE(said.is_object()) << run.err();
  const std::string sentence = said.at("sentence");
  for (const std::string& part : parts)
    EXPECT_NE(sentence.find(part), std::string::npos) << part << " is not in: " << sentence << "\n"
                                                      << said.dump(1) << run.err();
}

class PlantedStall : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedStall, IsNamed) {
  TempFolder folder;
  if (struct statfs disk{}; GetParam().failpoint.ends_with(":page") &&
                            ::statfs("/tmp", &disk) == 0 && disk.f_type == TMPFS_MAGIC) {
    std::cerr << "*** NOT RUN: /tmp is no disk\n";
    GTEST_SKIP() << "/tmp is no disk";
  }
  Process run(command_of(GetParam(), folder), folder);
  const json said = first_stall(folder);
  expect_said(said, GetParam().said, run);
}

Words scored_by(const std::string& function) {
  return {"~rewards.answer", "+rewards.answer.type=plugin",
          "+rewards.answer.plugin=" + source("tests/data/plugins/stalls.py") + ":" + function,
          "+rewards.answer.timeout_s=600"};
}

Words played_in(const std::string& world) {
  return {"train_env_manager.tags=[World]",
          "++custom_envs.World.env_type=plugin",
          "++custom_envs.World.max_steps=4",
          "++custom_envs.World.agent_template='{observation}'",
          "++custom_envs.World.env_config.timeout_s=600",
          "++custom_envs.World.env_config.plugin=" + source("tests/data/plugins/stalls.py") + ":" +
              world};
}

INSTANTIATE_TEST_SUITE_P(
    Run, PlantedStall,
    ::testing::Values(
        Planted{"ASleepingReward",
                "",
                {"reward answer waits", "child", "in stalls.py:7 sleeps"},
                scored_by("sleeps"),
                true},
        Planted{"ADeadlockInAPlugin",
                "",
                {"child", "in stalls.py:13 locks_itself"},
                scored_by("locks_itself"),
                true},
        Planted{"AnEndlessLoopInAPlugin",
                "",
                {"child", "in stalls.py:1", "cores"},
                scored_by("searches"),
                true},
        Planted{"AWorldThatNeverAnswers",
                "",
                {"a game waits", "child", "in stalls.py:27 step"},
                played_in("World")},
        Planted{"AnUpdateThatHangs",
                "trainer.update:2:hang",
                {"step 2", "the update (actor_train)"},
                {}},
        Planted{"ACollectorThatHangs",
                "trainer.delivery:3:hang",
                {"the collector waits", "a frame that it takes in"},
                {}},
        Planted{"ARecorderThatHangs", "recorder.append:40:hang", {"in the stream (recorder)"}, {}},
        Planted{
            "ACheckpointThatHangs", "checkpoint.begin:2:hang", {"the checkpoint on the disk"}, {}},
        Planted{"AnOfferOfWeightsThatHangs",
                "publish.offer:2:hang",
                {"in phase publish", "placement waits", "actor_train on card 0"},
                {}},
        Planted{"ACutOfWeightsThatHangs",
                "publish.commit:2:hang",
                {"in phase publish", "placement waits", "actor_infer on card 1"},
                {}},
        Planted{"ARolloutWhoseEngineStandsStill",
                "rollout.turn:20:hang",
                {"rollout 0 waits", "the turns in its engine"},
                {}},
        Planted{"ARewardActorThatHangs",
                "reward.delivery:3:hang",
                {"rewards waits", "a frame that it takes in"},
                {},
                true},
        Planted{"AReferenceThatNeverAnswers",
                "reference.delivery:2:hang",
                {"reference waits", "its log-probabilities"},
                {"init_kl_coef=0.1", "num_gpus_per_node=3", "++reference.device_mapping=[2]"}},
        Planted{"AStoppedCardProcess",
                "rollout.turn:20:stop",
                {"card process", "is stopped"},
                {},
                false,
                2},
        Planted{"ACardProcessWhoseMemoryIsOnADisk",
                "rollout.turn:20:page",
                {"card process", "waits for its memory: a disk gives it", "pages a second"},
                {},
                false,
                2},
        Planted{"AStoppedTrainer",
                "trainer.update:2:stop",
                {"card process", "is stopped"},
                {},
                false,
                2},
        Planted{"AStoppedRun", "recorder.append:40:stop", {"(run) is stopped; kill -CONT"}, {}},
        Planted{"AKilledRun", "recorder.append:40:kill", {"(run) is gone", "killed?"}, {}},
        Planted{"ABarrierWithoutARank",
                "trainer.update:2:hang",
                {"the update (actor_train)"},
                {"num_gpus_per_node=3", "actor_train.device_mapping=list(range(0,2))",
                 "actor_infer.device_mapping=list(range(2,3))"},
                false,
                3}),
    [](const auto& planted) { return planted.param.name; });

TEST(Diagnose, ASilentJudgeIsNamedWithItsAddress) {
  std::atomic<bool> is_over = false;
  plugin::support::TestServer server([&](const httplib::Request&, httplib::Response&) {
    while (!is_over) ::usleep(1000);
  });
  TempFolder folder;
  const Planted planted{
      "",
      "",
      {},
      {"~rewards.answer", "+rewards.answer.type=llm_judge", "+rewards.answer.timeout_s=600",
       "+rewards.answer.args={url: '" + server.url() + "', model: m}"},
      true};
  {
    Process run(command_of(planted, folder), folder);
    expect_said(first_stall(folder),
                {"reward answer waits", "a call of a server waits", server.url()}, run);
  }
  is_over = true;
}

TEST(Diagnose, AStoppedChildIsNamed) {
  TempFolder folder;
  Process run(command_of({"", "", {}, scored_by("sleeps"), true}, folder), folder);
  const json said = first_stall(folder);
  ASSERT_TRUE(said.is_object()) << run.err();
  std::vector<pid_t> children;
  for (const json& wait : said.at("waits"))
    if (const pid_t child = wait.at("child"); child > 0) children.push_back(child);
  ASSERT_FALSE(children.empty()) << said.dump(1);
  for (const pid_t child : children) ASSERT_EQ(::kill(child, SIGSTOP), 0);
  const json stopped = diagnosed(found_run(folder), folder);
  for (const pid_t child : children) ::kill(child, SIGCONT);
  expect_said(stopped, {"which is stopped"}, run);
  EXPECT_EQ(stopped.at("cause"), "stopped");
}

// COHORT_HEALTHY_RUNS says how many.
TEST(Diagnose, HealthyRunsRaiseNoAlarm) {
  const char* wanted = std::getenv("COHORT_HEALTHY_RUNS");
  const int runs = wanted == nullptr ? 2 : std::atoi(wanted);
  size_t looks = 0;
  for (int i = 0; i < runs; ++i) {
    TempFolder folder;
    Process run(test::tiny_run(folder), folder);
    while (run.is_running()) {
      if (const std::string path = found_run(folder); !path.empty()) {
        // A machine that is shared holds a process up for a second or two now and then.
        const json said = diagnosed(path, folder, "5");
        if (!said.is_object()) continue;
        ++looks;
        EXPECT_EQ(said.at("cause"), "none") << said.dump(1);
      }
    }
    EXPECT_EQ(run.wait(), 0) << run.err();
    const json ended = diagnosed(found_run(folder), folder);
    EXPECT_EQ(ended.at("sentence"), "no process of the run is there: it has ended");
  }
  EXPECT_GT(looks, 0U);
}

TEST(Diagnose, WhatIsNoRunIsRefused) {
  TempFolder folder;
  Process process({test::binary("actor-node"), "diagnose", folder.path().string()}, folder);
  EXPECT_EQ(process.wait(), 2);
  EXPECT_NE(process.err().find("no run's folder (it has no config.yaml)"), std::string::npos);
}

}  // namespace
}  // namespace cohort
