// actor-node diagnose HEAD: the cause is named on whatever node of the cluster it is. The nodes are
// processes of this host; where the kernel lets them, each has a host name of its own.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/holder.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using test::Process;
using test::TempFolder;
using Words = std::vector<std::string>;

constexpr int k_limit_ms = 60000;
constexpr int k_tries = 5;  // a machine that is shared may be slower than a loss is noticed

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string cause_of(const json& said) { return said.is_object() ? said.value("cause", "") : ""; }

class ClusterDiagnose : public ::testing::Test {
 protected:
  void SetUp() override {
    Process probe({"unshare", "--uts", "hostname", "worker-0"}, folder_);
    has_hosts_ = probe.wait() == 0;
    head_ = start({"head", "--listen", "127.0.0.1:0"});
    const std::string mark = "head: ";
    ASSERT_TRUE(test::wait_until(
        [&] {
          const std::string out = head_->out();
          const size_t at = out.find(mark);
          if (at == std::string::npos || out.find('\n', at) == std::string::npos) return false;
          const size_t begin = at + mark.size();
          address_ = out.substr(begin, out.find(' ', begin) - begin);
          return true;
        },
        k_limit_ms))
        << head_->err();
  }
  void TearDown() override {
    run_.reset();
    Process stop({test::binary("actor-node"), "stop", address_}, folder_);
    stop.wait();
  }

  /// `words` on a host of that name; "": on this one.
  Words on_host(const std::string& name, const Words& words) const {
    if (name.empty() || !has_hosts_) return words;
    return joined(
        {"unshare", "--uts", "sh", "-c", "hostname \"$1\" && shift && exec \"$@\"", "sh", name},
        words);
  }
  std::unique_ptr<Process> start(const Words& words, const std::string& host = "",
                                 const std::string& failpoint = "") {
    Words command = joined({test::binary("actor-node")}, words);
    if (!failpoint.empty())
      command = joined(
          {"env", "COHORT_FAILPOINT=" + failpoint + ":" + (folder_.path() / "claim").string()},
          command);
    return std::make_unique<Process>(on_host(host, command), folder_);
  }
  /// The second node, on a host of its own.
  void join(const std::string& failpoint = "") {
    node_ = start({"join", address_, "--rank", "1"}, "worker-1", failpoint);
  }
  /// A run that goes on: trained on node 0, played on node 1.
  void run(Words command) {
    command.insert(command.begin() + 2, {"--cluster", address_, "--wait", "60"});
    run_ = std::make_unique<Process>(joined(command, {"num_gpus_per_node=1", "max_steps=100000",
                                                      "eval_steps=-1", "save_steps=50000"}),
                                     folder_);
  }
  json diagnosed(const std::string& host = "", const std::string& after_s = "1.2") {
    auto process =
        start({"diagnose", address_, "--after", after_s, "--window", "0.2", "--json"}, host);
    process->wait(20000);
    last_said_ = process->out() + process->err();
    return json::parse(process->out(), nullptr, false);
  }
  /// Asks until something stands still; returns what was said last.
  json first_stall(const std::string& host = "") {
    json said;
    test::wait_until(
        [&] {
          said = diagnosed(host);
          return said.is_object() && cause_of(said) != "none";
        },
        k_limit_ms);
    return said;
  }
  bool has_step() {
    return test::wait_until(
        [&] {
          const std::string path = test::any_run(folder_);
          return !path.empty() && test::hashes(path).rbegin()->first > 0;
        },
        k_limit_ms);
  }
  void expect_said(const json& said, const std::string& cause, const Words& parts) {
    ASSERT_TRUE(said.is_object()) << last_said_;
    EXPECT_EQ(said.at("cause"), cause);
    const std::string sentence = said.at("sentence");
    for (const std::string& part : parts)
      EXPECT_NE(sentence.find(part), std::string::npos)
          << part << " is not in: " << sentence << "\n"
          << said.dump(1);
  }
  std::string on(const std::string& host) const { return has_hosts_ ? " on " + host : ""; }

  TempFolder folder_;
  bool has_hosts_ = false;
  std::string address_, last_said_;
  std::unique_ptr<Process> head_, node_, run_;
};

