// Cards in processes of their own: the same run, and what happens when one of them ends.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/holder.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

std::vector<std::string> with_processes(std::vector<std::string> command, int count) {
  command.insert(command.begin() + 2, {"--processes", std::to_string(count)});
  return command;
}

TEST(Processes, GiveTheHashesOfOneProcess) {
  TempFolder folder;
  Process alone(test::tiny_run(folder), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  Process apart(with_processes(test::tiny_run(folder), 2), folder);
  std::vector<pid_t> holders;
  EXPECT_TRUE(test::wait_until(
      [&] { return (holders = test::holders_of(apart.pid())).size() == 2; }, 20000));
  ASSERT_EQ(apart.wait(), 0) << apart.err();
  auto expected = test::hashes(test::run_folder(alone));
  EXPECT_EQ(expected.size(), 5U);
  EXPECT_EQ(test::hashes(test::run_folder(apart)), expected);
  EXPECT_TRUE(test::are_gone(holders));
}

TEST(Processes, ReferenceAndTimeshareWorkAcrossThem) {
  TempFolder folder;
  const std::vector<std::string> more = {"use_kl_loss=true",
                                         "kl_loss_coef=0.1",
                                         "placement.mode=timeshare",
                                         "num_gpus_per_node=2",
                                         "actor_infer.device_mapping=list(range(0,2))",
                                         "reference.device_mapping=list(range(1,2))"};
  Process alone(test::tiny_run(folder, more), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  auto both = more;  // each has the reference, and reads a part of the step
  both.back() = "reference.device_mapping=list(range(0,2))";
  for (const auto& cards : {more, both}) {
    Process apart(with_processes(test::tiny_run(folder, cards), 2), folder);
    ASSERT_EQ(apart.wait(), 0) << apart.err();
    EXPECT_EQ(test::hashes(test::run_folder(apart)), test::hashes(test::run_folder(alone)));
  }
}

/// What travelled in each publish of a run, against the plan that the run printed.
void expect_planned_bytes(const std::string& run, const TempFolder& folder) {
  auto plan = nlohmann::json::parse(test::slurp(run + "/plan.json"));
  uint64_t planned = 0;
  for (const auto& line : plan["reshard"])
    if (line["mode"] == "p2p") planned = line["receive_total_bytes"];
  Process records({test::binary("traj"), "records", run, "--type", "phase"}, folder);
  ASSERT_EQ(records.wait(), 0) << records.err();
  std::istringstream lines(records.out());
  int publishes = 0;
  for (std::string line; std::getline(lines, line);) {
    auto data = nlohmann::json::parse(line)["data"];
    if (data["phase"] != "publish") continue;
    ++publishes;
    uint64_t sent = 0, received = 0;
    for (const auto& move : data["cards"])
      if (move["verb"] == "reshard")
        (move["role"] == "actor_train" ? sent : received) += move["moved_bytes"].get<uint64_t>();
    EXPECT_EQ(sent, planned) << line;
    EXPECT_EQ(received, planned) << line;
  }
  EXPECT_GE(publishes, 5);
}

// The pass before the update is computed by all train cards together; two optimizer steps, so that
// it matters.
TEST(Processes, OldLogProbsOfAPassAreTheSameOverCards) {
  TempFolder folder;
  const std::string batch = "actor_train.training_args.per_device_train_batch_size=";
  const std::vector<std::string> asked = {"enable_old_logprobs_recompute=true", "max_steps=2"};
  auto run_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), asked.begin(), asked.end());
    Process run(test::tiny_run(folder, more), folder);
    EXPECT_EQ(run.wait(), 0) << run.err();
    return test::hashes(test::run_folder(run));
  };
  const auto expected = run_with({});
  EXPECT_EQ(expected.size(), 3U);
  EXPECT_EQ(run_with({"num_gpus_per_node=3", "actor_train.device_mapping=list(range(0,2))",
                      "actor_infer.device_mapping=list(range(2,3))", batch + "2"}),
            expected);
}

