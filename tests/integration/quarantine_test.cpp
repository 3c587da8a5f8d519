// A prompt that kills, or hangs, its rollouts costs its own trajectories, never the run; a rollout
// that is slow does not hold up the others.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint64_t k_steps = 4, k_poisoned_step = 2;
constexpr uint32_t k_groups = 8, k_group_size = 4, k_poisoned_group = 3;

const std::vector<std::string> k_two_rollouts = {
    "num_gpus_per_node=3", "actor_infer.device_mapping=list(range(1,3))", "max_running_requests=4"};

/// Every training trajectory of a run's stream, its last record.
std::map<proto::TrajectoryKey, proto::Trajectory> trajectories(const std::string& run) {
  std::map<proto::TrajectoryKey, proto::Trajectory> found;
  auto reader = stream::Reader::open(run + "/stream");
  EXPECT_TRUE(reader) << reader.error().detail;
  for (;;) {
    auto record = reader->next();
    EXPECT_TRUE(record) << record.error().detail;
    if (!record || !*record) return found;
    if ((*record)->info.type != stream::RecordType::trajectory) continue;
    auto t = (*record)->trajectory();
    EXPECT_TRUE(t) << t.error().detail;
    if (t->key.kind == proto::TrajectoryKind::train) found[t->key] = std::move(*t);
  }
}

/// The run that nobody disturbs.
struct Calm {
  std::map<uint64_t, std::string> hashes;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> seeds;  // of (step, group)
  uint64_t seed(uint32_t group) const { return seeds.at({k_poisoned_step, group}); }
};

const Calm& calm() {
  static const Calm result = [] {
    TempFolder folder;
    Process run(test::tiny_run(folder), folder);
    EXPECT_EQ(run.wait(), 0) << run.err();
    Calm found{test::hashes(test::run_folder(run)), {}};
    for (const auto& [key, t] : trajectories(test::run_folder(run)))
      found.seeds[{key.step, key.group}] = t.seed;
    return found;
  }();
  return result;
}

/// `command` in processes that obey `points`, each of them and its successors.
std::vector<std::string> obeying(const std::string& points, std::vector<std::string> command,
                                 int rollouts) {
  command = test::in_processes(std::move(command), 1 + rollouts);
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=" + points});
  return command;
}

std::string kills_at(uint64_t seed) { return "rollout.play@" + std::to_string(seed) + ":1:kill"; }

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_quarantined(const std::string& run) {
  const auto all = trajectories(run);
  EXPECT_EQ(all.size(), k_steps * k_groups * k_group_size);
  for (const auto& [key, t] : all) {
    const bool is_poisoned = key.step == k_poisoned_step && key.group == k_poisoned_group;
    EXPECT_EQ(t.mask_reason.starts_with("quarantined"), is_poisoned)
        << proto::to_string(key) << ": " << t.mask_reason;
  }
}

TEST(Quarantine, APromptThatKillsItsProcessesIsPlayedNoMore) {
  const std::string poison = kills_at(calm().seed(k_poisoned_group));
  std::map<uint64_t, std::string> hashes;
  TempFolder folders[2];
  for (int rollouts : {1, 2}) {  // no layout changes the hashes
    SCOPED_TRACE(rollouts);
    std::vector<std::string> more = {"keep_checkpoints=0"};
    if (rollouts == 2) more.insert(more.end(), k_two_rollouts.begin(), k_two_rollouts.end());
    const TempFolder& folder = folders[rollouts - 1];
    Process run(obeying(poison, test::tiny_run(folder, more), rollouts), folder);
    ASSERT_EQ(run.wait(90000), 0) << run.err();
    const std::string path = test::run_folder(run);
    const auto found = test::hashes(path);
    for (uint64_t step = 0; step <= k_steps; ++step)
      EXPECT_EQ(found.at(step) == calm().hashes.at(step), step < k_poisoned_step) << step;
    if (!hashes.empty()) {
      EXPECT_EQ(found, hashes);
    }
    hashes = found;
    expect_quarantined(path);
    const test::StreamFacts facts = test::read_stream(path);
    EXPECT_EQ(test::flow_1(facts, k_steps, k_groups, k_group_size), "");
    EXPECT_EQ(facts.of_kind("lost").size(), 4U);
    ASSERT_EQ(facts.of_kind("quarantine").size(), 1U);
    const auto entry = facts.of_kind("quarantine").front()["entry"];
    EXPECT_EQ(entry["step"], k_poisoned_step);
    EXPECT_EQ(entry["group"], k_poisoned_group);
    EXPECT_EQ(entry["prompt"], "FrozenLakeHoles/" + std::to_string(calm().seed(k_poisoned_group)));
    EXPECT_EQ(entry["deaths"].size(), 4U);
    EXPECT_NE(entry["deaths"][0].get<std::string>().find("killed by signal 9"), std::string::npos);
    const auto lines = lines_of(path + "/quarantine.jsonl");
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(nlohmann::json::parse(lines.front()), entry);
    EXPECT_NE(run.err().find("is quarantined"), std::string::npos) << run.err();
  }
  // From before that step on again: the prompt is known, nobody dies.
  const std::string path = folders[0].path().string() + "/frozen_lake";
  const std::string id = std::filesystem::directory_iterator(path)->path().filename();
  Process resumed(obeying(poison,
                          test::tiny_run(folders[0], {"resume_from_checkpoint=" + path + "/" + id +
                                                      "/checkpoints/step_1"}),
                          1),
                  folders[0]);
  ASSERT_EQ(resumed.wait(90000), 0) << resumed.err();
  EXPECT_EQ(test::hashes(path + "/" + id), hashes);
  const test::StreamFacts facts = test::read_stream(path + "/" + id);
  EXPECT_EQ(facts.of_kind("lost").size(), 4U) << "those before it was resumed";
  EXPECT_EQ(facts.of_kind("skip").size(), 1U);
  expect_quarantined(path + "/" + id);
}