TEST_F(ClusterDiagnose, AHealthyRunIsSeenWholeAndAnIdleClusterIsOne) {
  EXPECT_EQ(diagnosed().at("sentence"), "nothing runs on the cluster");
  join();
  run(test::tiny_run(folder_));
  ASSERT_TRUE(has_step()) << run_->err();
  const json said = diagnosed("", "20");
  expect_said(said, "none", {"nothing waits longer than 20 s"});
  EXPECT_EQ(said.at("elsewhere"), json::object()) << "every host has been asked";
  auto other = start({"diagnose", address_, "--run", "another"});
  EXPECT_EQ(other->wait(), 2);
  EXPECT_NE(other->err().find("--run another: the cluster runs 20"), std::string::npos)
      << other->err();
}

TEST_F(ClusterDiagnose, ARunWhoseRolloutsAreAllLostSaysSo) {
  join();
  run(test::tiny_run(folder_));
  ASSERT_TRUE(has_step()) << run_->err();
  node_->send(SIGKILL);
  json said;
  EXPECT_TRUE(test::wait_until(
      [&] {
        said = diagnosed();
        return cause_of(said) == "wait" &&
               said.value("sentence", "").find("a rollout: all are lost") != std::string::npos;
      },
      k_limit_ms))
      << last_said_;
  expect_said(said, "wait", {"waits", "for a rollout: all are lost (cards 1)"});
}

TEST_F(ClusterDiagnose, AStoppedProcessOfAnotherNodeIsNamedWithItsHost) {
  join();
  run(test::tiny_run(folder_));
  ASSERT_TRUE(has_step()) << run_->err();
  json said;
  pid_t stopped = 0;
  for (int i = 0; i < k_tries && cause_of(said) != "stopped"; ++i) {
    std::vector<pid_t> holders;
    ASSERT_TRUE(test::wait_until(
        [&] { return !(holders = test::holders_of(node_->pid(), 1)).empty(); }, k_limit_ms));
    stopped = holders.front();
    ::kill(stopped, SIGSTOP);
    said = diagnosed();
    ::kill(stopped, SIGCONT);
  }
  expect_said(said, "stopped",
              {"process " + std::to_string(stopped) + " (card process 1)" + on("worker-1") +
               " is stopped; kill -CONT"});
}

TEST_F(ClusterDiagnose, ARolloutThatHangsOnAnotherNodeIsNamedWithItsHost) {
  join("rollout.turn:20:hang");
  run(test::tiny_run(folder_));
  expect_said(first_stall(), "wait",
              {"rollout 0" + on("worker-1") + " waits", "for the turns in its engine"});
}

// Asked from a third host: the reward's child is the head's neighbour.
TEST_F(ClusterDiagnose, ARewardThatHangsIsNamedFromAnotherHost) {
  join();
  const std::string source = std::getenv("COHORT_SOURCE_DIR");
  run(test::small_run(
      source + "/configs/arithmetic_rlvr.yaml", folder_,
      {"warm_start.steps=0", "rollout_batch_size=8", "num_return_sequences_in_group=4",
       "~rewards.answer", "+rewards.answer.type=plugin",
       "+rewards.answer.plugin=" + source + "/tests/data/plugins/stalls.py:locks_itself",
       "+rewards.answer.timeout_s=600"}));
  const json said = first_stall("worker-2");
  expect_said(said, "wait", {"reward answer", "child", "in stalls.py:13 locks_itself"});
}

TEST_F(ClusterDiagnose, ANodeThatIsStoppedWholeIsNamed) {
  join();
  run(test::tiny_run(folder_));
  ASSERT_TRUE(has_step()) << run_->err();
  json said;
  for (int i = 0; i < k_tries && cause_of(said) != "silent"; ++i) {
    ASSERT_TRUE(
        test::wait_until([&] { return !test::holders_of(node_->pid(), 1).empty(); }, k_limit_ms));
    std::vector<pid_t> all = test::holders_of(node_->pid());
    for (pid_t server : test::children_of(node_->pid())) all.push_back(server);
    all.push_back(node_->pid());
    for (pid_t each : all) ::kill(each, SIGSTOP);
    said = diagnosed();
    for (pid_t each : all) ::kill(each, SIGCONT);
  }
  expect_said(said, "silent",
              {"node 1 (" + std::string(has_hosts_ ? "worker-1" : ""), "at 127.0.0.1)",
               "does not answer within 2.2 s: it is stopped or cut off"});
}

TEST_F(ClusterDiagnose, WhereNoHeadIsItSaysSo) {
  auto nobody = start({"diagnose", "127.0.0.1:1"});
  EXPECT_EQ(nobody->wait(20000), 2);
  EXPECT_NE(nobody->err().find("127.0.0.1:1"), std::string::npos) << nobody->err();
}

}  // namespace
}  // namespace cohort
