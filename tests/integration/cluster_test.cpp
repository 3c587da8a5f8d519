// One run on several hosts: network namespaces with addresses of their own, credentials, and the
// hashes of a single process.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tests/support/holder.hpp"
#include "tests/support/net_hosts.hpp"
#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::NetHosts;
using test::Process;
using test::TempFolder;

class Cluster : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string reason = NetHosts::why_not(); !reason.empty()) GTEST_SKIP() << reason;
    Process keys({test::binary("actor-node"), "keys", "new", keys_}, folder_);
    ASSERT_EQ(keys.wait(), 0) << keys.err();
  }
  std::map<uint64_t, std::string> alone(const std::vector<std::string>& more) {
    Process process(test::tiny_run(folder_, more), folder_);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return test::hashes(test::run_folder(process));
  }
  /// Of one that is stopped once it has come to `step`.
  std::map<uint64_t, std::string> alone_until(const std::vector<std::string>& more, uint64_t step) {
    TempFolder folder;
    Process process(test::tiny_run(folder, more), folder);
    EXPECT_TRUE(test::wait_until([&] { return test::hashes(test::any_run(folder)).contains(step); },
                                 120000));
    process.send(SIGINT);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return test::hashes(test::run_folder(process));
  }
  std::vector<std::string> node(const std::vector<std::string>& words) const {
    std::vector<std::string> command = {test::binary("actor-node")};
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"--keys", keys_});
    return command;
  }
  std::vector<std::string> run(const std::vector<std::string>& words,
                               const std::vector<std::string>& more) const {
    std::vector<std::string> command = test::tiny_run(folder_, more);
    command.insert(command.begin() + 2, words.begin(), words.end());
    command.insert(command.begin() + 2, {"--keys", keys_});
    return command;
  }
  /// Waits until the cluster has so many living nodes.
  bool has_nodes(const NetHosts& hosts, size_t count) {
    auto living = [&] {
      Process status(hosts.on(0, node({"status", "--json", NetHosts::address(0)})), folder_);
      if (status.wait() != 0) return size_t{0};
      const auto found = nlohmann::json::parse(status.out(), nullptr, false);
      return static_cast<size_t>(std::ranges::count_if(
          found["nodes"], [](const auto& each) { return each["is_lost"] == false; }));
    };
    return test::wait_until([&] { return living() == count; }, 20000);
  }

  TempFolder folder_;
  std::string keys_ = (folder_.path() / "keys").string();
};

// Seed 000, method B; train cards on one host, infer cards on the other.
TEST_F(Cluster, ByHandTwoHostsGiveTheHashesOfOneProcess) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  const std::vector<std::string> more = {"num_gpus_per_node=1"};
  const std::string address = NetHosts::address(0) + ":6379";
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  Process joined(hosts.on(1, node({"join", address})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 2)) << head.err() << joined.err();
  Process apart(hosts.on(0, run({"--cluster", address}, more)), folder_);
  ASSERT_EQ(apart.wait(), 0) << apart.err() << joined.out();
  EXPECT_EQ(test::hashes(test::run_folder(apart)), alone({}));
  EXPECT_NE(joined.out().find("process 1 started, cards [1]: actor_infer"), std::string::npos)
      << joined.out();
  ASSERT_TRUE(has_nodes(hosts, 2)) << "the cluster outlives its runs";
  Process stop(hosts.on(1, node({"stop", address})), folder_);
  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(joined.wait(), 0) << joined.err();
  EXPECT_EQ(head.wait(), 0) << head.err();
}

// Seed 000, method A and strategy 2: train and infer cards alternate, so the ranks of the trainer
// are on two hosts.
TEST_F(Cluster, ByRankFourHostsInterleavedGiveTheHashesOfOneProcess) {
  NetHosts hosts(4);
  ASSERT_TRUE(hosts.is_up());
  const std::vector<std::string> more = {"actor_train.device_mapping=[0,2]",
                                         "actor_infer.device_mapping=[1,3]",
                                         "actor_train.training_args.gradient_accumulation_steps=2"};
  std::vector<std::string> spread = more, together = more;
  spread.push_back("num_gpus_per_node=1");
  together.push_back("num_gpus_per_node=4");
  std::vector<std::unique_ptr<Process>> ranks;
  for (size_t host : {3, 1, 2, 0})  // the head comes last
    ranks.push_back(std::make_unique<Process>(
        hosts.on(
            host, run({}, spread),
            {"RANK=" + std::to_string(host), "WORLD_SIZE=4", "MASTER_ADDR=" + NetHosts::address(0),
             "MASTER_PORT=6379", "DASHBOARD_PORT=8265"}),
        folder_));
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->err() << rank->out();
  for (auto& rank : ranks)
    EXPECT_EQ(rank->out().find("dashboard: http://127.0.0.1:8265/") != std::string::npos,
              rank == ranks.back())
        << "the head serves it, and nobody else: " << rank->out();
  EXPECT_EQ(test::hashes(test::run_folder(*ranks.back())), alone(together));
}

