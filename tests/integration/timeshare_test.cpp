// Roles that take turns on a card, as a user runs them: what the card's allocator gave out at most
// against what the plan says, with the KV cache late and early.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::hashes;
using test::Process;
using test::run_folder;
using test::TempFolder;
using test::tiny_run;

struct Measured {
  uint64_t planned_bytes = 0;  // the plan's peak of the fullest card
  uint64_t card_bytes = 0;     // the most its allocator gave out at once
  size_t alarms = 0;
  std::map<uint64_t, std::string> hashes;
};

/// The stream's phase records.
std::vector<nlohmann::json> phases_of(const std::string& run, const TempFolder& folder) {
  Process records({test::binary("traj"), "records", run, "--type", "phase"}, folder);
  EXPECT_EQ(records.wait(), 0) << records.err();
  std::vector<nlohmann::json> phases;
  std::istringstream lines(records.out());
  for (std::string line; std::getline(lines, line);)
    phases.push_back(nlohmann::json::parse(line).at("data"));
  return phases;
}

Measured run_with(const std::string& init_cache) {
  TempFolder folder;
  Process run(
      tiny_run(folder, {"placement.mode=timeshare", "placement.init_cache=" + init_cache,
                        "num_gpus_per_node=1", "actor_train.device_mapping=list(range(0,1))",
                        "actor_infer.device_mapping=list(range(0,1))", "max_steps=3"}),
      folder);
  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string path = run_folder(run);
  Measured measured;
  const auto plan = nlohmann::json::parse(test::slurp(path + "/plan.json"));
  EXPECT_EQ(plan.at("init_cache"), init_cache);
  measured.planned_bytes = plan.at("peak").at("bytes").get<uint64_t>();
  for (const nlohmann::json& phase : phases_of(path, folder)) {
    measured.card_bytes = phase.at("card_peak_bytes").at("0").get<uint64_t>();
    measured.alarms += phase.at("alarms").size();
  }
  measured.hashes = hashes(path);
  return measured;
}

TEST(Timeshare, ALateCacheLowersTheMeasuredPeakByThePlannedBytes) {  // PLACE-2, LEAK-1
  const Measured late = run_with("late"), early = run_with("early");
  EXPECT_EQ(late.card_bytes, late.planned_bytes);
  EXPECT_EQ(early.card_bytes, early.planned_bytes);
  EXPECT_GT(early.planned_bytes, late.planned_bytes);
  EXPECT_EQ(early.card_bytes - late.card_bytes, early.planned_bytes - late.planned_bytes);
  EXPECT_EQ(late.alarms + early.alarms, 0u);
  EXPECT_EQ(late.hashes.size(), 4u);
  EXPECT_EQ(late.hashes, early.hashes) << "where the cache comes changes no result";
}

}  // namespace
}  // namespace cohort
