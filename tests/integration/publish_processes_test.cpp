// Publishing between processes: eight cards in every mode over shared memory and tcp; a card that
// is killed in the middle is named, what is served stays, and a new group goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "tests/support/publish_scenario.hpp"

namespace cohort::test {
namespace {

/// The card processes of a scenario.
class Cards {
 public:
  Cards(std::string scenario, uint32_t count) : scenario_(std::move(scenario)) {
    for (uint32_t i = 0; i < count; ++i) start(i);
  }
  ~Cards() {
    order("exit");
    for (auto& [card, process] : processes_) EXPECT_EQ(process->wait(20000), 0) << process->err();
  }

  /// A card that hears the orders from here on.
  void start(uint32_t card) {
    std::vector<std::string> command{binary("publish_card"), folder_.path().string(), scenario_,
                                     std::to_string(card), std::to_string(next_)};
    processes_[card] = std::make_unique<Process>(command, folder_);
  }
  void kill_where_it_stands(uint32_t card) {
    ASSERT_EQ(wait_for_file(folder_.path() / ("stopped." + std::to_string(card))), "here");
    processes_[card]->send(SIGKILL);
    EXPECT_EQ(processes_[card]->wait(), -SIGKILL);
    processes_.erase(card);
  }

  int order(const std::string& text) {
    write_whole(path("order", next_), text);
    return next_++;
  }
  /// The answers of all cards that run.
  std::map<uint32_t, std::string> answers(int number) {
    std::map<uint32_t, std::string> result;
    for (const auto& [card, process] : processes_)
      result[card] = wait_for_file(path("answer", number, card));
    return result;
  }
  std::map<uint32_t, std::string> ask(const std::string& text) { return answers(order(text)); }
  void expect_all(const std::string& text, const std::string& expected) {
    for (const auto& [card, answer] : ask(text))
      EXPECT_EQ(answer, expected) << "card " << card << ": " << text;
  }

 private:
  std::filesystem::path path(const std::string& what, int number) {
    return folder_.path() / (what + "." + std::to_string(number));
  }
  std::filesystem::path path(const std::string& what, int number, uint32_t card) {
    return path(what, number).string() + "." + std::to_string(card);
  }
  TempFolder folder_;
  std::string scenario_;
  std::map<uint32_t, std::unique_ptr<Process>> processes_;
  int next_ = 0;
};

/// What all cards of a version counted; one line of docs/reshard.md's table.
struct Measured {
  uint64_t received = 0, busiest = 0, kept = 0, staging = 0;
  std::vector<double> seconds;  // of each version, of its slowest card