// Pings wait behind what is on the way to the rewards; the node's own beats do not.
TEST_F(Cluster, ASlowLinkIsNamed) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  if (!hosts.set_rate(1, "1gbit")) GTEST_SKIP() << "tc cannot slow a link here";
  const std::string address = NetHosts::address(0) + ":6379";
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  Process joined(hosts.on(1, node({"join", address})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 2)) << head.err() << joined.err();
  Process slow(hosts.on(0, run({"--cluster", address}, {"num_gpus_per_node=1", "max_steps=100000",
                                                        "eval_steps=-1", "save_steps=50000"})),
               folder_);
  ASSERT_TRUE(test::wait_until(
      [&] {
        const std::string path = test::any_run(folder_);
        return !path.empty() && test::hashes(path).rbegin()->first > 0;
      },
      60000))
      << slow.err();
  ASSERT_TRUE(hosts.set_rate(1, "150kbit"));
  std::string said;
  EXPECT_TRUE(test::wait_until(
      [&] {
        Process diagnose(hosts.on(0, node({"diagnose", address, "--after", "2"})), folder_);
        diagnose.wait(20000);
        said = diagnose.out();
        return said.find("link actor_infer@1->rewards waits") != std::string::npos;
      },
      60000))
      << said << slow.err();
  EXPECT_NE(said.find("messages to acknowledge"), std::string::npos) << said;
  EXPECT_NE(said.find("for its trajectories (actor_train)"), std::string::npos) << said;
  hosts.set_rate(1, "1gbit");
  slow.send(SIGKILL);
  slow.wait();
  Process stop(hosts.on(0, node({"stop", address})), folder_);
  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(joined.wait(), 0) << joined.err();
  EXPECT_EQ(head.wait(), 0) << head.err();
}

TEST_F(Cluster, AHeadSaysWhoIsMissingAndDoesNotWaitForEver) {
  NetHosts hosts(1);
  ASSERT_TRUE(hosts.is_up());
  Process head(hosts.on(0, run({"--wait", "0.5"}, {"num_gpus_per_node=1"}),
                        {"RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=" + NetHosts::address(0)}),
               folder_);
  EXPECT_EQ(head.wait(), 1);
  EXPECT_NE(head.err().find("1 of 3 nodes have joined; missing: RANK 1, 2"), std::string::npos)
      << head.err();
}

TEST_F(Cluster, NothingListensBeyondLoopbackWithoutCredentials) {
  NetHosts hosts(1);
  ASSERT_TRUE(hosts.is_up());
  Process head(
      hosts.on(0, {test::binary("actor-node"), "head", "--listen", NetHosts::address(0) + ":6379"}),
      folder_);
  EXPECT_EQ(head.wait(), 1);
  EXPECT_NE(head.err().find("actor-node keys new DIR"), std::string::npos) << head.err();
}

