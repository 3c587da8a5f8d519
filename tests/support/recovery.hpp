#pragma once
/// Runs in which a process dies at a failpoint, and what their stream says afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/reader.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort::test {

/// `command` with `count` processes that hold the cards.
inline std::vector<std::string> in_processes(std::vector<std::string> command, int count) {
  command.insert(command.begin() + 2, {"--processes", std::to_string(count)});
  return command;
}

/// `command` with a failpoint that one process alone obeys, which leaves `claim` behind.
inline std::vector<std::string> with_failpoint(std::vector<std::string> command,
                                               const std::string& point,
                                               const std::filesystem::path& claim) {
  command.insert(command.begin(),
                 {"/usr/bin/env", "COHORT_FAILPOINT=" + point + ":" + claim.string()});
  return command;
}

/// When the process of `claim` acted, in microseconds of wall time; nothing if none did.
inline std::optional<int64_t> claimed_at(const std::filesystem::path& claim) {
  std::string text = slurp(claim);
  if (text.empty()) return std::nullopt;
  return std::stoll(text.substr(text.rfind(' ') + 1));
}

/// A run that is killed in its fifth update and goes on has the hashes of one that was not, which
/// are returned. `run_of`: the command of a run into a folder, with more words.
template <class RunOf>
std::map<uint64_t, std::string> expect_same_bits_after_a_kill(const RunOf& run_of) {
  TempFolder whole, folder;
  Process reference(run_of(whole, {}), whole);
  EXPECT_EQ(reference.wait(), 0) << reference.err();
  std::vector<std::string> command = run_of(folder, {});
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=trainer.update:5:kill"});
  Process victim(command, folder);
  EXPECT_NE(victim.wait(), 0);
  Process resumed(run_of(folder, {"resume_from_checkpoint=true"}), folder);
  EXPECT_EQ(resumed.wait(), 0) << resumed.err();
  const auto expected = hashes(run_folder(reference));
  EXPECT_EQ(hashes(run_folder(resumed)), expected);
  return expected;
}

/// What a run's stream says of its trajectories and its losses.
struct StreamFacts {
  std::vector<nlohmann::json> events;
  /// Of the training steps that count, (group, index) -> how often they are in the stream. A step
  /// that was cut short by the end of a run counts when it was played again.
  std::map<uint64_t, std::map<std::pair<uint32_t, uint32_t>, int>> trained;
  std::string error;

  std::vector<nlohmann::json> of_kind(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const nlohmann::json& x) { return x.value("kind", "") == kind; });
    return found;
  }
};

/// Where a resumed run begins again, what came after its checkpoint is not used: the same steps are
/// played anew under a higher attempt.
inline StreamFacts read_stream(const std::string& run) {
  StreamFacts facts;
  auto reader = stream::Reader::open(run + "/stream");
  if (!reader) return {{}, {}, reader.error().detail};
  for (;;) {
    auto record = reader->next();
    if (!record) return {{}, {}, record.error().detail};
    if (!*record) return facts;
    if ((*record)->info.type == stream::RecordType::event) {
      facts.events.push_back(nlohmann::json::parse((*record)->text()));
      if (facts.events.back().value("kind", "") != "resume") continue;
      facts.trained.erase(facts.trained.upper_bound(facts.events.back()["step"].get<uint64_t>()),
                          facts.trained.end());
    } else if ((*record)->info.type == stream::RecordType::trajectory) {
      auto trajectory = (*record)->trajectory();
      if (!trajectory) return {{}, {}, trajectory.error().detail};
      const proto::TrajectoryKey& key = trajectory->key;
      if (key.kind == proto::TrajectoryKind::train)
        ++facts.trained[key.step][{key.group, key.index}];
    }
  }
}

/// Returns the trajectories of a stream's folder, in the order in which they were recorded.
inline std::vector<proto::Trajectory> trajectories_in(const std::string& folder) {
  std::vector<proto::Trajectory> found;
  auto reader = stream::Reader::open(folder);
  EXPECT_TRUE(reader) << reader.error().detail;
  while (reader) {
    auto record = reader->next();
    EXPECT_TRUE(record) << record.error().detail;
    if (!record || !*record) break;
    if ((*record)->info.type != stream::RecordType::trajectory) continue;
    auto trajectory = (*record)->trajectory();
    EXPECT_TRUE(trajectory) << trajectory.error().detail;
    if (trajectory) found.push_back(std::move(*trajectory));
  }
  return found;
}

