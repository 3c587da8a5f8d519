// The whole node as a user runs it: real processes, real files. A tiny policy keeps a run under a
// second or two.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::config_path;
using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;
using test::tiny_run;

size_t line_count(const std::filesystem::path& path) {
  std::string text = test::slurp(path);
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::filesystem::path only_run(const TempFolder& folder) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path() / "frozen_lake", error))
    return entry.path();
  return {};
}

TEST(Run, LeavesEverythingBehindThatItPromises) {
  TempFolder folder;
  Process run(tiny_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  std::string path = run_folder(run);
  for (const char* name :
       {"config.yaml", "plan.json", "metrics.jsonl", "trace.json", "report.html",
        "checkpoints/step_0/model.safetensors", "checkpoints/step_4/state.json", "log/node_0.log"})
    EXPECT_TRUE(std::filesystem::exists(path + "/" + name)) << name;
  std::string out = run.out();
  EXPECT_EQ(out.substr(out.rfind("run: ")), "run: " + path + "\n")
      << "the last line names the folder";
  std::ifstream in(path + "/metrics.jsonl");
  size_t rows = 0;
  for (std::string line; std::getline(in, line); ++rows) {
    auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("step").get<size_t>(), rows);
    EXPECT_TRUE(row.contains("param_hash") && row.contains("loss")) << line;
    if (rows > 0) {
      for (const char* key : {"reward/mean", "time/generate_s", "time/update_s",
                              "orchestrator_share", "tokens_per_s"})
        EXPECT_TRUE(row.contains(key)) << key << " in " << line;
    }
    if (rows % 2 == 0) {
      EXPECT_TRUE(row.contains("val/success")) << line;
    }
  }
  EXPECT_EQ(rows, 5U);
  std::ifstream trace(path + "/trace.json");
  std::map<std::string, size_t> events;
  for (const auto& event : nlohmann::json::parse(trace))
    ++events[event.at("ph").get<std::string>()];
  EXPECT_EQ(events["s"], 4U) << "an arrow from each step's rollout to its update";
  EXPECT_EQ(events["f"], 4U);
}