/// What a command that cannot succeed says.
class ClusterWords : public ::testing::Test {
 protected:
  std::string refusal(std::vector<std::string> words) {
    words.insert(words.begin(), test::binary("actor-node"));
    Process process(words, folder_);
    EXPECT_NE(process.wait(), 0);
    return process.err();
  }
  std::string new_keys(const char* name) {
    const std::string keys = (folder_.path() / name).string();
    Process process({test::binary("actor-node"), "keys", "new", keys}, folder_);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return keys;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  TempFolder folder_;
};

TEST_F(ClusterWords, AHeadNamesNoAddressAtWhichItDoesNotListen) {
  std::string text = refusal({"head", "--no-node", "--host", "0.0.0.0"});
  EXPECT_TRUE(has(text, "--host 0.0.0.0 is no address at which other hosts find this one")) << text;
  text = refusal({"head", "--no-node", "--host", "10.0.0.1"});
  EXPECT_TRUE(has(text, "would listen on 127.0.0.1:6379")) << text;
  EXPECT_TRUE(has(text, "say --listen 10.0.0.1:6379 --keys DIR")) << text;
  text = refusal({"head", "--no-node", "--listen", "0.0.0.0:6379"});
  EXPECT_TRUE(has(text, "say with --host by which address")) << text;
}

TEST_F(ClusterWords, AClientWithoutTheClustersKeysIsToldWhichOptionToGive) {
  const std::string keys = new_keys("keys"), others = new_keys("others");
  Process head(
      {test::binary("actor-node"), "head", "--no-node", "--listen", "127.0.0.1:0", "--keys", keys},
      folder_);
  std::string address;
  ASSERT_TRUE(test::wait_until(
      [&] {
        const std::string out = head.out();
        const size_t end = out.find(" (TLS)");
        if (end != std::string::npos) address = out.substr(6, end - 6);  // "head: ADDRESS (TLS)"
        return !address.empty();
      },
      20000))
      << head.err();
  std::string text = refusal({"status", address});
  EXPECT_TRUE(has(text, "error: " + address + " hung up at the first word")) << text;
  EXPECT_TRUE(has(text, "Say --keys DIR")) << text;
  EXPECT_FALSE(has(text, "disconnect_during_handshake")) << text;
  text = refusal({"join", address, "--wait", "1"});
  EXPECT_TRUE(has(text, "Say --keys DIR")) << text;
  text = refusal({"status", address, "--keys", others});
  EXPECT_TRUE(has(text, address + " does not show the keys of this cluster")) << text;
  EXPECT_TRUE(has(text, "copies of one folder")) << text;
}

TEST_F(Cluster, ANodeWithATrainCardThatDiesAndComesBackCostsTimeOnly) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  const std::string address = NetHosts::address(0) + ":6379";
  const std::vector<std::string> more = {"num_gpus_per_node=1", "max_steps=12", "eval_steps=-1",
                                         "actor_train.device_mapping=[1]",
                                         "actor_infer.device_mapping=[0]"};
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  Process joined(hosts.on(1, node({"join", address, "--rank", "1"})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 2));
  Process apart(hosts.on(0, run({"--cluster", address}, more)), folder_);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder_); }, 30000));
  joined.send(SIGKILL);
  joined.wait();
  Process again(hosts.on(1, node({"join", address, "--rank", "1"})), folder_);
  EXPECT_EQ(apart.wait(), 0) << apart.err();
  EXPECT_NE(apart.err().find("on node 1"), std::string::npos) << apart.err();
  EXPECT_NE(apart.err().find("starting again from"), std::string::npos) << apart.err();
  EXPECT_EQ(test::hashes(test::run_folder(apart)),
            alone({"max_steps=12", "eval_steps=-1", "num_gpus_per_node=2",
                   "actor_train.device_mapping=[1]", "actor_infer.device_mapping=[0]"}));
}

// Nobody dies: the host of the rollout is cut off for longer than silence is borne, and comes back
// with a process that does not know that it was given up.
TEST_F(Cluster, ANodeThatWasCutOffIsFencedAndItsGroupsPlayedAgain) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  const std::string address = NetHosts::address(0) + ":6379";
  const std::vector<std::string> more = {"max_steps=12", "eval_steps=-1"};
  std::vector<std::string> spread = more;
  spread.push_back("num_gpus_per_node=1");
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  Process joined(hosts.on(1, node({"join", address})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 2));
  Process apart(hosts.on(0, run({"--cluster", address}, spread)), folder_);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder_); }, 30000));
  ASSERT_TRUE(hosts.set_cut(1, true));
  EXPECT_TRUE(has_nodes(hosts, 1)) << head.out();
  ASSERT_TRUE(hosts.set_cut(1, false));
  EXPECT_EQ(apart.wait(), 0) << apart.err() << joined.out();
  EXPECT_EQ(test::hashes(test::run_folder(apart)), alone(more));
}

/// `found` holds each of `steps` as `whole` does, from the first to one that it was stopped after.
void expect_prefix(const std::map<uint64_t, std::string>& found,
                   const std::map<uint64_t, std::string>& whole) {
  ASSERT_GT(found.size(), 1U);
  for (const auto& [step, hash] : found) {
    ASSERT_TRUE(whole.contains(step)) << step;
    EXPECT_EQ(hash, whole.at(step)) << "step " << step;
  }
}