// One card, two train and two infer cards, four cards in turns, four processes: the same policy.
TEST(Processes, NoLayoutOfCardsChangesTheHashes) {
  TempFolder folder;
  Process alone(test::tiny_run(folder), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  auto expected = test::hashes(test::run_folder(alone));
  const std::string accumulate = "actor_train.training_args.gradient_accumulation_steps=";
  const std::vector<std::string> apart = {
      "num_gpus_per_node=4", "actor_train.device_mapping=list(range(0,2))",
      "actor_infer.device_mapping=list(range(2,4))", accumulate + "2"};
  auto few_at_a_time = apart;  // groups are handed out as replicas have room
  few_at_a_time.push_back("max_running_requests=4");
  const std::vector<std::string> together = {"num_gpus_per_node=4", "placement.mode=timeshare",
                                             "actor_train.device_mapping=list(range(0,4))",
                                             "actor_infer.device_mapping=list(range(0,4))",
                                             accumulate + "1"};
  struct Case {
    std::vector<std::string> cards;
    int stage, processes;
  };
  const std::vector<Case> cases = {
      {apart, 1, 0}, {few_at_a_time, 3, 4}, {together, 2, 0}, {together, 3, 2}};
  for (const Case& x : cases) {
    auto more = x.cards;
    more.push_back("actor_train.strategy_args.strategy_config.zero_optimization.stage=" +
                   std::to_string(x.stage));
    auto command = test::tiny_run(folder, more);
    if (x.processes > 0) command = with_processes(command, x.processes);
    Process run(command, folder);
    ASSERT_EQ(run.wait(), 0) << run.err();
    EXPECT_EQ(test::hashes(test::run_folder(run)), expected)
        << "ZeRO " << x.stage << ", processes " << x.processes;
    expect_planned_bytes(test::run_folder(run), folder);
  }
}

// Megatron's cuts become a cut of the state over all cards: the batches, and the hashes, are those
// of the copies that the config means.
TEST(Processes, CutsOfTheModelInTrainingChangeNoHash) {
  TempFolder folder;
  Process alone(test::tiny_run(folder), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  const std::string strategy = "actor_train.strategy_args.";
  const std::vector<std::string> cut = {
      "num_gpus_per_node=5",
      "actor_train.device_mapping=list(range(0,4))",
      "actor_infer.device_mapping=list(range(4,5))",
      "actor_train.training_args.gradient_accumulation_steps=2",  // of two copies
      strategy + "strategy_name=megatron_train",
      "++" + strategy +
          "strategy_config={tensor_model_parallel_size: 2, context_parallel_size: 1}"};
  Process run(with_processes(test::tiny_run(folder, cut), 3), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
  expect_planned_bytes(test::run_folder(run), folder);
  const auto plan = nlohmann::json::parse(test::slurp(test::run_folder(run) + "/plan.json"));
  bool is_told = false;
  for (const auto& note : plan["keys_without_effect"])
    is_told = is_told || note.dump().find(
                             "TP 2: in a run each of its 4 cards takes whole "
                             "sequences, in the batches of 2 copies; the model's "
                             "state is cut over all of them (ZeRO 3)") != std::string::npos;
  EXPECT_TRUE(is_told) << plan["keys_without_effect"];
}

const std::vector<std::string> k_tensor_parallel = {
    "num_gpus_per_node=4",
    "model.vocab_size=34",
    "actor_train.device_mapping=list(range(0,2))",
    "actor_infer.device_mapping=list(range(2,4))",
    "actor_train.training_args.gradient_accumulation_steps=2",
    "actor_infer.strategy_args.strategy_config.tensor_parallel_size=2"};

// One replica of two cards: by memory between threads, by Gloo between processes.
TEST(Processes, ATensorParallelRolloutPlaysAlikeInThreadsAndInProcesses) {
  TempFolder folder;
  Process alone(test::tiny_run(folder, k_tensor_parallel), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  expect_planned_bytes(test::run_folder(alone), folder);
  Process apart(with_processes(test::tiny_run(folder, k_tensor_parallel), 4), folder);
  ASSERT_EQ(apart.wait(), 0) << apart.err();
  EXPECT_EQ(test::hashes(test::run_folder(apart)), test::hashes(test::run_folder(alone)));
  expect_planned_bytes(test::run_folder(apart), folder);
}

// The ranks of a group are lost together, whichever of them dies, and come back together.
TEST(Processes, AKilledRankOfARolloutCostsTimeOnly) {
  TempFolder folder;
  auto more = k_tensor_parallel;
  more.insert(more.end(), {"max_steps=12", "eval_steps=-1"});
  Process alone(test::tiny_run(folder, more), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  for (int slot : {2, 3}) {
    TempFolder own;
    Process run(with_processes(test::tiny_run(own, more), 4), own);
    ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(own); }, 60000)) << run.err();
    ASSERT_GT(test::kill_holder(run.pid(), slot), 0);
    EXPECT_EQ(run.wait(60000), 0) << run.err();
    EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
    const std::string said = run.out() + run.err();
    EXPECT_NE(said.find("process " + std::to_string(slot) + " (cards [" + std::to_string(slot) +
                        "]: actor_infer) was killed by signal 9"),
              std::string::npos)
        << said;
  }
}

TEST(Processes, ATrainCardThatIsKilledIsNamed) {
  TempFolder folder;
  Process run(with_processes(test::tiny_run(folder, {"max_steps=2000", "eval_steps=-1"}), 2),
              folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  const std::vector<pid_t> holders = test::holders_of(run.pid());
  ASSERT_GT(test::kill_holder(run.pid(), 0), 0);
  EXPECT_EQ(run.wait(20000), 1);
  EXPECT_NE(run.err().find("error: process 0 (cards [0]: actor_train) in phase supervision: it was "
                           "killed by signal 9"),
            std::string::npos)
      << run.err();
  EXPECT_TRUE(test::are_gone(holders));
}

// Whatever the run was doing (a step over four ranks, a publish, an offload): killed there and
// resumed, on other cards and another ZeRO stage, it ends where the undisturbed one does.
TEST(Processes, AKilledRankIsNamedAndTheResumedRunGivesTheUndisturbedHashes) {
  TempFolder folder;
  const std::string accumulate = "actor_train.training_args.gradient_accumulation_steps=";
  const std::string stage = "actor_train.strategy_args.strategy_config.zero_optimization.stage=";
  const std::vector<std::string> cards = {"num_gpus_per_node=4", "placement.mode=timeshare",
                                          "max_steps=12", "eval_steps=-1", "save_steps=2"};
  auto command = [&](int count, int zero, std::vector<std::string> more) {
    std::vector<std::string> all = cards;
    std::string range = "list(range(0," + std::to_string(count) + "))";
    all.push_back("actor_train.device_mapping=" + range);
    all.push_back("actor_infer.device_mapping=" + range);
    all.push_back(accumulate + std::to_string(4 / count));
    all.push_back(stage + std::to_string(zero));
    all.insert(all.end(), more.begin(), more.end());
    return test::tiny_run(folder, all);
  };
  Process calm(command(2, 1, {"exp_name=calm"}), folder);
  ASSERT_EQ(calm.wait(), 0) << calm.err();
  auto expected = test::hashes(test::run_folder(calm));
  for (int slot : {1, 3}) {
    std::string name = "killed_" + std::to_string(slot);
    Process run(with_processes(command(4, 3, {"exp_name=" + name}), 4), folder);
    auto has_checkpoint = [&] {
      std::error_code error;
      for (const auto& found : std::filesystem::directory_iterator(folder.path() / name, error))
        if (std::filesystem::exists(found.path() / "checkpoints" / "step_2")) return true;
      return false;
    };
    ASSERT_TRUE(test::wait_until(has_checkpoint, 60000)) << run.err();
    ASSERT_GT(test::kill_holder(run.pid(), slot), 0);
    ASSERT_EQ(run.wait(20000), 1) << run.err();
    EXPECT_NE(run.err().find("process " + std::to_string(slot) + " (cards [" +
                             std::to_string(slot) + "]: actor_train, actor_infer)"),
              std::string::npos)
        << run.err();
    Process resumed(command(2, 2, {"exp_name=" + name, "resume_from_checkpoint=true"}), folder);
    ASSERT_EQ(resumed.wait(), 0) << resumed.err();
    EXPECT_EQ(test::hashes(test::run_folder(resumed)), expected) << "slot " << slot;
  }
}

TEST(Processes, NobodyOutlivesTheRun) {
  TempFolder folder;
  Process run(with_processes(test::tiny_run(folder, {"max_steps=2000", "eval_steps=-1"}), 2),
              folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  std::vector<pid_t> all = test::holders_of(run.pid());
  EXPECT_EQ(all.size(), 2U);
  for (pid_t server : test::children_of(run.pid())) all.push_back(server);
  EXPECT_EQ(all.size(), 3U) << "one program, one environment: loaded once";
  run.send(SIGKILL);
  run.wait(20000);
  EXPECT_TRUE(test::are_gone(all, 10000));
}

// What the processes are forked from can be lost, too: to the run that is the loss of all of them.
TEST(Processes, ALostForkServerIsTheLossOfItsProcesses) {
  TempFolder folder;
  const std::vector<std::string> more = {"max_steps=12", "eval_steps=-1"};
  std::vector<std::string> command = with_processes(test::tiny_run(folder, more), 2);
  command.insert(command.begin() + 2, {"--restarts", "2"});
  Process run(command, folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  const pid_t server = test::child_of(test::child_of(run.pid()));
  ASSERT_GT(server, 0);
  ::kill(server, SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_NE(run.err().find("ended with the process that it was forked from, which was killed by "
                           "signal 9"),
            std::string::npos)
      << run.err();
  Process alone(test::tiny_run(folder, more), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
}

TEST(Processes, AStopFinishesTheStepAndSavesIt) {
  TempFolder folder;
  Process run(with_processes(test::tiny_run(folder, {"max_steps=2000", "eval_steps=-1"}), 2),
              folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(20000), 0) << run.err();
  std::string path = test::run_folder(run);
  uint64_t last = test::hashes(path).rbegin()->first;
  EXPECT_TRUE(std::filesystem::exists(path + "/checkpoints/step_" + std::to_string(last)));
}

// Slurm and systemd tell every process, and the supervisor tells the run once more.
TEST(Processes, ATerminationOfEveryProcessIsAStop) {
  TempFolder folder;
  std::vector<std::string> command =
      with_processes(test::tiny_run(folder, {"max_steps=2000", "eval_steps=-1"}), 2);
  command.insert(command.begin() + 2, {"--restarts", "1"});
  Process run(command, folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  const pid_t runner = test::child_of(run.pid());
  const std::vector<pid_t> all = test::terminate_all(runner);
  EXPECT_EQ(all.size(), 4U);
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(20000), 0) << run.err();
  std::string path = test::run_folder(run);
  uint64_t last = test::hashes(path).rbegin()->first;
  EXPECT_TRUE(std::filesystem::exists(path + "/checkpoints/step_" + std::to_string(last)));
  EXPECT_TRUE(test::are_gone(all));
}

TEST(Processes, MoreThanCardsAreRefused) {
  TempFolder folder;
  Process run(with_processes(test::tiny_run(folder), 3), folder);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_NE(run.err().find("--processes 3: the configuration uses 2 cards"), std::string::npos)
      << run.err();
}

}  // namespace
}  // namespace cohort