// One in eight groups may be a bad prompt; the next one says that it is not the prompts.
TEST(Quarantine, ARunThatDiesOfWhateverItPlaysEndsWithOneLine) {
  TempFolder folder;
  Process run(
      obeying(kills_at(calm().seed(1)) + ";" + kills_at(calm().seed(5)), test::tiny_run(folder), 1),
      folder);
  EXPECT_EQ(run.wait(90000), 1);
  for (const char* part : {"error: actor_infer in phase generate: 2 of 8 groups of step 2",
                           "1 at most are quarantined", "killed by signal 9"})
    EXPECT_NE(run.err().find(part), std::string::npos) << run.err();
}

// It answers pings, and does not get on: to be lost once convicts nobody.
TEST(Quarantine, AProcessThatHangsInAPromptIsLost) {
  TempFolder folder;
  const std::filesystem::path claim = folder.path() / "claim";
  const std::string point =
      "rollout.play@" + std::to_string(calm().seed(k_poisoned_group)) + ":1:hang";
  Process run(test::with_failpoint(
                  test::in_processes(test::tiny_run(folder, {"recovery.group_timeout_s=2"}), 2),
                  point, claim),
              folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  EXPECT_EQ(test::hashes(test::run_folder(run)), calm().hashes);
  const test::StreamFacts facts = test::read_stream(test::run_folder(run));
  EXPECT_EQ(test::flow_1(facts, k_steps, k_groups, k_group_size), "");
  ASSERT_EQ(facts.of_kind("lost").size(), 1U);
  EXPECT_NE(facts.of_kind("lost").front()["detail"].get<std::string>().find("has not got on"),
            std::string::npos);
  EXPECT_TRUE(facts.of_kind("quarantine").empty());
}

// Each of its turns takes 100 ms, from the first on.
TEST(Straggler, WhatASlowRolloutHasIsPlayedByTheOtherUntilItRests) {
  std::vector<std::string> more = k_two_rollouts;
  more.emplace_back("recovery.straggler_floor_s=0.3");
  TempFolder folder;
  const std::filesystem::path claim = folder.path() / "claim";
  Process run(test::with_failpoint(test::in_processes(test::tiny_run(folder, more), 3),
                                   "rollout.turn:1:slow", claim),
              folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  EXPECT_EQ(test::hashes(test::run_folder(run)), calm().hashes);
  const test::StreamFacts facts = test::read_stream(test::run_folder(run));
  EXPECT_EQ(test::flow_1(facts, k_steps, k_groups, k_group_size), "");
  EXPECT_GE(facts.of_kind("hedge").size(), 3U);
  ASSERT_EQ(facts.of_kind("straggler").size(), 1U);
  // Which of the two is slow is a matter of chance; it rests until the end.
  const std::string who = facts.of_kind("straggler").front()["detail"];
  const uint64_t since = facts.of_kind("straggler").front()["step"];
  for (const nlohmann::json& hedge : facts.of_kind("hedge")) {
    EXPECT_LE(hedge["step"].get<uint64_t>(), since);
    EXPECT_EQ(hedge["detail"].get<std::string>().find(who.substr(0, who.find(')'))),
              std::string::npos)
        << "the slow one plays for the other";
  }
  EXPECT_TRUE(facts.of_kind("lost").empty());
}

}  // namespace
}  // namespace cohort