// The train card is on node 0, a rollout on each of nodes 1 and 2, which come and go.
TEST_F(Cluster, NodesComeAndGoInTheMiddleOfARun) {
  NetHosts hosts(3);
  ASSERT_TRUE(hosts.is_up());
  const std::string address = NetHosts::address(0) + ":6379";
  const std::vector<std::string> more = {"max_steps=4000", "eval_steps=-1", "save_steps=1000",
                                         "actor_infer.device_mapping=list(range(1,3))",
                                         "max_running_requests=4"};
  std::vector<std::string> spread = more, together = more;
  spread.push_back("num_gpus_per_node=1");
  together.push_back("num_gpus_per_node=3");
  auto join = [&](size_t host) {
    return std::make_unique<Process>(
        hosts.on(host, node({"join", address, "--rank", std::to_string(host)})), folder_);
  };
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  auto first = join(1);
  ASSERT_TRUE(has_nodes(hosts, 2));
  Process apart(
      hosts.on(0, run({"--cluster", address, "--nodes", "2:3", "--wait-more", "0.2"}, spread)),
      folder_);
  auto says = [&](const std::string& text, size_t times) {
    return test::wait_until(
        [&] {
          size_t count = 0;
          const std::string err = apart.err();
          for (size_t at = err.find(text); at != std::string::npos; at = err.find(text, at + 1))
            ++count;
          return count >= times || !apart.is_running();
        },
        60000);
  };
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder_); }, 30000)) << apart.err();
  EXPECT_NE(apart.err().find("2 of 3 nodes have joined; missing: node 2; the run begins without"),
            std::string::npos)
      << apart.err();
  Process status(hosts.on(0, node({"status", address})), folder_);
  EXPECT_EQ(status.wait(), 0);
  EXPECT_NE(status.out().find("AWAY"), std::string::npos) << status.out();
  Process last(hosts.on(2, node({"leave", address, "--rank", "1"})), folder_);
  EXPECT_EQ(last.wait(), 2);
  EXPECT_NE(last.err().find("no other replica of actor_infer"), std::string::npos) << last.err();
  auto second = join(2);
  ASSERT_TRUE(says("actor_infer (card 2) serves version", 1)) << apart.err();
  Process leave(hosts.on(2, node({"leave", address, "--rank", "1", "--wait", "20"})), folder_);
  EXPECT_EQ(leave.wait(), 0) << leave.err() << head.out();
  EXPECT_EQ(first->wait(), 0) << first->err() << first->out();
  ASSERT_TRUE(says("process 1 (cards [1]: actor_infer) has left", 1)) << apart.err();
  first = join(1);
  ASSERT_TRUE(says("actor_infer (card 1) serves version", 1)) << apart.err();
  EXPECT_EQ(test::terminate_all(second->pid()).size(), 3U);  // a host that is told to go
  EXPECT_EQ(second->wait(), 0) << second->err();
  ASSERT_TRUE(says("process 2 (cards [2]: actor_infer) has left", 1)) << apart.err();
  second = join(2);
  ASSERT_TRUE(says("actor_infer (card 2) serves version", 2)) << apart.err();
  second->send(SIGKILL);  // for good
  ASSERT_TRUE(says("process 2 (cards [2]: actor_infer) has no node", 1)) << apart.err();
  const std::string run_path = test::any_run(folder_);
  const size_t rows = test::hashes(run_path).size();
  ASSERT_TRUE(test::wait_until([&] { return test::hashes(run_path).size() > rows + 2; }, 30000))
      << apart.err();
  apart.send(SIGTERM);
  ASSERT_EQ(apart.wait(), 0) << apart.err();
  const auto found = test::hashes(test::run_folder(apart));
  expect_prefix(found, alone_until(together, found.rbegin()->first));
  const test::StreamFacts facts = test::read_stream(test::run_folder(apart));
  EXPECT_EQ(test::flow_1(facts, found.rbegin()->first, 8, 4), "");
  EXPECT_EQ(facts.of_kind("leave").size(), 2U);
  EXPECT_EQ(facts.of_kind("admitted").size(), 3U);
  EXPECT_EQ(facts.of_kind("lost").size(), 1U);
}

