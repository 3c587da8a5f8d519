// Runs that train on the recorded trajectories of another, without rollouts.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/recovery.hpp"
#include "tests/support/stream_copy.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string source(const std::string& path) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/" + path;
}

Words sums_run(const TempFolder& folder, const Words& more = {}) {
  return test::small_run(source("configs/arithmetic_rlvr.yaml"), folder,
                         Words{"rollout_batch_size=8", "num_return_sequences_in_group=4",
                               "val_batch_size=8", "max_steps=3", "eval_steps=-1"} +
                             more);
}

class FromStream : public ::testing::Test {
 protected:
  std::string run_of(const Words& command) const {
    Process run(command, folder_);
    EXPECT_EQ(run.wait(), 0) << run.err();
    return run_folder(run);
  }
  Words from(const std::string& run) const { return {"from_stream=" + run, "exp_name=again"}; }
  TempFolder folder_;
};

TEST_F(FromStream, TheSameConfigGivesTheSameParameters) {
  const std::string lake = run_of(test::tiny_run(folder_));
  const std::string again = run_of(test::tiny_run(folder_, from(lake)));
  EXPECT_EQ(hashes(again), hashes(lake));
  EXPECT_EQ(hashes(run_of(test::in_processes(test::tiny_run(folder_, from(lake)), 1))),
            hashes(lake));

  const std::string sums = run_of(sums_run(folder_));
  EXPECT_EQ(hashes(run_of(sums_run(folder_, from(sums)))), hashes(sums));

  Process replay({test::binary("traj"), "replay", lake, "--actors"}, folder_);
  EXPECT_EQ(replay.wait(), 0) << replay.out() << replay.err();
  EXPECT_NE(replay.out().find("replay: 4 of 4 steps equal"), std::string::npos) << replay.out();
}

TEST_F(FromStream, TrajectoriesComeAsTheyCameIfOneAsks) {
  constexpr double k_slow_s = 0.6;
  const std::string lake = run_of(test::tiny_run(folder_));
  const std::string slow = folder_.path() / "slow";
  test::copy_run(lake, slow, [](proto::Trajectory& t) {  // a game of each step took so long
    t.generate_seconds = t.key.group == 3 && t.key.index == 1 ? k_slow_s : 0;
  });
  const std::string paced =
      run_of(test::tiny_run(folder_, from(slow) + Words{"from_stream_paced=true"}));
  EXPECT_EQ(hashes(paced), hashes(lake));
  for (const auto& row : test::metric_rows(paced))
    if (row["step"] > 0) {
      EXPECT_GE(row["time/generate_s"].get<double>(), k_slow_s) << row;
    }
  Process replay({test::binary("traj"), "replay", lake, "--actors", "--speed", "recorded"},
                 folder_);
  EXPECT_EQ(replay.wait(), 0) << replay.out() << replay.err();
  EXPECT_NE(replay.out().find("replay: 4 of 4 steps equal"), std::string::npos) << replay.out();
  Process wrong({test::binary("traj"), "replay", lake, "--speed", "recorded"}, folder_);
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_NE(wrong.err().find("--speed"), std::string::npos) << wrong.err();
}

// Two rollouts play two steps ahead of the update; their trajectories are of several policies.
TEST_F(FromStream, AnAsynchronousRunIsRepeated) {
  const Words ahead = {"async.mode=one_step_off", "async.depth=2", "placement.offload=never"};
  const std::string recorded = run_of(test::tiny_run(folder_, ahead));
  EXPECT_EQ(hashes(run_of(test::tiny_run(folder_, ahead + from(recorded)))), hashes(recorded));
}