TEST(Run, StreamHoldsEveryTrajectoryOnceAndVerifies) {
  TempFolder folder;
  Process run(tiny_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  std::string path = run_folder(run);
  Process verify({test::binary("traj"), "verify", path}, folder);
  EXPECT_EQ(verify.wait(), 0) << verify.out() << verify.err();
  std::string jsonl = (folder.path() / "all.jsonl").string();
  Process exported({test::binary("traj"), "export", path, "--jsonl", jsonl}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  EXPECT_EQ(line_count(jsonl), 48U + 4 * 32 + 3 * 2 * 16)
      << "FLOW-1: warm start, 4 steps, 3 evaluations of 2 kinds";
}

TEST(Run, TwoRunsOfOneSeedHaveEqualHashesAndAnotherSeedHasNot) {
  TempFolder a, b, c;
  Process first(tiny_run(a, {"seed=7"}), a);
  ASSERT_EQ(first.wait(), 0) << first.err();
  Process second(tiny_run(b, {"seed=7", "max_running_requests=4", "cards.threads_per_card=1",
                              "placement.offload=never"}),
                 b);
  ASSERT_EQ(second.wait(), 0) << second.err();
  Process third(tiny_run(c, {"seed=8"}), c);
  ASSERT_EQ(third.wait(), 0) << third.err();
  EXPECT_EQ(hashes(run_folder(first)).size(), 5U);
  EXPECT_EQ(hashes(run_folder(first)), hashes(run_folder(second)))
      << "neither batch composition nor threads may change a bit";
  EXPECT_NE(hashes(run_folder(first)), hashes(run_folder(third)));
}

/// Returns the line of the summary that compares the policy before and after the run.
std::string held_out(Process& process) {
  const std::string text = process.out();
  const size_t begin = text.find("held-out success, sampled");
  EXPECT_NE(begin, std::string::npos) << text;
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Run, KilledAtAnyStepAndResumedEndsWithTheSameHash) {
  TempFolder whole;
  Process reference(tiny_run(whole), whole);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  auto expected = hashes(run_folder(reference));
  for (size_t rows : {0U, 1U, 3U}) {
    TempFolder folder;
    Process victim(tiny_run(folder), folder);
    test::wait_until(
        [&] {
          auto run = only_run(folder);
          return !victim.is_running() ||
                 (!run.empty() && std::filesystem::exists(run / "metrics.jsonl") &&
                  line_count(run / "metrics.jsonl") >= rows);
        },
        60000);
    victim.send(SIGKILL);
    victim.wait();
    Process resumed(tiny_run(folder, {"resume_from_checkpoint=true"}), folder);
    ASSERT_EQ(resumed.wait(), 0) << "killed after " << rows << " rows: " << resumed.err();
    EXPECT_EQ(hashes(run_folder(resumed)), expected) << "killed after " << rows << " rows";
    EXPECT_EQ(held_out(resumed), held_out(reference)) << "before is before the run, not its rest";
    Process verify({test::binary("traj"), "verify", run_folder(resumed)}, folder);
    EXPECT_EQ(verify.wait(), 0) << verify.out();
  }
}

void ends_on_ctrl_c(const std::vector<std::string>& more) {
  TempFolder folder;
  Process run(tiny_run(folder, more), folder);
  ASSERT_TRUE(test::wait_until(
      [&] {
        auto path = only_run(folder);
        return !path.empty() && line_count(path / "metrics.jsonl") >= 2;
      },
      60000));
  run.send(SIGINT);
  ASSERT_EQ(run.wait(), 0) << run.err();
  auto rows = hashes(run_folder(run));
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(std::filesystem::exists(run_folder(run) + "/checkpoints/step_" +
                                      std::to_string(rows.rbegin()->first)));
}

TEST(Run, CtrlCFinishesTheStepSavesAndExitsZero) {
  ends_on_ctrl_c({"max_steps=500", "save_steps=1000"});
}

TEST(Run, WithoutAStepCountItGoesOnUntilCtrlC) {
  ends_on_ctrl_c(
      {"max_steps=-1", "save_steps=1000", "actor_train.training_args.lr_scheduler_type=constant"});
}

TEST(Run, RunningNormsOutlastAResume) {
  // The longer start reaches the goal now and then: scores differ.
  const std::vector<std::string> start = {"actor_train.training_args.lr_scheduler_type=constant",
                                          "warm_start.steps=120", "warm_start.batch_size=16"};
  std::vector<std::string> more = start;
  more.insert(more.end(), {"reward_normalization.norm_mean_type=running",
                           "reward_normalization.norm_std_type=running"});
  TempFolder whole, folder, plain;
  Process reference(tiny_run(whole, more), whole);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  const std::string expected = hashes(run_folder(reference)).at(4);
  more.emplace_back("max_steps=2");
  Process first(tiny_run(folder, more), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  more.back() = "resume_from_checkpoint=true";
  Process resumed(tiny_run(folder, more), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(hashes(run_folder(resumed)).at(4), expected);
  Process other(tiny_run(plain, start), plain);
  ASSERT_EQ(other.wait(), 0) << other.err();
  EXPECT_NE(hashes(run_folder(other)).at(4), expected);
}

struct BadStart {
  std::vector<std::string> overrides;
  std::string expected;
};

TEST(Run, WhatCannotRunIsRefusedBeforeAnythingIsMade) {
  const std::vector<BadStart> cases = {
      {{"+actor_train.traning_args.learning_rate=1"}, "traning_args"},
      {{"max_steps=many"}, "max_steps"},
      {{"actor_infer.device_mapping=list(range(0,1))"}, "actor_infer"},
      {{"cards.memory_bytes=1050KiB", "cards.reserve_bytes=1MiB"}, "card "},
      {{"pretrain=/nonexistent/model"}, "/nonexistent/model"},
      {{"resume_from_checkpoint=/nonexistent/run"}, "/nonexistent/run"},
  };
  for (const BadStart& bad : cases) {
    TempFolder folder;
    Process run(tiny_run(folder, bad.overrides), folder);
    EXPECT_GT(run.wait(5000), 0) << bad.overrides.front();
    EXPECT_NE(run.err().find(bad.expected), std::string::npos) << run.err();
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "frozen_lake")) << bad.overrides.front();
  }
}

/// Runs `command` where `folder` is a disk of `size`; exit code 77 where namespaces are not
/// allowed.
std::vector<std::string> on_small_disk(const std::filesystem::path& folder, const std::string& size,
                                       const std::vector<std::string>& command) {
  std::vector<std::string> all = {"unshare",
                                  "-rm",
                                  "sh",
                                  "-c",
                                  "mount -t tmpfs -o size=" + size + " tmpfs " + folder.string() +
                                      " 2>/dev/null || exit 77; \"$@\"; code=$?; " +
                                      test::binary("traj") + " verify " + folder.string() +
                                      "/frozen_lake/*; echo verify=$?; exit $code",
                                  "sh"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

TEST(Run, FullDiskEndsTheRunWithItsNameAndAStreamThatVerifies) {
  TempFolder folder;
  TempFolder disk;
  auto command = tiny_run(disk, {"max_steps=3000", "eval_steps=3000", "save_steps=3000"});
  Process run(on_small_disk(disk.path(), "6m", command), folder);
  int code = run.wait(60000);
  if (code == 77) GTEST_SKIP() << "no user namespace with a tmpfs here";
  EXPECT_EQ(code, 1) << run.err();
  EXPECT_NE(run.err().find("No space left"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find(disk.path().string()), std::string::npos) << run.err();
  EXPECT_NE(run.out().find("verify=0"), std::string::npos) << run.out();
  EXPECT_EQ(run.err().find("terminate"), std::string::npos) << run.err();
}

TEST(Run, DiskTooSmallFromTheStartIsRefused) {
  TempFolder folder;
  TempFolder disk;
  Process run(on_small_disk(disk.path(), "2m", tiny_run(disk)), folder);
  int code = run.wait(10000);
  if (code == 77) GTEST_SKIP() << "no user namespace with a tmpfs here";
  EXPECT_GT(code, 0);
  EXPECT_NE(run.err().find("free"), std::string::npos) << run.err();
}

TEST(Run, MissingConfigFileIsNamed) {
  TempFolder folder;
  Process run({test::binary("actor-node"), "run", "/nonexistent/x.yaml"}, folder);
  EXPECT_EQ(run.wait(5000), 2);
  EXPECT_NE(run.err().find("/nonexistent/x.yaml"), std::string::npos) << run.err();
}

TEST(Run, ReferenceAndKlTermsRun) {
  TempFolder folder;
  std::vector<std::string> with_reference = {
      "init_kl_coef=0.05", "add_token_level_kl=true", "use_kl_loss=true",
      "kl_loss_coef=0.01", "kl_penalty=k3",           "+reference.device_mapping=list(range(1,2))"};
  Process run(tiny_run(folder, with_reference), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  std::ifstream in(run_folder(run) + "/metrics.jsonl");
  std::string line;
  std::vector<double> kl;
  while (std::getline(in, line))
    if (auto row = nlohmann::json::parse(line); row.contains("critic/kl"))
      kl.push_back(row.at("critic/kl").get<double>());
  ASSERT_EQ(kl.size(), 4U);
  EXPECT_NEAR(kl.front(), 0, 1e-5) << "before the first update the policy is its reference";
  EXPECT_GT(kl.back(), 1e-6) << "afterwards it has moved away";
}

// -- what a start says of what it found ---------------------------------------

TEST(Resume, WithoutAnyCheckpointIsAWarning) {
  TempFolder folder;
  Process run(tiny_run(folder, {"resume_from_checkpoint=true", "max_steps=1"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_NE(run.err().find("resume_from_checkpoint: no run in " +
                           (folder.path() / "frozen_lake").string() + " has a checkpoint"),
            std::string::npos)
      << run.err();
}

// The tail that a killed writer left is cut, and log, console and stream say so.
TEST(Resume, TellsOfTheTornTailThatItCut) {
  TempFolder folder;
  Process first(tiny_run(folder, {"max_steps=1"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  const std::filesystem::path path = run_folder(first);
  const auto segment = path / "stream" / "segment-000000.cohort";
  std::filesystem::remove(path / "stream" / "segment-000000.index");
  std::filesystem::remove(path / "stream" / "steps.index");
  std::filesystem::resize_file(segment, std::filesystem::file_size(segment) - 10);
  Process again(tiny_run(folder, {"max_steps=2", "resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(again.wait(), 0) << again.err();
  EXPECT_NE(again.err().find("cut a torn tail of "), std::string::npos) << again.err();
  EXPECT_NE(test::slurp(path / "log" / "node_0.log").find("cut a torn tail of "),
            std::string::npos);
  Process events({test::binary("traj"), "records", path, "--type", "event"}, folder);
  EXPECT_EQ(events.wait(), 0) << events.err();
  EXPECT_NE(events.out().find(R"("kind":"stream")"), std::string::npos) << events.out();
}

TEST(Resume, ADamagedCheckpointNamesTheOneBefore) {
  TempFolder folder;
  Process first(tiny_run(folder, {"max_steps=2"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  const auto checkpoints = std::filesystem::path(run_folder(first)) / "checkpoints";
  std::filesystem::resize_file(checkpoints / "step_2" / "model.safetensors", 100);
  Process again(tiny_run(folder, {"max_steps=3", "resume_from_checkpoint=true"}), folder);
  EXPECT_EQ(again.wait(), 1) << again.err();
  const std::string remedy = "resume_from_checkpoint=" + (checkpoints / "step_1").string();
  const size_t at = again.err().find(remedy);
  ASSERT_NE(at, std::string::npos) << again.err();
  EXPECT_EQ(again.err().find(remedy, at + 1), std::string::npos) << again.err();
}

TEST(Resume, ACheckpointThatCannotBeReadIsOneLine) {
  TempFolder folder;
  const auto checkpoints = folder.path() / "frozen_lake" / "20200101-000000" / "checkpoints";
  std::filesystem::create_directories(checkpoints);
  std::filesystem::create_symlink("step_1", checkpoints / "step_1");  // ends nowhere
  Process newest(tiny_run(folder, {"resume_from_checkpoint=true"}), folder);
  EXPECT_EQ(newest.wait(), 1) << newest.err();
  EXPECT_NE(newest.err().find("step_1: cannot be read: "), std::string::npos) << newest.err();
  const std::string from = "resume_from_checkpoint=" + (checkpoints / "step_1").string();
  Process named(tiny_run(folder, {from}), folder);
  EXPECT_EQ(named.wait(), 2) << named.err();
}

TEST(Programs, AnEmptyNameIsNoRun) {
  TempFolder folder;
  for (const char* command : {"top", "serve"}) {
    Process process({test::binary("actor-node"), command, ""}, folder);
    EXPECT_EQ(process.wait(), 2) << process.err();
    EXPECT_EQ(process.err().rfind("error: ", 0), 0U) << process.err();
  }
}

TEST(Programs, AFullStdoutIsTwo) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const std::string err = " > /dev/full 2> /dev/null";
  for (const std::string& words : {"plan " + test::config_path(), std::string("--version")}) {
    const int status = std::system((test::binary("actor-node") + " " + words + err).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << words;
  }
}

}  // namespace
}  // namespace cohort