TEST_F(Cluster, ANodeThatTheRunNeedsIsWaitedForAndCannotLeave) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  const std::string address = NetHosts::address(0) + ":6379";
  const std::vector<std::string> more = {"num_gpus_per_node=1", "max_steps=4000", "eval_steps=-1",
                                         "actor_train.device_mapping=[1]",
                                         "actor_infer.device_mapping=[0]"};
  Process head(hosts.on(0, node({"head", "--listen", address})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 1));
  Process early(hosts.on(0, run({"--cluster", address, "--nodes", "1", "--wait", "0.5"}, more)),
                folder_);
  EXPECT_EQ(early.wait(), 1);
  EXPECT_NE(early.err().find("node 1 cannot be done without"), std::string::npos) << early.err();
  Process joined(hosts.on(1, node({"join", address, "--rank", "1"})), folder_);
  ASSERT_TRUE(has_nodes(hosts, 2));
  Process apart(hosts.on(0, run({"--cluster", address}, more)), folder_);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder_); }, 30000)) << apart.err();
  Process leave(hosts.on(0, node({"leave", address, "--rank", "1"})), folder_);
  EXPECT_EQ(leave.wait(), 2);
  EXPECT_NE(leave.err().find("these cards are not actor_infer's alone"), std::string::npos)
      << leave.err();
  Process own(hosts.on(1, node({"leave", address, "--rank", "0"})), folder_);
  EXPECT_EQ(own.wait(), 2);
  EXPECT_NE(own.err().find("the head's own"), std::string::npos) << own.err();
  apart.send(SIGTERM);
  EXPECT_EQ(apart.wait(), 0) << apart.err();
}

TEST_F(Cluster, AHeadThatIsKilledComesBackAndItsNodesJoinAgain) {
  NetHosts hosts(2);
  ASSERT_TRUE(hosts.is_up());
  const std::vector<std::string> more = {"max_steps=12", "eval_steps=-1"};
  std::vector<std::string> spread = more;
  spread.push_back("num_gpus_per_node=1");
  auto start = [&](size_t host) {
    return std::make_unique<Process>(hosts.on(host, run({}, spread),
                                              {"RANK=" + std::to_string(host), "WORLD_SIZE=2",
                                               "MASTER_ADDR=" + NetHosts::address(0)}),
                                     folder_);
  };
  auto head = start(0), other = start(1);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder_); }, 30000)) << head->err();
  const pid_t runner = test::child_of(head->pid());
  ASSERT_GT(runner, 0);
  ::kill(runner, SIGKILL);
  EXPECT_EQ(head->wait(), 0) << head->err();
  EXPECT_EQ(other->wait(), 0) << other->err() << other->out();
  EXPECT_NE(head->err().find("was killed by signal 9 (Killed): starting again from"),
            std::string::npos)
      << head->err();
  EXPECT_EQ(test::hashes(test::run_folder(*head)), alone(more));
}

TEST(Supervised, ATrainCardThatIsKilledCostsTimeOnly) {
  TempFolder folder;
  const std::vector<std::string> more = {"max_steps=12", "eval_steps=-1"};
  std::vector<std::string> command = test::tiny_run(folder, more);
  command.insert(command.begin() + 2, {"--restarts", "2", "--processes", "2"});
  Process run(command, folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  ASSERT_GT(test::kill_holder(test::child_of(run.pid()), 0), 0);  // the train card
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_NE(run.err().find("the run lost a process: starting again from"), std::string::npos)
      << run.err();
  Process alone(test::tiny_run(folder, more), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
}

// What is being written when it is killed is no checkpoint to go on from.
TEST(Supervised, ATrainCardThatIsKilledInItsFirstCheckpointCostsTimeOnly) {
  TempFolder folder;
  std::vector<std::string> command = test::tiny_run(folder);
  command.insert(command.begin() + 2, {"--restarts", "2", "--processes", "2"});
  Process run(test::with_failpoint(command, "checkpoint.saved:1:kill", folder.path() / "claim"),
              folder);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_NE(run.err().find("starting again from the beginning"), std::string::npos) << run.err();
  Process alone(test::tiny_run(folder), folder);
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(alone)));
}

// As `kill -INT PID` does; Ctrl-C reaches the whole group.
TEST(Supervised, AnInterruptOfTheSupervisorAloneStopsTheRunAfterItsStep) {
  TempFolder folder;
  std::vector<std::string> command = test::tiny_run(folder, {"max_steps=100000", "eval_steps=-1"});
  command.insert(command.begin() + 2, {"--restarts", "2", "--processes", "2"});
  Process run(command, folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 0) << run.err();
  const auto steps = test::hashes(test::run_folder(run));
  ASSERT_FALSE(steps.empty()) << run.out();
  EXPECT_LT(steps.rbegin()->first, 100000U);
}

TEST(Supervised, ARunThatFailsByItselfIsNotStartedAgain) {
  TempFolder folder;
  std::vector<std::string> command = test::tiny_run(folder, {"learning_rate=no"});
  command.insert(command.begin() + 2, {"--restarts", "2"});
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(run.err().find("starting again"), std::string::npos) << run.err();
}

}  // namespace
}  // namespace cohort