TEST_F(FromStream, AnotherRewardScoresTheSameAnswers) {
  const std::string recorded = run_of(sums_run(folder_));
  const std::string again = run_of(
      sums_run(folder_, from(recorded) + Words{"~rewards.answer", "+rewards.answer.type=format",
                                               "+rewards.answer.args={pattern: '7'}"}));
  EXPECT_NE(hashes(again), hashes(recorded));
  auto reader = stream::Reader::open(again + "/stream");
  auto before = stream::Reader::open(recorded + "/stream");
  ASSERT_TRUE(reader && before);
  ASSERT_TRUE(before->index());
  auto index = reader->index();
  ASSERT_TRUE(index);
  size_t compared = 0;
  for (const stream::RecordInfo& info : (*index)->trajectories()) {
    auto record = reader->read(info);
    auto old = before->find(*info.key.trajectory);
    ASSERT_TRUE(record && old && *old);
    const proto::Trajectory now = *record->trajectory(), then = *(*old)->trajectory();
    EXPECT_EQ(now.tokens, then.tokens);
    EXPECT_EQ(now.behavior_logp, then.behavior_logp);
    EXPECT_EQ(now.weight_version_min, then.weight_version_min);
    if (now.key.kind != proto::TrajectoryKind::train) continue;
    EXPECT_EQ(now.score > 0, now.turns.at(0).response.find('7') != std::string::npos);
    ++compared;
  }
  EXPECT_GE(compared, 96U);
}

// A critic is trained on what another run has played.
TEST_F(FromStream, ACriticWarmsUp) {
  const std::string recorded = run_of(sums_run(folder_));
  const std::string again = run_of(
      test::small_run(source("configs/arithmetic_ppo.yaml"), folder_,
                      Words{"rollout_batch_size=8", "num_return_sequences_in_group=4",
                            "val_batch_size=8", "max_steps=3", "eval_steps=-1", "critic_warmup=2",
                            "critic.training_args.per_device_train_batch_size=4",
                            "critic.training_args.gradient_accumulation_steps=4"} +
                          from(recorded)));
  const auto rows = test::metric_rows(again);
  ASSERT_GE(rows.size(), 3U);
  EXPECT_TRUE(rows.back().contains("critic/loss")) << rows.back().dump(1);
}