  std::string line(const std::string& mode, uint32_t rounds) {
    std::ranges::sort(seconds);
    std::ostringstream text;
    text << mode << ": received " << received << ", busiest " << busiest << ", kept " << kept
         << ", staging " << staging << ", rounds " << rounds << ", seconds "
         << seconds[seconds.size() / 2] << " (median of " << seconds.size() << ")";
    return text.str();
  }
};

void expect_arrival(const plan::ReshardPlan& plan, const std::map<uint32_t, std::string>& answers,
                    Measured& measured) {
  measured.received = measured.busiest = measured.kept = 0;
  measured.seconds.push_back(0);
  for (size_t i = 0; i < plan.cards.size(); ++i) {
    std::istringstream words(answers.at(plan.cards[i].value));
    std::string verdict;
    uint64_t sent = 0, received = 0, kept = 0, staging = 0;
    double seconds = 0;
    words >> verdict >> sent >> received >> kept >> staging >> seconds;
    measured.received += received;
    measured.busiest = std::max(measured.busiest, received);
    measured.kept += kept;
    measured.staging = std::max(measured.staging, staging);
    measured.seconds.back() = std::max(measured.seconds.back(), seconds);
    ASSERT_EQ(verdict, "arrived") << answers.at(plan.cards[i].value);
    EXPECT_EQ(sent, plan.ranks[i].send);
    EXPECT_EQ(received, plan.ranks[i].receive);
    EXPECT_EQ(kept, plan.ranks[i].kept);
    EXPECT_LE(staging, 2 * plan.options.bucket_bytes) << "PUBLISH-3";
    if (plan.options.mode == plan::ReshardMode::p2p) {
      EXPECT_EQ(received, plan.ranks[i].lower_bound);
    }
  }
}

using SceneWire = std::tuple<const char*, const char*>;
class PublishProcesses : public ::testing::TestWithParam<SceneWire> {};

TEST_P(PublishProcesses, EightRanksReshardBitForBitInEveryMode) {
  auto [scenario, wire] = GetParam();
  Cards cards(scenario, 8);
  uint64_t version = 0;
  int group = 0;
  // COHORT_PUBLISHES=9 for the table of docs/reshard.md; the first version of a group warms up.
  const char* publishes = std::getenv("COHORT_PUBLISHES");
  int count = publishes == nullptr ? 2 : std::max(2, std::atoi(publishes));
  for (const char* mode : {"all_gather", "tp_then_pp", "directed", "p2p"}) {
    SCOPED_TRACE(mode);
    auto plan = plan_scenario(scenario, mode);
    ASSERT_TRUE(plan) << plan.error().to_string();
    cards.expect_all("group " + std::to_string(group++) + " " + wire + " " + mode, "joined");
    Measured measured;
    for (int i = 0; i < count; ++i) {
      std::string number = std::to_string(++version);
      if (i == 1) measured.seconds.clear();
      expect_arrival(*plan, cards.ask("publish " + number), measured);
      cards.expect_all("commit " + number, "served");
    }
    std::cout << scenario << " " << wire << " " << measured.line(mode, plan->rounds) << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Scenes, PublishProcesses,
                         ::testing::Combine(::testing::Values("moe", "dense"),
                                            ::testing::Values("shm", "tcp")),
                         [](const auto& x) {
                           return std::string(std::get<0>(x.param)) + "_" + std::get<1>(x.param);
                         });

struct Death {
  const char* wire;
  uint32_t card;
  const char* moment;
};
class PublishDeath : public ::testing::TestWithParam<Death> {};

TEST_P(PublishDeath, IsNamedWhatIsServedStaysAndANewGroupGoesOn) {  // PUBLISH-2
  const Death& death = GetParam();
  std::string wire = death.wire, name = "card " + std::to_string(death.card);
  Cards cards("separate", 4);
  cards.expect_all("group 0 " + wire + " p2p", "joined");
  for (const auto& [card, answer] : cards.ask("publish 1"))
    ASSERT_TRUE(answer.starts_with("arrived")) << answer;
  cards.expect_all("commit 1", "served");
  cards.expect_all("stop " + std::to_string(death.card) + " " + death.moment + " 20", "noted");
  int broken = cards.order("publish 2");
  cards.kill_where_it_stands(death.card);
  for (const auto& [card, answer] : cards.answers(broken)) {
    if (card >= 2 && answer.starts_with("arrived")) continue;  // it had all it needs: not committed
    EXPECT_TRUE(answer.starts_with("closed: ")) << answer;
    EXPECT_NE(answer.find(name + " is gone"), std::string::npos)
        << "card " << card << ": " << answer;
  }
  cards.expect_all("abort 2", "aborted");
  for (const auto& [card, answer] : cards.ask("commit 2"))
    EXPECT_NE(answer.find("served stays version 1"), std::string::npos) << answer;
  cards.expect_all("check 1", "served");
  for (const auto& [card, answer] : cards.ask("publish 3"))  // by the old group
    EXPECT_NE(answer.find("open a new group"), std::string::npos) << answer;
  cards.start(death.card);
  cards.expect_all("group 1 " + wire + " p2p", "joined");
  for (const auto& [card, answer] : cards.ask("publish 4"))
    EXPECT_TRUE(answer.starts_with("arrived")) << answer;
  cards.expect_all("commit 4", "served");
  cards.expect_all("check 4", "served");
}

INSTANTIATE_TEST_SUITE_P(Deaths, PublishDeath,
                         ::testing::Values(Death{"shm", 0, "send"}, Death{"shm", 2, "receive"},
                                           Death{"tcp", 0, "send"}, Death{"tcp", 2, "receive"}),
                         [](const auto& x) {
                           return std::string(x.param.wire) + "_" +
                                  (x.param.card == 0 ? "sender" : "receiver");
                         });

/// Names of abstract sockets and mapped windows that carry our name.
int traces_of_us() {
  std::ifstream sockets("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(sockets, line);)
    count += line.find("cohort.publish.") != std::string::npos ? 1 : 0;
  return count;
}

TEST(PublishLeaks, AKilledGroupLeavesNothingBehind) {
  int before = traces_of_us();
  TempFolder folder;
  std::vector<std::unique_ptr<Process>> processes;
  for (int card = 0; card < 4; ++card)
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{binary("publish_card"), folder.path().string(), "separate",
                                 std::to_string(card), "0"},
        folder));
  write_whole(folder.path() / "order.0", "group 0 shm p2p");
  for (int card = 0; card < 4; ++card)
    ASSERT_EQ(wait_for_file(folder.path() / ("answer.0." + std::to_string(card))), "joined");
  EXPECT_GE(traces_of_us(), before + 4);
  for (auto& process : processes) process->send(SIGKILL);
  for (auto& process : processes) EXPECT_EQ(process->wait(), -SIGKILL);
  EXPECT_TRUE(wait_until([&] { return traces_of_us() <= before; }, 10000));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("cohort"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace cohort::test
