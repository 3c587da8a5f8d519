// DAPO as a user runs it: groups without a signal are left out and replaced, whatever the cards,
// the processes and the losses.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint64_t k_steps = 3;
constexpr uint32_t k_groups = 8, k_group_size = 4;

std::vector<std::string> dapo_run(const TempFolder& folder,
                                  const std::vector<std::string>& more = {}) {
  return test::paid_for_a_seven("dapo_arithmetic.yaml", folder, {"val_batch_size=8", "max_steps=3"},
                                more);
}

struct Group {
  std::vector<double> answers;  // scores without the penalty of length
  uint32_t left_out = 0;        // trajectories that are recorded as such
  uint64_t row = 0;
};
using Groups = std::map<std::pair<uint64_t, uint32_t>, Group>;  // by step and number

/// The training groups of a run's stream, of each trajectory its last record.
Groups groups_of(const std::string& run) {
  std::map<proto::TrajectoryKey, proto::Trajectory> last;
  for (proto::Trajectory& t : test::recorded_trajectories(run))
    if (t.key.kind == proto::TrajectoryKind::train) last[t.key] = std::move(t);
  Groups groups;
  for (const auto& [key, t] : last) {
    Group& group = groups[{key.step, key.group}];
    group.row = t.seed;
    group.left_out += proto::is_left_out(t) ? 1 : 0;
    for (const proto::RewardPart& part : t.reward_parts)
      if (part.name == "answer") group.answers.push_back(part.value);
  }
  return groups;
}

/// The run that nobody disturbs.
struct Calm {
  std::map<uint64_t, std::string> hashes;
  Groups groups;
  std::vector<nlohmann::json> rows;
};

const Calm& calm() {
  static const Calm result = [] {
    TempFolder folder;
    Process run(dapo_run(folder), folder);
    EXPECT_EQ(run.wait(), 0) << run.err();
    const std::string path = test::run_folder(run);
    return Calm{test::hashes(path), groups_of(path), test::metric_rows(path)};
  }();
  return result;
}

void expect_calm(const std::string& run) {
  EXPECT_EQ(test::hashes(run), calm().hashes);
  const Groups groups = groups_of(run);
  ASSERT_EQ(groups.size(), calm().groups.size());
  for (const auto& [key, group] : groups) {
    const Group& other = calm().groups.at(key);
    EXPECT_EQ(group.answers, other.answers) << key.first << "/" << key.second;
    EXPECT_EQ(group.left_out, other.left_out) << key.first << "/" << key.second;
    EXPECT_EQ(group.row, other.row) << key.first << "/" << key.second;
  }
}

TEST(Dapo, AStepTrainsOnGroupsThatCarryASignal) {
  ASSERT_EQ(calm().hashes.size(), k_steps + 1);
  uint64_t replaced = 0;
  std::map<uint64_t, uint32_t> kept, all;
  for (const auto& [key, group] : calm().groups) {
    SCOPED_TRACE(std::to_string(key.first) + "/" + std::to_string(key.second));
    ASSERT_EQ(group.answers.size(), k_group_size);
    const bool is_mixed = std::set<double>(group.answers.begin(), group.answers.end()).size() > 1;
    EXPECT_EQ(group.left_out, is_mixed ? 0U : k_group_size);
    kept[key.first] += is_mixed ? 1 : 0;
    EXPECT_EQ(key.second, all[key.first]++) << "one lane is numbered on";
    replaced += key.second >= k_groups ? 1 : 0;
  }
  EXPECT_GT(replaced, 0U);
  for (uint64_t step = 1; step <= k_steps; ++step) {
    const nlohmann::json& row = calm().rows.at(step);
    EXPECT_EQ(kept[step], k_groups) << "step " << step;
    EXPECT_EQ(row.at("filter/kept"), k_groups);
    EXPECT_EQ(row.at("filter/all_0").get<double>() + row.at("filter/all_1").get<double>(),
              all[step] - k_groups);
    EXPECT_EQ(row.at("filter/equal"), 0);
    EXPECT_EQ(row.at("critic/mixed_groups"), 1.0);
    EXPECT_EQ(row.at("reward/masked"), 0);
  }
}

TEST(Dapo, NoCardsOrProcessesChangeTheHashes) {
  TempFolder folder;
  const std::vector<std::string> spread = {
      "num_gpus_per_node=3", "actor_infer.device_mapping=list(range(1,3))",
      "max_running_requests=4"};  // groups are handed out as replicas have room
  Process run(test::in_processes(dapo_run(folder, spread), 3), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  expect_calm(test::run_folder(run));
}

TEST(Dapo, ARolloutThatDiesChangesNothing) {
  TempFolder folder;
  const std::filesystem::path claim = folder.path() / "claim";
  Process run(
      test::with_failpoint(test::in_processes(dapo_run(folder), 2), "rollout.turn:60:kill", claim),
      folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  expect_calm(test::run_folder(run));
}

TEST(Dapo, AResumedRunTakesTheRowsBehindThoseThatTookAPlace) {  // DATA-2
  TempFolder folder;
  Process first(dapo_run(folder, {"max_steps=1"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  Process resumed(dapo_run(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  const auto hashes = test::hashes(test::run_folder(resumed));
  EXPECT_EQ(hashes.at(2), calm().hashes.at(2));
  EXPECT_EQ(hashes.at(3), calm().hashes.at(3));
}

TEST(Dapo, WhereNothingCarriesASignalTheRunSaysSoAndGoesOn) {
  TempFolder folder;
  Process run(dapo_run(folder, {"rewards.answer.args={pattern: 'x'}", "max_steps=2",
                                "dynamic_sampling.max_num_gen_batches=2"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string path = test::run_folder(run);
  const auto rows = test::metric_rows(path);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].at("filter/all_0"), 2 * k_groups);
  EXPECT_EQ(rows[1].at("filter/kept"), 0);
  EXPECT_EQ(rows[1].at("param_hash"), rows[0].at("param_hash")) << "it has learnt nothing";
  EXPECT_EQ(test::read_stream(path).of_kind("refill").size(), 2U);
  Process shown({test::binary("traj"), "show", path, "1/15/3"}, folder);
  ASSERT_EQ(shown.wait(), 0) << shown.err();
  EXPECT_NE(shown.out().find("filtered: every score is 0"), std::string::npos) << shown.out();
}

}  // namespace
}  // namespace cohort