TEST_F(FromStream, AKilledRunGoesOn) {
  const std::string recorded = run_of(test::tiny_run(folder_));
  Words command = test::tiny_run(folder_, from(recorded));
  Words killed = command;
  killed.insert(killed.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.update:3:kill"});
  Process victim(killed, folder_);
  EXPECT_NE(victim.wait(), 0);
  EXPECT_EQ(hashes(run_of(command + Words{"resume_from_checkpoint=true"})), hashes(recorded));
}

TEST_F(FromStream, WhatDoesNotFitIsRefusedBeforeTheRun) {
  const std::string recorded = run_of(sums_run(folder_, {"max_steps=1"}));
  Process more(sums_run(folder_, from(recorded) + Words{"num_return_sequences_in_group=8"}),
               folder_);
  EXPECT_EQ(more.wait(), 2);
  EXPECT_NE(more.err().find("has not the 8 groups of 8 trajectories"), std::string::npos)
      << more.err();
  Process none(sums_run(folder_, from(folder_.path().string())), folder_);
  EXPECT_EQ(none.wait(), 2);
  EXPECT_NE(none.err().find("from_stream"), std::string::npos) << none.err();
}

/// What rollouts have played for training, by key.
std::map<proto::TrajectoryKey, proto::Trajectory> played(const std::string& run) {
  std::map<proto::TrajectoryKey, proto::Trajectory> all;
  auto reader = stream::Reader::open(run + "/stream");
  EXPECT_TRUE(reader) << run;
  if (!reader) return all;
  const auto index = reader->index();
  EXPECT_TRUE(index);
  for (const stream::RecordInfo& info : (*index)->trajectories()) {
    if (info.key.trajectory->kind != proto::TrajectoryKind::train) continue;
    auto record = reader->read(info);
    EXPECT_TRUE(record);
    auto t = *record->trajectory();
    EXPECT_TRUE(all.emplace(t.key, t).second) << proto::to_string(t.key) << " is there twice";
  }
  return all;
}

void expect_same_play(const std::map<proto::TrajectoryKey, proto::Trajectory>& some,
                      const std::map<proto::TrajectoryKey, proto::Trajectory>& all) {
  for (const auto& [key, t] : some) {
    ASSERT_TRUE(all.contains(key)) << proto::to_string(key);
    EXPECT_EQ(t.tokens, all.at(key).tokens) << proto::to_string(key);
    EXPECT_EQ(t.score, all.at(key).score) << proto::to_string(key);
  }
}

const Words k_record_only = {"record_only=true", "exp_name=recorded"};

// The policy of step 0 plays every step; another run trains on what it has played.
TEST_F(FromStream, ARunThatOnlyRecordsTrainsNothing) {
  const std::string lake = run_of(test::tiny_run(folder_));
  const std::string recorded = run_of(test::tiny_run(folder_, k_record_only));
  const auto rows = test::metric_rows(recorded), trained = test::metric_rows(lake);
  ASSERT_EQ(rows.size(), trained.size());
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("param_hash"), trained.at(0).at("param_hash"));
    EXPECT_EQ(row.at("policy_version"), trained.at(0).at("policy_version"));
    EXPECT_FALSE(row.contains("time/update_s"));
  }
  const auto now = played(recorded), then = played(lake);
  EXPECT_EQ(now.size(), then.size());
  std::map<proto::TrajectoryKey, proto::Trajectory> first;  // before the policies part
  for (const auto& [key, t] : then)
    if (key.step == 1) first.emplace(key, t);
  EXPECT_FALSE(first.empty());
  expect_same_play(first, now);

  const auto again = hashes(run_of(test::tiny_run(folder_, from(recorded))));
  ASSERT_EQ(again.size(), hashes(lake).size());
  EXPECT_EQ(again.at(1), hashes(lake).at(1));
  EXPECT_NE(again.rbegin()->second, hashes(lake).rbegin()->second);
}

TEST_F(FromStream, ARunThatOnlyRecordsIsTheSameAheadInProcessesAndAfterAKill) {
  const auto all = played(run_of(test::tiny_run(folder_, k_record_only)));
  const Words ahead = {"async.mode=fully_async", "async.depth=1.5", "placement.offload=never",
                       "exp_name=ahead"};
  const auto beside = played(
      run_of(test::in_processes(test::tiny_run(folder_, Words{"record_only=true"} + ahead), 2)));
  EXPECT_EQ(beside.size(), all.size());
  expect_same_play(beside, all);

  const Words command = test::tiny_run(folder_, Words{"record_only=true", "exp_name=killed"});
  Words killed = command;
  killed.insert(killed.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.recorded:9:kill"});
  Process victim(killed, folder_);
  EXPECT_NE(victim.wait(), 0);
  const std::string resumed = run_of(command + Words{"resume_from_checkpoint=true"});
  expect_same_play(all, played(resumed));
}

TEST_F(FromStream, NothingToRecordIsRefused) {
  const std::string recorded = run_of(test::tiny_run(folder_, k_record_only));
  Process both(test::tiny_run(folder_, from(recorded) + Words{"record_only=true"}), folder_);
  EXPECT_EQ(both.wait(), 2);
  EXPECT_NE(both.err().find("record_only: true, and from_stream plays nothing"), std::string::npos)
      << both.err();
  Process replay({test::binary("traj"), "replay", recorded}, folder_);
  EXPECT_NE(replay.wait(), 0);
  EXPECT_NE(replay.err().find("record_only"), std::string::npos) << replay.out() << replay.err();
  Process rollout({test::binary("traj"), "replay", recorded, "--rollout"}, folder_);
  EXPECT_EQ(rollout.wait(), 0) << rollout.out() << rollout.err();
}

}  // namespace
}  // namespace cohort