/// The same of a run's stream.
inline std::vector<proto::Trajectory> recorded_trajectories(const std::string& run) {
  return trajectories_in(run + "/stream");
}

/// Those of training alone.
inline std::vector<proto::Trajectory> trajectories_of(const std::string& folder) {
  std::vector<proto::Trajectory> found = trajectories_in(folder);
  std::erase_if(
      found, [](const proto::Trajectory& t) { return t.key.kind != proto::TrajectoryKind::train; });
  return found;
}

/// Returns the versions that sampled a trajectory's tokens.
inline std::set<uint32_t> versions_of(const proto::Trajectory& t) {
  std::set<uint32_t> versions;
  for (size_t i = 0; i < t.tokens.size(); ++i)
    if (t.response_mask[i] == 1) versions.insert(t.token_versions[i]);
  return versions;
}

/// A small run of configs/`config` that pays answers for a 7 in them: a signal now and then, of a
/// policy that has learnt little.
inline std::vector<std::string> paid_for_a_seven(const std::string& config,
                                                 const TempFolder& folder,
                                                 std::vector<std::string> overrides,
                                                 const std::vector<std::string>& more) {
  overrides.insert(
      overrides.end(),
      {"rollout_batch_size=8", "num_return_sequences_in_group=4", "eval_steps=-1",
       "~rewards.answer", "+rewards.answer.type=format", "+rewards.answer.args={pattern: '7'}"});
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_run(std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/" + config, folder,
                   overrides);
}

/// FLOW-1: returns what is wrong with the trajectories of `steps` steps, or nothing.
inline std::string flow_1(const StreamFacts& facts, uint64_t steps, uint32_t groups,
                          uint32_t group_size) {
  if (!facts.error.empty()) return facts.error;
  for (uint64_t step = 1; step <= steps; ++step) {
    auto found = facts.trained.find(step);
    if (found == facts.trained.end()) return "step " + std::to_string(step) + " has none";
    if (found->second.size() != size_t{groups} * group_size)
      return "step " + std::to_string(step) + " has " + std::to_string(found->second.size());
    for (const auto& [key, count] : found->second)
      if (count != 1)
        return "step " + std::to_string(step) + ", group " + std::to_string(key.first) +
               ", index " + std::to_string(key.second) + " is there " + std::to_string(count) +
               " times";
  }
  return "";
}

/// FLOW-1, FLOW-3, FLOWING-1: returns what is wrong with a run that was fully_async and `depth`
/// steps ahead, or nothing. A life of the run, up to a resume, records a trajectory once; what it
/// has recorded after its last checkpoint the next one records again.
inline std::string flowing_error(const std::string& run, uint64_t steps, size_t per_step,
                                 uint64_t depth) {
  std::set<proto::TrajectoryKey> all, of_life;
  auto reader = stream::Reader::open(run + "/stream");
  if (!reader) return reader.error().detail;
  while (auto record = reader->next().value()) {
    if (record->info.type == stream::RecordType::event &&
        nlohmann::json::parse(record->text()).value("kind", "") == "resume")
      of_life.clear();
    if (record->info.type != stream::RecordType::trajectory) continue;
    const proto::Trajectory t = record->trajectory().value();
    if (t.key.kind != proto::TrajectoryKind::train) continue;
    const std::set<uint32_t> versions = versions_of(t);
    if (!of_life.insert(t.key).second) return to_string(t.key) + " is recorded twice";
    if (versions.empty() || *versions.begin() != t.weight_version_min ||
        *versions.rbegin() != t.weight_version_max || *versions.rbegin() >= t.key.step ||
        *versions.begin() + depth + 1 < t.key.step)
      return to_string(t.key) + " is of versions " + std::to_string(t.weight_version_min) + " to " +
             std::to_string(t.weight_version_max);
    all.insert(t.key);
  }
  std::map<uint64_t, size_t> count;
  for (const proto::TrajectoryKey& key : all) ++count[key.step];
  for (uint64_t step = 1; step <= steps; ++step)
    if (count[step] != per_step)
      return "step " + std::to_string(step) + " has " + std::to_string(count[step]);
  return "";
}

}  // namespace cohort::test
